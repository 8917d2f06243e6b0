"""What the statements of a run say of the modules that a candidate adds."""

from __future__ import annotations

from bench.regression.statements import shadowing


def test_new_files_that_imports_would_find_first_are_named() -> None:
    """A package at the root of the tree has no name, so no import finds it."""
    base = {"begin": {"path": ["", "src"], "importable": ["json", "os"]}}
    new = ["__init__.py", "json.py", "src/os/__init__.py", "json.txt", "tests/json.py"]
    changes = dict.fromkeys([*new, "os.py"], b"")
    assert sorted(shadowing(changes, ["os.py"], base)) == [
        "json.py",
        "src/os/__init__.py",
    ]
