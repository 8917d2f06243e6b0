"""What the statements of a run say of the modules that a candidate adds."""

from __future__ import annotations

from swe_retry.testing.origins import shadowing


def test_new_files_that_imports_would_find_first_are_named() -> None:
    """A package at the root of the tree has no name, so no import finds it."""
    start = {"path": ["", "src"], "importable": ["json", "os"]}
    paths = [
        "__init__.py",
        "json.py",
        "src/os/__init__.py",
        "json.txt",
        "tests/json.py",
        "os.py",
    ]
    changes = dict.fromkeys(paths, b"")
    shadows = shadowing(changes, ["os.py"], {"begin": start})
    assert sorted(shadows) == ["json.py", "src/os/__init__.py"]
