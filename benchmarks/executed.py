"""Find the functions that the selected regression tests execute at the base commit.

A tracer that Python loads at its start records each function of the tree that runs during a test.
A function counts if a passing test executed it, because only such a test can detect its breakage.
"""

from __future__ import annotations

import ast
import secrets
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from agent.workspace import Workspace
from bench.instances.instance import Instance
from bench.regression.related import directives, related_tests
from bench.regression.runners import Runner, runner_of
from bench.regression.testlogs import Results, read_run, with_report_file
from bench.repos.patches import is_test_path
from benchmarks.regression import InstanceTests
from environments import run_once

_FOLDER = ".planted"
# The factor by which tracing slows a run down, and some seconds to start. Slow files are skipped.
_SLOWER, _START, _SLOW = 15, 30, 20
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
    _traced: dict[str, tuple[frozenset[tuple[str, int]], float]] = field(default_factory=dict)

    def functions(self, path: str) -> list[Function]:
        """Return the functions of ``path`` that its regression tests execute, sorted."""
        files = self.checks.base.tracked_files()
        read = Workspace(self.checks.base.root).read
        left = self.seconds
        places: set[tuple[str, int]] = set()
        for test in related_tests([path], files, read):
            found, seconds = self._of_test(test, left)
            places |= found
            left -= seconds
            if left <= 0:
                break
        source = read(path) or ""
        return sorted(f for f in functions(path, source) if (path, f.line) in places)

    def _of_test(self, test: str, seconds: float) -> tuple[frozenset[tuple[str, int]], float]:
        if test not in self._traced:
            self._traced[test] = self._trace(test, seconds)
        return self._traced[test]

    def _trace(self, test: str, seconds: float) -> tuple[frozenset[tuple[str, int]], float]:
        """Return the functions that a file's passing tests execute, and the untraced seconds."""
        session = self.checks.session
        runner = runner_of(session.test_command) or Runner.PYTEST
        command = f"{session.test_command} {shlex.quote(directives(runner, test))}"
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
            line.split("\t", 2) for line in result.output.partition(f"\n{token}\n")[2].splitlines()
        )
        found = {(row[2], int(row[0])) for row in rows if len(row) == 3 and row[1] in passing}
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
    return [p for p in files if p.endswith(".py") and not is_test_path(p) and _top(p, files)]


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
