"""Pure: random breakages of source trees that tests must detect."""

from __future__ import annotations

import ast
import random
import re
import secrets
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import PurePosixPath

from agent.workspace import Workspace
from bench.instances.instance import Instance
from bench.regression.related import RelatedTests, directive
from bench.regression.runners import Runner, runner_of
from bench.regression.testlogs import Results, read_run, with_report_file
from benchmarks.regression import InstanceTests
from environments.base import run_once
from runs.patches import is_test_path

_FOLDER = ".planted"
# The factor by which tracing slows a run down, and some seconds to start. Slow files are skipped.
_SLOWER = 15
_START = 30
_SLOW = 20
# For every Python since 3.6. Processes that tests start write their lines to separate files.
_TRACER = b"""\
import atexit, os, sys, threading
root = os.environ["PLANTED_ROOT"] + os.sep
test = os.path.join(root, os.environ["PLANTED_TEST"])
running, seen = [], set()
def trace(frame, event, arg):
    code = frame.f_code
    if event == "call":
        if running:
            if code.co_filename.startswith(root):
                seen.add((code.co_firstlineno, running[0].f_code.co_name, code.co_filename))
        elif code.co_name.startswith("test") and code.co_filename == test:
            running.append(frame)
    elif event == "return" and running and frame is running[0]:
        running.clear()
def write():
    sys.setprofile(None)
    lines = ["%d\\t%s\\t%s" % (n, name, path[len(root):]) for n, name, path in sorted(seen)]
    with open(os.path.join(os.environ["PLANTED_OUT"], str(os.getpid())), "w") as out:
        out.write("".join(line + "\\n" for line in lines))
atexit.register(write)
threading.setprofile(trace)
sys.setprofile(trace)
"""


@dataclass(frozen=True, order=True)
class Function:
    """A function: its file, its first line from 1 with decorators, its name."""

    path: str
    line: int
    name: str


@dataclass
class Executed:
    """Finds the functions that tests execute in one session.

    Attributes:
        seconds: time limit for the tests of one module.
    """

    instance: Instance
    checks: InstanceTests
    seconds: float
    _traced: dict[str, tuple[frozenset[tuple[str, int]], float]] = field(
        default_factory=dict
    )

    def functions(self, path: str) -> list[Function]:
        """Return the functions of ``path`` that its regression tests execute, sorted."""
        files = self.checks.base.tracked_files()
        read = Workspace(self.checks.base.root).read
        left = self.seconds
        places: set[tuple[str, int]] = set()
        for test in RelatedTests(files, read).of([path]):
            found, seconds = self._of_test(test, left)
            places |= found
            left -= seconds
            if left <= 0:
                break
        source = read(path) or ""
        return sorted(f for f in functions(path, source) if (path, f.line) in places)

    def _of_test(
        self, test: str, seconds: float
    ) -> tuple[frozenset[tuple[str, int]], float]:
        if test not in self._traced:
            self._traced[test] = self._trace(test, seconds)
        return self._traced[test]

    def _trace(
        self, test: str, seconds: float
    ) -> tuple[frozenset[tuple[str, int]], float]:
        """Return the functions that a file's passing tests execute, and the untraced seconds."""
        session = self.checks.session
        runner = runner_of(session.test_command) or Runner.PYTEST
        command = f"{session.test_command} {shlex.quote(directive(runner, test))}"
        token = secrets.token_hex(16)
        plain = run_once(session, {}, with_report_file(command, runner, token), seconds)
        files = self.checks.base.tracked_files()
        run = read_run(plain.output, self.instance, runner, token, files)
        passing = passing_functions(run.results)
        if not passing or plain.seconds > _SLOW:
            return frozenset(), plain.seconds
        changes = {f"{_FOLDER}/sitecustomize.py": _TRACER}
        limit = plain.seconds * _SLOWER + _START
        result = run_once(session, changes, _traced_script(command, test, token), limit)
        rows = (
            line.split("\t", 2)
            for line in result.output.partition(f"\n{token}\n")[2].splitlines()
        )
        found = set()
        for row in rows:
            if len(row) == 3 and row[1] in passing:
                found.add((row[2], int(row[0])))
        return frozenset(found), plain.seconds


def _traced_script(command: str, test: str, token: str) -> str:
    """Return lines that run ``command`` traced and print the functions after ``token``."""
    lines = [
        f'export PLANTED_ROOT="$(pwd -P)" PLANTED_TEST={shlex.quote(test)}',
        'export PLANTED_OUT="$(mktemp -d)"',
        f'export PYTHONPATH="$PLANTED_ROOT/{_FOLDER}${{PYTHONPATH:+:$PYTHONPATH}}"',
        command,
        f"printf '\\n%s\\n' {token}",
        'cat "$PLANTED_OUT"/*',
    ]
    return "\n".join(lines)


def passing_functions(results: Results) -> frozenset[str]:
    """Return the last parts of the names of test functions whose tests all pass."""
    by: dict[str, set[str]] = {}
    for name, status in results.items():
        by.setdefault(name.rpartition("::")[2].partition("[")[0], set()).add(status)
    return frozenset(name for name, found in by.items() if found == {"PASSED"})


def functions(path: str, source: str) -> Iterator[Function]:
    """Yield the functions of a file; none if this Python cannot parse it."""
    try:
        nodes = list(ast.walk(ast.parse(source)))
    except (SyntaxError, ValueError):
        return
    for node in nodes:
        if isinstance(node, ast.FunctionDef):
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            yield Function(path, first, node.name)


def modules(files: Sequence[str]) -> list[str]:
    """Return the modules of packages among the tracked files, except tests."""
    return [
        p for p in files if p.endswith(".py") and not is_test_path(p) and _top(p, files)
    ]


def package_of(paths: Iterable[str], files: Sequence[str]) -> str:
    """Return the ``__init__.py`` of the top-level package that contains most of ``paths``."""
    counts: Mapping[str, int] = _counted(_top(path, files) for path in paths)
    return max(counts, key=lambda name: counts[name])


def _counted(names: Iterable[str]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for name in filter(None, names):
        counts[name] = counts.get(name, 0) + 1
    return counts


def _top(path: str, files: Sequence[str]) -> str:
    """Return the ``__init__.py`` of the outermost package around ``path``, empty if none."""
    known = {*files}
    above = [f"{folder}/__init__.py" for folder in PurePosixPath(path).parents]
    return next((name for name in reversed(above) if name in known), "")


Read = Callable[[str], str | None]

_RAISE = 'raise RuntimeError("planted breakage")'
_AT_IMPORT = (
    _RAISE,
    "import planted_missing_module",
    "from os import planted_missing_name",
    "raise SystemExit(0)",
    "planted_undefined_name",
    "def planted(:",
)
_IN_SETUP = (
    _RAISE,
    "import planted_missing_module",
    "from setuptools import planted_missing_name",
    "raise SystemExit(1)",
    "def planted(:",
)
_BUILD_FILES = ("setup.py", "setup.cfg", "pyproject.toml")
_BACKEND = 'build-backend = "planted_missing_backend"'
_COMMENT = "\n# planted: a harmless edit beside the broken build\n"


class BreakageKind(str, Enum):
    """The kind of a breakage."""

    IMPORT = "import of the package"
    FUNCTION = "executed function"
    BUILD = "build configuration"
    MODULE = "imported module"


@dataclass(frozen=True)
class Breakage:
    """A broken tree; ``changes`` are those of a session."""

    kind: BreakageKind
    what: str
    changes: Mapping[str, bytes]


@dataclass(frozen=True)
class Planter:
    """Makes random breakages.

    Attributes:
        executed: functions that passing tests of their file's selection execute.
        package: the ``__init__.py`` of the package under test.
        files: the tracked files.
        read: returns a file's text.
    """

    executed: Sequence[Function]
    package: str
    files: Sequence[str]
    read: Read
    chance: random.Random

    def plant(self, each: int, spare: int = 0) -> list[Breakage]:
        """Return ``each`` breakages of each kind, or fewer if the tree allows no more.

        Of functions there are ``spare`` more, for those whose exceptions the project swallows.
        """
        imports = self.chance.sample(_AT_IMPORT, min(each, len(_AT_IMPORT)))
        drawn = self.chance.sample(self.executed, len(self.executed))
        bodies = [b for function in drawn if (b := self._in_function(function))]
        return [
            *(
                self._at_import(BreakageKind.IMPORT, self.package, line)
                for line in imports
            ),
            *bodies[: each + spare],
            *self._builds(drawn[0].path)[:each],
            *(
                self._module(n, function)
                for n, function in enumerate(_spread(drawn)[:each])
            ),
        ]

    def _at_import(
        self,
        kind: BreakageKind,
        path: str,
        line: str,
    ) -> Breakage:
        return Breakage(
            kind, f"{path}: {line}", _inserted(path, self._text(path), line)
        )

    def _in_function(self, function: Function) -> Breakage | None:
        text = self._text(function.path)
        place = _body_of(text, function.line)
        if (
            place is None or function.name == "__del__"
        ):  # Python swallows what that raises
            return None
        lines = text.splitlines(keepends=True)
        lines.insert(place[0] - 1, f"{place[1]}{_RAISE}\n")
        data = "".join(lines).encode()
        what = f"{function.path}: {function.name} raises"
        return Breakage(BreakageKind.FUNCTION, what, {function.path: data})

    def _builds(self, beside: str) -> list[Breakage]:
        """Return broken builds, with a harmless edit of ``beside`` so that tests are selected."""
        harmless = {beside: (self._text(beside) + _COMMENT).encode()}
        found = list[Breakage]()
        for path in _BUILD_FILES:
            if path in self.files:
                for what, changes in _broken_builds(path, self._text(path)):
                    found.append(
                        Breakage(
                            BreakageKind.BUILD,
                            f"{path}: {what}",
                            {**changes, **harmless},
                        )
                    )
        return self.chance.sample(found, len(found))

    def _module(self, number: int, function: Function) -> Breakage:
        """Break the module of ``function`` in different ways."""
        path = function.path
        text = self._text(path)
        cut = "".join(text.splitlines(keepends=True)[: function.line - 1])
        ways = {
            "raises at import": _inserted(path, text, _RAISE),
            "is empty": {path: b""},
            f"is cut off before {function.name}": {path: cut.encode()},
            "imports a missing module": _inserted(
                path, text, "import planted_missing_module"
            ),
            "does not parse": {path: f"{text}\ndef planted(:\n".encode()},
        }
        what = list(ways)[number % len(ways)]
        return Breakage(BreakageKind.MODULE, f"{path}: {what}", ways[what])

    def _text(self, path: str) -> str:
        return self.read(path) or ""


def _broken_builds(path: str, text: str) -> Iterator[tuple[str, dict[str, bytes]]]:
    """Yield breakages of a build file, each with a description."""
    if path == "setup.py":
        yield from ((line, _inserted(path, text, line)) for line in _IN_SETUP)
        return
    yield "a broken section", {path: f"[planted\n{text}".encode()}
    if path != "pyproject.toml":
        return
    backend = re.sub(r"(?m)^build-backend\b.*\n", "", text)
    named = backend.replace("[build-system]", f"[build-system]\n{_BACKEND}", 1)
    ways = {
        "a text without an end": f'{text}\nplanted = "\n',
        "a table twice": f"{text}\n[build-system]\nrequires = []\n",
        "a missing backend": named,
        "a name that is a number": re.sub(
            r"(?m)^name\s*=.*$", "name = 1", text, count=1
        ),
    }
    known = "[build-system]" in text
    yield from (
        (what, {path: new.encode()})
        for what, new in ways.items()
        if known and new != text
    )


def _spread(drawn: Sequence[Function]) -> list[Function]:
    """Return ``drawn``, starting with one function of each file."""
    first = {function.path: function for function in reversed(drawn)}
    return [*first.values(), *(f for f in drawn if f not in first.values())]


def _inserted(path: str, text: str, line: str) -> dict[str, bytes]:
    """Insert ``line`` after the file's docstring and its ``__future__`` imports."""
    lines = text.splitlines(keepends=True)
    last = 0
    for node in ast.parse(text).body:
        docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        future = isinstance(node, ast.ImportFrom) and node.module == "__future__"
        if not docstring and not future:
            break
        last = node.end_lineno or last
    if last == 0:  # a comment that names the encoding stays on top
        last = next(
            (n for n, one in enumerate(lines) if not one.startswith("#")), len(lines)
        )
    return {path: "".join([*lines[:last], f"\n{line}\n", *lines[last:]]).encode()}


def _body_of(text: str, first_line: int) -> tuple[int, str] | None:
    """Return line and indentation of a function's first statement; None for one-line functions."""
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.FunctionDef):
            continue
        if min([node.lineno, *(d.lineno for d in node.decorator_list)]) != first_line:
            continue
        if node.body[0].lineno == node.lineno:
            return None
        line = text.splitlines()[node.body[0].lineno - 1]
        indent = line[: len(line) - len(line.lstrip())]
        return (_after_docstring(node), indent)
    return None


def _after_docstring(node: ast.FunctionDef) -> int:
    first = node.body[0]
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
        return (first.end_lineno or first.lineno) + 1
    decorators: list[ast.expr] = getattr(first, "decorator_list", [])
    return min([first.lineno, *(d.lineno for d in decorators)])
