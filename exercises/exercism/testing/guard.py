"""Sees in the process of the tests whether code under test replaced what judges it.

A part of the script that ``inside`` describes: it is sent with it, and imports nothing of this
project.
"""

import builtins
import functools
import os
import sys
import types
from typing import Any

_GUARDED = ("unittest", "pytest", "_pytest", "pluggy")
# pytest adds such methods to classes of tests.
_OF_PYTEST = "__pytest"
_COMPARING = (
    "assertEqual", "assertAlmostEqual", "assertSequenceEqual", "assertListEqual", "assertIn",
    "assertTupleEqual", "assertSetEqual", "assertDictEqual", "assertCountEqual",
    "assertMultiLineEqual",
)  # fmt: skip
_DEEPEST, _MOST_VALUES = 3, 1000
# unittest and pytest leave frames of such modules out of what they print.
__unittest = True


class Guard:
    """Sees whether functions were replaced: by identity, with their code."""

    def __init__(self, solution: list[str]) -> None:
        self._folder = os.getcwd() + os.sep  # noqa: PTH109
        self._solution = {self._folder + path for path in solution}
        self._kept: list[tuple[str, Any, dict[str, Any]]] = []
        self._builtins = vars(builtins)
        self._builtins_before = dict(self._builtins)
        self.problem = ""

    def begin(self) -> None:
        """Keep the functions of the test runners, then let modules of the folder be imported."""
        import unittest

        base = unittest.TestCase
        for name in _COMPARING:
            setattr(base, name, _refusing(getattr(base, name)))
        base._callTestMethod = self._watching(base._callTestMethod, {*vars(base)})  # type: ignore[attr-defined]
        for name, module in list(sys.modules.items()):
            if name.partition(".")[0] in _GUARDED:
                self._keep(name, module)
        sys.path.insert(0, os.getcwd())  # noqa: PTH109

    def add_tests(self) -> None:
        """Keep the functions of the modules in the folder that are no solution files."""
        for name, module in list(sys.modules.items()):
            place = getattr(module, "__file__", None) or ""
            if place.startswith(self._folder) and place not in self._solution:
                self._keep(name, module)

    def check(self) -> str:
        """Return what was replaced, empty for nothing."""
        # The builtins first, and without using any: the rest relies on them.
        for name, value in self._builtins_before.items():
            if self._builtins.get(name) is not value:
                return "builtins." + name + " was replaced"
        for label, owner, before in self._kept:
            now = _functions(owner)
            names = before if isinstance(owner, types.ModuleType) else before.keys() | now.keys()
            for name in names:
                same = [*map(id, before.get(name, ()))] == [*map(id, now.get(name, ()))]
                if not same and not name.startswith(_OF_PYTEST):
                    return f"{label}.{name} was replaced"
        return self.problem

    def _keep(self, name: str, module: Any) -> None:  # noqa: ANN401
        self._kept.append((name, module, _functions(module)))
        for one in list(vars(module).values()):
            if isinstance(one, type) and one.__module__ == name:
                label = f"{name}.{one.__qualname__}"
                self._kept.append((label, one, _functions(one)))
                for attribute, value in vars(one).items():
                    if _file(value) in self._solution:
                        self.problem = f"{label}.{attribute} was replaced"

    def _watching(self, method: Any, names: "set[str]") -> Any:  # noqa: ANN401
        """Return what calls a test and sees functions that replace those of its class."""

        @functools.wraps(method)
        def watched(case: Any, *args: Any) -> None:  # noqa: ANN401
            try:
                method(case, *args)
            finally:
                for name, value in vars(case).items():
                    if name in names and callable(value):
                        self.problem = f"{name} of a test was replaced"

        return watched


def _file(value: Any) -> str:  # noqa: ANN401
    return str(getattr(getattr(value, "__code__", None), "co_filename", ""))


def _functions(owner: Any) -> dict[str, tuple[Any, ...]]:  # noqa: ANN401
    """Return what can be called in a class or module, with the parts that can be replaced."""
    return {
        name: (value, *_parts(getattr(value, "__func__", value)))
        for name, value in list(vars(owner).items())
        if callable(value) or isinstance(value, (classmethod, staticmethod, property))
    }


def _parts(value: Any) -> tuple[Any, ...]:  # noqa: ANN401
    if not isinstance(value, types.FunctionType):
        return ()
    return (value.__code__, value.__defaults__, value.__kwdefaults__)


def _refusing(method: Any) -> Any:  # noqa: ANN401
    """Return an assertion that fails also where a value would equal anything."""

    @functools.wraps(method)
    def compared(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401
        method(self, *args, **kwargs)
        if any(_equals_anything(value, _DEEPEST) for value in args[:2]):
            raise self.failureException("a value that equals every other shows nothing")

    return compared


def _equals_anything(value: Any, depth: int) -> bool:  # noqa: ANN401
    if depth and isinstance(value, (list, tuple, set, frozenset, dict)):
        parts = value.values() if isinstance(value, dict) else value
        some = [part for part, _ in zip(parts, range(_MOST_VALUES), strict=False)]
        if any(_equals_anything(part, depth - 1) for part in some):
            return True
    if type(value).__module__ == "builtins":
        return False
    try:
        return bool(value == object())
    except Exception:
        return False
