"""What the statements of a run say of the modules that a candidate adds."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from swe_retry.testing.origins import shadowing
from swe_retry.testing.origins_plugin import Speaker


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


def warn(value: object) -> type:
    raise DeprecationWarning("a proxy of a deprecated module does so")


def test_values_are_not_asked_what_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("shy")
    shy = type("Shy", (), {"__class__": property(warn)})
    vars(module)["value"] = shy()
    monkeypatch.setitem(sys.modules, "shy", module)
    speaker = Speaker("mark", "/tree", ())
    assert speaker._callables({})["shy"] == {}
