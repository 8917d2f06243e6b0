"""Sees in the process of the tests whether code under test replaced what judges it.

A part of the script that ``inside`` describes: it is sent with it, and imports nothing of this
project.
"""

import functools
import os
import sys
import types
from typing import Any

_GUARDED = ("unittest", "pytest", "_pytest", "pluggy", "builtins")
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
        self._problem = ""

    def begin(self) -> None:
        """Keep the functions of the runners that are imported, and of Python itself."""
        import unittest

        for name in _COMPARING:
            method = getattr(unittest.TestCase, name)
            setattr(unittest.TestCase, name, _refusing(method))
        for name, module in list(sys.modules.items()):
            if name.partition(".")[0] in _GUARDED:
                self._keep(name, module)

    def add_tests(self) -> None:
        """Keep the functions of the modules in the folder that are no solution files."""
        for name, module in list(sys.modules.items()):
            place = getattr(module, "__file__", None) or ""
            if place.startswith(self._folder) and place not in self._solution:
                self._keep(name, module)
                self._check_tests(module)

    def problem(self) -> str:
        """Return what was replaced, empty for nothing."""
        for label, owner, before in self._kept:
            now = _functions(owner)
            names = before if isinstance(owner, types.ModuleType) else before.keys() | now.keys()
            for name in names:
                if name.startswith("__pytest"):
                    continue
                one, other = before.get(name, ()), now.get(name, ())
                if len(one) != len(other) or any(
                    a is not b for a, b in zip(one, other, strict=False)
                ):
                    return f"{label}.{name} was replaced"
        return self._problem

    def _keep(self, name: str, module: Any) -> None:  # noqa: ANN401
        self._kept.append((name, module, _functions(module)))
        for one in list(vars(module).values()):
            if isinstance(one, type) and one.__module__ == name:
                self._kept.append((f"{name}.{one.__qualname__}", one, _functions(one)))

    def _check_tests(self, module: Any) -> None:  # noqa: ANN401
        for one in list(vars(module).values()):
            if isinstance(one, type) and one.__module__ == module.__name__:
                for name, value in vars(one).items():
                    code = getattr(value, "__code__", None)
                    if getattr(code, "co_filename", "") in self._solution:
                        self._problem = f"{module.__name__}.{one.__qualname__}.{name} was replaced"


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
