"""Random breakages of source trees, which ``benchmarks.planted_breakages`` tests. Pure."""

from __future__ import annotations

import ast
import random
import re
import secrets
import shlex
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import starmap
from pathlib import PurePosixPath

from benchmarks.regression import InstanceTests
from swe_retry.agent.workspace import Workspace
from swe_retry.environments.base import run_once
from swe_retry.frameworks import Runner, runner_of
from swe_retry.instances.instance import Instance
from swe_retry.record.patches import is_test_path
from swe_retry.testing.related import RelatedTests, directive
from swe_retry.testing.testlogs import Results, read_run, with_report_file

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


FunctionStart = tuple[str, int]
"""A file, and the first line of a function in it."""


@dataclass(frozen=True)
class Trace:
    """The functions that a file's passing tests execute, and the tests' untraced seconds."""

    starts: frozenset[FunctionStart]
    seconds: float


@dataclass
class Executed:
    """Finds the functions that tests execute in one session.

    Attributes:
        seconds: time limit for the tests of one module.
    """

    instance: Instance
    checks: InstanceTests
    seconds: float
    _traces: dict[str, Trace] = field(default_factory=dict)

    def functions(self, path: str) -> list[Function]:
        """Return the functions of ``path`` that its regression tests execute, sorted."""
        files = self.checks.base.tracked_files()
        read = Workspace(self.checks.base.root).read
        seconds_left = self.seconds
        starts: set[FunctionStart] = set()
        for test in RelatedTests(files, read).of([path]):
            if test not in self._traces:
                self._traces[test] = self._trace(test, seconds_left)
            trace = self._traces[test]
            starts |= trace.starts
            seconds_left -= trace.seconds
            if seconds_left <= 0:
                break
        executed = []
        for function in functions(path, read(path) or ""):
            if (path, function.line) in starts:
                executed.append(function)
        return sorted(executed)

    def _trace(self, test: str, seconds: float) -> Trace:
        """Find the functions that a file's passing tests execute."""
        session = self.checks.session
        runner = runner_of(session.test_command) or Runner.PYTEST
        command = f"{session.test_command} {shlex.quote(directive(runner, test))}"
        token = secrets.token_hex(16)
        plain_command = with_report_file(command, runner, token)
        plain = run_once(session, {}, plain_command, seconds)
        files = self.checks.base.tracked_files()
        run = read_run(plain.output, self.instance, runner, token, files)
        passing = passing_functions(run.results)
        if not passing or plain.seconds > _SLOW:
            return Trace(frozenset(), plain.seconds)
        changes = {f"{_FOLDER}/sitecustomize.py": _TRACER}
        limit = plain.seconds * _SLOWER + _START
        script = _tracing_script(command, test, token)
        result = run_once(session, changes, script, limit)
        _, _, traced = result.output.partition(f"\n{token}\n")
        starts = set()
        for line in traced.splitlines():
            cells = line.split("\t", 2)
            if len(cells) == 3 and cells[1] in passing:
                starts.add((cells[2], int(cells[0])))
        return Trace(frozenset(starts), plain.seconds)


def _tracing_script(command: str, test: str, token: str) -> str:
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
    statuses = defaultdict(set)
    for name, status in results.items():
        _, _, test = name.rpartition("::")
        function, _, _ = test.partition("[")
        statuses[function].add(status)
    return frozenset(name for name in statuses if statuses[name] == {"PASSED"})


def functions(path: str, source: str) -> Iterator[Function]:
    """Yield the functions of a file; none if this Python cannot parse it."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            yield Function(path, _first_line(node), node.name)


def _first_line(node: ast.stmt) -> int:
    """Return the line of a statement's first decorator, or its own."""
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    lines = [decorator.lineno for decorator in decorators]
    return min(lines, default=node.lineno)


def modules(files: Sequence[str]) -> list[str]:
    """Return the modules of packages among the tracked files, except tests."""
    paths = []
    for path in files:
        is_module = path.endswith(".py") and not is_test_path(path)
        if is_module and _top_package(path, files):
            paths.append(path)
    return paths


def package_of(paths: Iterable[str], files: Sequence[str]) -> str:
    """Return the ``__init__.py`` of the top-level package that contains most of ``paths``."""
    packages = Counter(_top_package(path, files) for path in paths)
    del packages[""]
    return packages.most_common(1)[0][0]


def _top_package(path: str, files: Sequence[str]) -> str:
    """Return the ``__init__.py`` of the outermost package around ``path``, empty if none."""
    for folder in reversed(PurePosixPath(path).parents):
        package = f"{folder}/__init__.py"
        if package in files:
            return package
    return ""


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


class BreakageKind(StrEnum):
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
        count = min(each, len(_AT_IMPORT))
        imports = self.chance.sample(_AT_IMPORT, count)
        drawn = self.chance.sample(self.executed, len(self.executed))
        bodies = list(filter(None, map(self._break_function, drawn)))
        builds = self._builds(drawn[0].path)
        modules = _one_of_each_file_first(drawn)[:each]
        return [
            *map(self._break_import, imports),
            *bodies[: each + spare],
            *builds[:each],
            *starmap(self._break_module, enumerate(modules)),
        ]

    def _break_import(self, line: str) -> Breakage:
        changes = _insert(self.package, self._text(self.package), line)
        return Breakage(BreakageKind.IMPORT, f"{self.package}: {line}", changes)

    def _break_function(self, function: Function) -> Breakage | None:
        if function.name == "__del__":  # Python swallows what that raises
            return None
        text = self._text(function.path)
        body = _body_of(text, function.line)
        if body is None:
            return None
        line, indent = body
        lines = text.splitlines(keepends=True)
        lines.insert(line - 1, f"{indent}{_RAISE}\n")
        changes = {function.path: "".join(lines).encode()}
        description = f"{function.path}: {function.name} raises"
        return Breakage(BreakageKind.FUNCTION, description, changes)

    def _builds(self, beside: str) -> list[Breakage]:
        """Return broken builds, with a harmless edit of ``beside`` so that tests are selected."""
        harmless_text = self._text(beside) + _COMMENT
        harmless = {beside: harmless_text.encode()}
        breakages = []
        for path in _BUILD_FILES:
            if path not in self.files:
                continue
            for description, changes in _broken_builds(path, self._text(path)):
                breakage = Breakage(
                    BreakageKind.BUILD,
                    f"{path}: {description}",
                    {**changes, **harmless},
                )
                breakages.append(breakage)
        return self.chance.sample(breakages, len(breakages))

    def _break_module(self, number: int, function: Function) -> Breakage:
        """Break the module of ``function`` in different ways."""
        path = function.path
        text = self._text(path)
        lines = text.splitlines(keepends=True)
        beginning = "".join(lines[: function.line - 1])
        missing_import = "import planted_missing_module"
        changes_by_way = {
            "raises at import": _insert(path, text, _RAISE),
            "is empty": {path: b""},
            f"is cut off before {function.name}": {path: beginning.encode()},
            "imports a missing module": _insert(path, text, missing_import),
            "does not parse": {path: f"{text}\ndef planted(:\n".encode()},
        }
        way = list(changes_by_way)[number % len(changes_by_way)]
        return Breakage(BreakageKind.MODULE, f"{path}: {way}", changes_by_way[way])

    def _text(self, path: str) -> str:
        return self.read(path) or ""


def _broken_builds(path: str, text: str) -> Iterator[tuple[str, dict[str, bytes]]]:
    """Yield breakages of a build file, each with a description."""
    if path == "setup.py":
        for line in _IN_SETUP:
            yield line, _insert(path, text, line)
        return
    yield "a broken section", {path: f"[planted\n{text}".encode()}
    if path != "pyproject.toml" or "[build-system]" not in text:
        return
    without_backend = re.sub(r"(?m)^build-backend\b.*\n", "", text)
    heading = "[build-system]"
    missing_backend = without_backend.replace(heading, f"{heading}\n{_BACKEND}", 1)
    number_as_name = re.sub(r"(?m)^name\s*=.*$", "name = 1", text, count=1)
    ways = {
        "a text without an end": f'{text}\nplanted = "\n',
        "a table twice": f"{text}\n[build-system]\nrequires = []\n",
        "a missing backend": missing_backend,
        "a name that is a number": number_as_name,
    }
    for description, broken in ways.items():
        if broken != text:
            yield description, {path: broken.encode()}


def _one_of_each_file_first(functions: Sequence[Function]) -> list[Function]:
    first_by_file = {function.path: function for function in reversed(functions)}
    first = list(first_by_file.values())
    return first + [function for function in functions if function not in first]


def _insert(path: str, text: str, line: str) -> dict[str, bytes]:
    """Insert ``line`` after the file's docstring and its ``__future__`` imports."""
    lines = text.splitlines(keepends=True)
    end = 0
    for node in ast.parse(text).body:
        is_future = isinstance(node, ast.ImportFrom) and node.module == "__future__"
        if not _is_docstring(node) and not is_future:
            break
        end = node.end_lineno or end
    if end == 0:
        # A comment that names the encoding stays on top.
        while end < len(lines) and lines[end].startswith("#"):
            end += 1
    lines.insert(end, f"\n{line}\n")
    return {path: "".join(lines).encode()}


def _body_of(text: str, first_line: int) -> tuple[int, str] | None:
    """Return line and indentation of a function's first statement; None for one-line functions."""
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.FunctionDef) or _first_line(node) != first_line:
            continue
        statement = node.body[0]
        if statement.lineno == node.lineno:
            return None
        line = text.splitlines()[statement.lineno - 1]
        indent = line.removesuffix(line.lstrip())
        if _is_docstring(statement):
            last_line = statement.end_lineno or statement.lineno
            return last_line + 1, indent
        return _first_line(statement), indent
    return None


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
