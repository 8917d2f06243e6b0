"""State where the modules of a test run come from. PYTEST_DONT_REWRITE.

This runs in the runner's process (see ``bench.regression.statements``): pytest loads it with
``-p``, before other plugins and the configuration of tests; for other runners it is Python's
``sitecustomize``. It must work in Python 3.6 and with pytest 3.
"""

import atexit
import base64
import hashlib
import json
import os
import sys
import zlib
from types import FunctionType
from typing import Any

_STARTUP = {"sitecustomize", "usercustomize"}
_STATUSES = {
    "addSuccess": "PASSED",
    "addExpectedFailure": "XFAIL",
    "addSkip": "SKIPPED",
    "addFailure": "FAILED",
    "addUnexpectedSuccess": "FAILED",
    "addSubTest": "FAILED",
    "addError": "ERROR",
}


class Speaker:
    """Writes statements to the output that the runner has now.

    ``first_callables`` are the functions of other modules when they were first seen, by module;
    ``tests`` are the results of unittest.
    """

    def __init__(self, mark: str, tree: str, names: Any) -> None:  # noqa: ANN401
        self.mark = mark
        self.names = names
        self.tree = os.path.abspath(tree) + os.sep  # noqa: PTH100
        self.output = os.dup(1)
        self.process = os.getpid()
        self.moments: Any = set()
        self.first_callables: Any = {}
        self.tests: Any = []

    def say(self, moment: str, **facts: Any) -> None:  # noqa: ANN401
        """Write what holds at ``moment``, once; no process that was forked speaks."""
        if moment in self.moments or os.getpid() != self.process:
            return
        self.moments.add(moment)
        facts["inside"], facts["outside"] = self._module_files()
        if not self.names:
            facts["changed"] = self._changes(facts["inside"])
        origins = {**facts["inside"], **facts["outside"]}
        facts["marked"] = []
        for name in self.names:
            if self._has_mark(origins.get(name, "")):
                facts["marked"].append(name)
        paths = [self.within(path) for path in sys.path]
        facts["path"] = [path for path in paths if path is not None]
        finders = [*sys.meta_path, *sys.path_hooks]
        facts["finders"] = sorted(map(_name, finders))
        packed = zlib.compress(json.dumps(facts).encode())
        text = base64.b64encode(packed).decode()
        os.write(self.output, f"\n{self.mark} {moment} {text}\n".encode())

    def _changes(self, inside: Any) -> Any:  # noqa: ANN401
        """Return the names of functions that are not what they were at first, or are new."""
        changed = []
        for module, callables in self._callables(inside).items():
            first = self.first_callables.setdefault(module, callables)
            for name in set(first).union(callables):
                before = first.get(name, (None, None))
                after = callables.get(name, (None, None))
                if before[0] is not after[0] or before[1] is not after[1]:
                    changed.append(f"{module}.{name}")
        return sorted(changed)

    def record_tests(self) -> None:
        """Keep the results that unittest's own runner gets."""
        from unittest import TestResult

        for name, status in _STATUSES.items():
            setattr(
                TestResult, name, self._recording(getattr(TestResult, name), status)
            )

    def _recording(self, method: Any, status: str) -> Any:  # noqa: ANN401
        def record(result: Any, test: Any, *details: Any) -> None:  # noqa: ANN401
            # A subtest that passes has no error.
            if details[1:] != (None,):
                self.tests.append((str(test), status))
            method(result, test, *details)

        return record

    def importable(self) -> Any:  # noqa: ANN401
        """Return the top-level names that can be imported from outside of the tree."""
        names = _STARTUP.union(sys.builtin_module_names)
        for folder in sys.path:
            if self.within(folder) is None and os.path.isdir(folder):  # noqa: PTH112
                files = os.listdir(folder)  # noqa: PTH208
                names.update(file.partition(".")[0] for file in files)
        return sorted(names)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:  # noqa: ANN401
        """End the process at an import after those of all ``names``: the tests need not run."""
        if self.names and "end" not in self.moments and self.are_imported(all):
            self.say("end")
            os._exit(0)

    def leave(self) -> None:
        """State the end, unless this is another interpreter than the one that imports the names."""
        if not self.names or self.are_imported(any):
            self.say("end", tests=self.tests)

    def are_imported(self, how: Any) -> Any:  # noqa: ANN401
        """Return whether ``all`` or ``any`` of the names are imported."""
        return how(name in sys.modules for name in self.names)

    def _has_mark(self, path: str) -> bool:
        try:
            with open(os.path.join(self.tree, path), "rb") as stream:  # noqa: PTH118, PTH123
                return self.mark.encode() in stream.read()
        except OSError:
            return False

    def within(self, path: str) -> Any:  # noqa: ANN401
        """Return ``path`` relative to the tree; None where it lies outside."""
        full_path = os.path.abspath(path) + os.sep  # noqa: PTH100
        if not full_path.startswith(self.tree):
            return None
        return full_path[len(self.tree) :].rstrip("/")

    def _module_files(self) -> Any:  # noqa: ANN401
        inside: Any = {}
        outside: Any = {}
        for name, module in list(sys.modules.items()):
            values = getattr(module, "__dict__", {})
            specification = values.get("__spec__")
            file = values.get("__file__") or getattr(specification, "origin", None)
            within = None
            if isinstance(file, str) and file[:1] == "/":
                within = self.within(file)
            if within is None:
                outside[name] = str(file)
            else:
                inside[name] = str(within or file)
        return inside, outside

    def _callables(self, inside: Any) -> Any:  # noqa: ANN401
        """Return functions, classes and methods by the modules that are not ``inside``."""
        by_module: Any = {}
        for name, module in list(sys.modules.items()):
            if name in inside:
                continue
            callables = by_module[name] = {}
            values = getattr(module, "__dict__", {})
            for key, value in list(values.items()):
                # pytest keeps the type of the last failure there.
                if callable(value) and key != "last_type":
                    callables[key] = (value, _code(value))
                # isinstance would ask the value for its class, and a proxy may warn or import then.
                if issubclass(type(value), type) and value.__module__ == name:
                    for inner, method in list(vars(value).items()):
                        if hasattr(type(method), "__get__"):
                            callables[f"{key}.{inner}"] = (method, _code(method))
        return by_module


def _code(value: Any) -> Any:  # noqa: ANN401
    # Of other objects an attribute may be looked up by an import.
    if type(value) in (classmethod, staticmethod):
        value = value.__func__
    return value.__code__ if type(value) is FunctionType else None


def _name(value: Any) -> str:  # noqa: ANN401
    if isinstance(value, type(sys)):
        return value.__name__
    kind = value if isinstance(value, (type, FunctionType)) else type(value)
    return f"{kind.__module__}.{kind.__qualname__}"


def speak(mark: str, tree: str, names: Any) -> None:  # noqa: ANN401
    """Say what holds now, and let the hooks of this module say the rest."""
    here = os.path.dirname(__file__)  # noqa: PTH120
    sys.path.remove(here)
    speaker = Speaker(mark, tree, names)
    if __name__ == "sitecustomize":
        paths = os.environ["PYTHONPATH"].split(os.pathsep)
        del paths[0]
        os.environ["PYTHONPATH"] = os.pathsep.join(paths)
        atexit.register(speaker.leave)
        speaker.record_tests()
    elif "PYTEST_XDIST_WORKER" in os.environ:
        return
    globals()["_speaker"] = speaker
    if names:
        sys.meta_path.insert(0, speaker)
    else:
        speaker.say("begin", importable=speaker.importable())


def _say(moment: str, config: Any, **facts: Any) -> None:  # noqa: ANN401
    speaker = globals().get("_speaker")
    if not speaker:
        return
    hooks = sorted(_hooks(config.pluginmanager.hook))
    speaker.say(moment, hooks=hooks, **facts)


def _hooks(relay: Any) -> Any:  # noqa: ANN401
    """Yield the implementations of each hook, by the attributes of all versions of pluggy."""
    for name, caller in vars(relay).items():
        for attribute in ("_hookimpls", "_wrappers", "_nonwrappers"):
            for implementation in getattr(caller, attribute, ()):
                module = getattr(implementation.function, "__module__", "")
                if module != __name__:
                    yield f"{name} {module}"


def pytest_collectstart(collector: Any) -> None:  # noqa: ANN401
    """State the hooks before the first test file is imported."""
    import pytest

    if isinstance(collector, pytest.File):
        _say("files", collector.config)


def pytest_unconfigure(config: Any) -> None:  # noqa: ANN401
    """State what holds at the end, with a hash of the report."""
    try:
        with open(config.option.xmlpath, "rb") as stream:  # noqa: PTH123
            data = stream.read()
        report = hashlib.sha256(data.strip()).hexdigest()
    except (OSError, TypeError):
        report = ""
    _say("end", config, report=report)
