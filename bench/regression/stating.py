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


class Speaker:
    """Writes statements to the output that the runner has now; ``kept`` is what was there first."""

    def __init__(self, mark: str, tree: str, names: Any) -> None:  # noqa: ANN401
        self.mark, self.names = mark, names
        self.tree = os.path.abspath(tree) + os.sep  # noqa: PTH100
        self.output, self.process = os.dup(1), os.getpid()
        self.said: Any = set()
        self.kept: Any = {}

    def say(self, moment: str, **facts: Any) -> None:  # noqa: ANN401
        """Write what holds at ``moment``, once; no process that was forked speaks."""
        if moment in self.said or os.getpid() != self.process:
            return
        self.said.add(moment)
        facts["inside"], facts["outside"] = self._places()
        now = {} if self.names else self._callables(facts["inside"])
        for name, value in now.items():
            self.kept.setdefault(name, (value, _code(value)))
        if moment == "end":
            facts["changed"] = sorted(
                name
                for name, (value, code) in self.kept.items()
                if now.get(name) is not value or _code(value) is not code
            )
        places = {**facts["inside"], **facts["outside"]}
        facts["marked"] = [
            name for name in self.names if self._marked(places.get(name, ""))
        ]
        facts["path"] = [
            place for place in map(self.within, sys.path) if place is not None
        ]
        facts["finders"] = sorted(map(_name, [*sys.meta_path, *sys.path_hooks]))
        packed = base64.b64encode(zlib.compress(json.dumps(facts).encode())).decode()
        os.write(self.output, f"\n{self.mark} {moment} {packed}\n".encode())

    def importable(self) -> Any:  # noqa: ANN401
        """Return the top-level names that can be imported from outside of the tree."""
        places = [place for place in sys.path if self.within(place) is None]
        folders = (place for place in places if os.path.isdir(place))  # noqa: PTH112
        found = {name.partition(".")[0] for p in folders for name in os.listdir(p)}  # noqa: PTH208
        return sorted(found | set(sys.builtin_module_names) | _STARTUP)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:  # noqa: ANN401
        """End the process at an import after those of all ``names``: the tests need not run."""
        if self.names and "end" not in self.said and self.imported(all):
            self.say("end")
            os._exit(0)

    def leave(self) -> None:
        """State the end, unless this is another interpreter than the one that imports the names."""
        if not self.names or self.imported(any):
            self.say("end")

    def imported(self, how: Any) -> Any:  # noqa: ANN401
        """Return whether ``all`` or ``any`` of the names are imported."""
        return how(name in sys.modules for name in self.names)

    def _marked(self, place: str) -> bool:
        try:
            with open(os.path.join(self.tree, place), "rb") as stream:  # noqa: PTH118, PTH123
                return self.mark.encode() in stream.read()
        except OSError:
            return False

    def within(self, place: str) -> Any:  # noqa: ANN401
        """Return ``place`` relative to the tree; None where it lies outside."""
        found = os.path.abspath(place) + os.sep  # noqa: PTH100
        return (
            found[len(self.tree) :].rstrip("/") if found.startswith(self.tree) else None
        )

    def _places(self) -> Any:  # noqa: ANN401
        inside: Any = {}
        outside: Any = {}
        for name, module in list(sys.modules.items()):
            values = getattr(module, "__dict__", {})
            place = values.get("__file__") or getattr(
                values.get("__spec__"), "origin", None
            )
            within = (
                self.within(place)
                if isinstance(place, str) and place[:1] == "/"
                else None
            )
            (outside if within is None else inside)[name] = str(within or place)
        return inside, outside

    def _callables(self, inside: Any) -> Any:  # noqa: ANN401
        found = {}
        for name, module in list(sys.modules.items()):
            values = {} if name in inside else getattr(module, "__dict__", {})
            for key, value in list(values.items()):
                if callable(value):
                    found[f"{name}.{key}"] = value
                if isinstance(value, type) and value.__module__ == name:
                    own = [
                        (k, v)
                        for k, v in vars(value).items()
                        if hasattr(type(v), "__get__")
                    ]
                    found.update(
                        (f"{name}.{key}.{inner}", method) for inner, method in own
                    )
        return found


def _code(value: Any) -> Any:  # noqa: ANN401
    # Of other objects an attribute may be looked up by an import.
    function = value.__func__ if type(value) in (classmethod, staticmethod) else value
    return function.__code__ if type(function) is FunctionType else None


def _name(value: Any) -> str:  # noqa: ANN401
    if isinstance(value, type(sys)):
        return value.__name__
    kind = value if isinstance(value, (type, FunctionType)) else type(value)
    return f"{kind.__module__}.{kind.__qualname__}"


def _entry_points() -> Any:  # noqa: ANN401
    try:
        from importlib.metadata import distributions
    except ImportError:
        try:
            from importlib_metadata import distributions  # type: ignore[no-redef]
        except ImportError:
            from pkg_resources import iter_entry_points  # type: ignore[import-untyped]

            return sorted(
                (point.name, str(point)) for point in iter_entry_points("pytest11")
            )
    points = [point for one in distributions() for point in one.entry_points]
    return sorted(
        (point.name, point.value) for point in points if point.group == "pytest11"
    )


def speak(mark: str, tree: str, names: Any) -> None:  # noqa: ANN401
    """Say what holds now, and let the hooks of this module say the rest."""
    here = os.path.dirname(__file__)  # noqa: PTH120
    sys.path.remove(here)
    speaker = Speaker(mark, tree, names)
    if __name__ == "sitecustomize":
        paths = os.environ["PYTHONPATH"].split(os.pathsep)
        os.environ["PYTHONPATH"] = os.pathsep.join(paths[1:])
        atexit.register(speaker.leave)
    elif "PYTEST_XDIST_WORKER" in os.environ:
        return
    globals()["_speaker"] = speaker
    if names:
        sys.meta_path.insert(0, speaker)
    else:
        entries = [] if __name__ == "sitecustomize" else _entry_points()
        speaker.say("begin", importable=speaker.importable(), entries=entries)


def _say(moment: str, config: Any, **facts: Any) -> None:  # noqa: ANN401
    speaker = globals().get("_speaker")
    if speaker:
        plugins = [
            one for one in config.pluginmanager.get_plugins() if _name(one) != __name__
        ]
        facts["plugins"] = sorted(
            f"{_name(one)} {speaker.within(getattr(one, '__file__', None) or '/') or ''}"
            for one in plugins
        )
        speaker.say(moment, **facts)


def pytest_collectstart(collector: Any) -> None:  # noqa: ANN401
    """State the plugins before the first test file is imported."""
    import pytest

    if isinstance(collector, pytest.File):
        _say("files", collector.config)


def pytest_unconfigure(config: Any) -> None:  # noqa: ANN401
    """State what holds at the end, with a hash of the report."""
    try:
        with open(config.option.xmlpath, "rb") as stream:  # noqa: PTH123
            report = hashlib.sha256(stream.read().strip()).hexdigest()
    except (OSError, TypeError):
        report = ""
    _say("end", config, report=report)
