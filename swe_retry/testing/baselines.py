"""Results of test files at the base commit: measured once and cached on disk for all runs."""

from __future__ import annotations

import json
import logging
import secrets
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from itertools import islice
from pathlib import Path

from filelock import FileLock

from swe_retry.agent.workspace import TextFile
from swe_retry.core.atomic import sweep, write_json_atomic
from swe_retry.core.errors import InfrastructureError, UserError
from swe_retry.core.hashing import sha256_of
from swe_retry.core.processes import CommandResult
from swe_retry.core.shutdown import Check, waited_for
from swe_retry.core.worktree import Changes
from swe_retry.environments.base import (
    EnvironmentKind,
    Prepared,
    Session,
    UnavailableError,
)
from swe_retry.environments.choice import make_folders
from swe_retry.environments.folders import FolderCommand, Folders
from swe_retry.frameworks import OF_PYTHON, Runner, may_hold_tests
from swe_retry.frameworks.commands import (
    file_command,
    find_runner,
    reporting_command,
    takes_arguments,
)
from swe_retry.frameworks.results import NamedStatus, worst_statuses
from swe_retry.frameworks.shell import Read
from swe_retry.frameworks.support import BaseTree
from swe_retry.instances.instance import Instance
from swe_retry.record.patches import is_test_path
from swe_retry.testing.origins import Statements
from swe_retry.testing.related import RelatedTests, directive
from swe_retry.testing.testconfig import TestCommand
from swe_retry.testing.testlogs import (
    Results,
    TestRun,
    passing_tests,
    read_run,
    with_report_file,
)

ALL_TESTS = ""
"""Stands for the whole suite in place of a test file."""

# A shell's exit code after a signal ended its command: 128 plus the signal's number. PHP ends with
# 255 after a fatal error.
_FIRST_SIGNAL = 128
_LAST_SIGNAL = 192
# pytest and unittest end so where all tests of a file are skipped.
_NO_TESTS = 5


@dataclass(frozen=True)
class Baseline:
    """The run of one test file at the base commit.

    Attributes:
        timed_out: the time limit ended it, so nothing can be concluded.
    """

    results: Results
    seconds: float
    timed_out: bool
    exit_code: int | None = 0
    stated: Statements = field(default_factory=dict)

    @property
    def usable(self) -> bool:
        if self.timed_out:
            return False
        return bool(passing_tests(self.results))

    @property
    def died(self) -> bool:
        """Whether a signal ended it."""
        return was_killed(self)

    def ends_like(self, result: CommandResult) -> bool:
        """Return whether a run ended by itself as this one, or as one without a failing test."""
        return result.exit_code in (0, _NO_TESTS, self.exit_code)


@dataclass(frozen=True)
class TestFiles:
    """Runs test files of an instance."""

    __test__ = False

    instance: Instance
    runner: Runner
    test_command: str
    files: Collection[str]
    read: Read = lambda _: None

    @classmethod
    def of(
        cls, instance: Instance, command: str, files: Collection[str], read: Read
    ) -> TestFiles:
        """Return what runs test files by the ``command`` of a session."""
        if command.startswith("tox "):
            # tox hides the variable from its commands that proof and statements need.
            command = "python -m pytest"
        runner = find_runner(command, instance.log_parser, read)
        own_command = instance.commands and runner in OF_PYTHON
        if own_command and not takes_arguments(command, runner):
            runner = Runner.SCRIPT
        return cls(instance, runner, command, files, read)

    def with_files(self, changes: Changes) -> TestFiles:
        """Return what runs the tests of a tree with ``changes``, as those of a test patch."""

        def read(path: str) -> str | None:
            if path in changes:
                return TextFile.decode(changes[path] or b"").text
            return self.read(path)

        gone = {path for path, data in changes.items() if data is None}
        return replace(self, files={*self.files, *changes} - gone, read=read)

    @cached_property
    def configuration(self) -> TestCommand:
        """What the command of the tests reads."""
        return TestCommand.of(self.test_command, self.runner, self.read)

    def runnable(self, paths: Sequence[str]) -> tuple[str, ...]:
        """Return those of ``paths`` that can be run alone, one for each command."""
        if self.runner in OF_PYTHON:
            return tuple(paths)
        path_by_command: dict[str, str] = {}
        for path in paths:
            command = self._file_command(path)
            if command is not None:
                path_by_command.setdefault(command, path)
        return tuple(path_by_command.values())

    def command(self, *paths: str) -> str:
        """Return the command that runs the tests of ``paths``, or all tests for ALL_TESTS.

        Runners of other languages than Python take one file; all tests stand for several.
        """
        if self.runner in OF_PYTHON:
            files = [path for path in paths if path != ALL_TESTS]
            names = [directive(self.runner, path) for path in files]
            return " ".join([self.test_command, *map(shlex.quote, names)])
        command = None
        if len(paths) == 1:
            command = self._file_command(paths[0])
        return command or self._suite_command

    def report_command(self, command: str, token: str) -> str:
        """Return the command whose output ``read_run`` reads."""
        setup = self.instance.test_setup
        # Lines that print what the command has written elsewhere.
        show = setup.show if setup else ()
        return with_report_file(command, self.runner, token, show)

    def _file_command(self, path: str) -> str | None:
        if path == ALL_TESTS:
            return None
        tree = BaseTree(self.files, self.read)
        return file_command(self._suite_command, self.runner, path, tree)

    @property
    def _suite_command(self) -> str:
        return reporting_command(self.test_command, self.runner, self.read)

    def run(
        self,
        prepared: Prepared,
        path: str,
        seconds: float,
    ) -> tuple[CommandResult, TestRun]:
        """Run the tests of ``path``; output of the code under test does not count as results."""
        return self._run(prepared, self.command(path), seconds)

    def run_in_order(
        self,
        session: Session,
        changes: Changes,
        paths: Sequence[str],
        seconds: float,
        option: str = "",
    ) -> tuple[CommandResult, TestRun]:
        """Run the tests of ``paths`` in their order, on a tree with ``changes`` in ``seconds``.

        Files of Python are named behind one command. Of other languages each runs alone, or all
        tests do where one cannot. Deleted files and those without tests are left out; where none
        is left, all tests run. Nothing runs after a command that time or a signal ended.

        Returns:
            The end of the last command, with the seconds of all, and all results; of a name in two
            files the worse status counts.
        """
        commands = self._commands(paths)
        spent = 0.0
        log = ""
        statuses: list[NamedStatus] = []
        with session.prepare(changes, commands=len(commands)) as prepared:
            for command in commands:
                result, run = self._run(prepared, command + option, seconds - spent)
                spent += result.seconds
                log += run.log
                statuses += run.results.items()
                if was_killed(result):
                    break
        results = worst_statuses(statuses)
        return replace(result, seconds=spent), replace(run, log=log, results=results)

    def _commands(self, paths: Sequence[str]) -> Sequence[str]:
        named = list(filter(self._holds_tests, paths))
        if self.runner in OF_PYTHON:
            command = self.command(*named)
            if self.runner is Runner.PYTEST:
                # A file that cannot be imported says nothing of the others.
                command += " --continue-on-collection-errors"
            return (command,)
        commands = dict.fromkeys(map(self._file_command, named))
        if not commands or None in commands:
            return (self._suite_command,)
        return tuple(filter(None, commands))

    def _holds_tests(self, path: str) -> bool:
        if path not in self.files or not may_hold_tests(self.runner, path):
            return False
        if self.runner in OF_PYTHON:
            return RelatedTests((), self.read).holds_tests(path)
        return is_test_path(path)

    def _run(
        self, prepared: Prepared, command: str, seconds: float
    ) -> tuple[CommandResult, TestRun]:
        token = secrets.token_hex(16)
        instance = self.instance
        result = prepared.run(self.report_command(command, token), seconds)
        test_run = read_run(
            result.output,
            instance,
            self.runner,
            token,
            self.files,
        )
        results = dict(self._results_by_row(test_run) or test_run.results)
        scripted = instance.commands and self.runner is Runner.SCRIPT
        if scripted and not was_killed(result):
            # Of a command that hides its runner, the exit code is a result too.
            results[self.test_command] = "FAILED" if result.exit_code else "PASSED"
        return result, replace(test_run, results=results)

    def _results_by_row(self, test_run: TestRun) -> Results:
        """Return what the parser of the row reads; empty where it is not needed.

        It knows a script's output; our own parsers know more of a known runner's.
        """
        source = self.instance.parser_source
        if not source:
            return {}
        if test_run.results and self.runner is not Runner.SCRIPT:
            return {}
        try:
            return run_parser(source, test_run.log, parser_folders())
        except UnavailableError:
            return {}


@contextmanager
def no_spare(count: int) -> Iterator[int]:
    yield 0


@dataclass
class Baselines:
    """Baselines of one instance, in one environment.

    Attributes:
        longest: seconds after which a baseline is of no use to any candidate.
        spare: lends slots that no other work needs now.
    """

    tests: TestFiles
    cache: Path
    identity: str
    longest: float
    log: logging.Logger
    spare: Callable[[int], AbstractContextManager[int]] = no_spare
    check: Check = lambda: None
    _by_path: dict[str, Baseline] = field(default_factory=dict)

    def find(self, path: str) -> Baseline | None:
        """Return the baseline of ``path``; None if it must be measured."""
        if path in self._by_path:
            return self._by_path[path]
        baseline = _read_baseline(self._file(path))
        if baseline is not None:
            self._log_baseline(path, baseline)
            self._by_path[path] = baseline
        return baseline

    def measure(
        self,
        prepared: Prepared,
        paths: Sequence[str],
        seconds: float,
    ) -> list[Baseline]:
        """Measure the first of ``paths`` and, if slots are free, further ones at the same time.

        Each runs for at most ``seconds``.
        """

        def measure(path: str) -> Baseline:
            return self._measure_file(prepared, path, seconds)

        with self.spare(len(paths) - 1) as spare_slots:
            chosen = paths[: 1 + spare_slots]
            if len(chosen) == 1:
                return [measure(chosen[0])]
            with ThreadPoolExecutor(len(chosen)) as pool:
                return list(pool.map(measure, chosen))

    def _measure_file(self, prepared: Prepared, path: str, seconds: float) -> Baseline:
        file = self._file(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        with waited_for(FileLock(f"{file}.lock"), self.check):
            baseline = _read_baseline(file)
            if baseline is None:
                sweep(file)
                result, run = self.tests.run(prepared, path, seconds)
                baseline = Baseline(
                    results=run.results,
                    seconds=result.seconds,
                    timed_out=result.timed_out,
                    exit_code=result.exit_code,
                    stated=run.stated,
                )
                # A busy machine ends runs that end by themselves at another time.
                if not baseline.died:
                    write_json_atomic(file, asdict(baseline))
                # A file that timed out may end in the full time.
                if not baseline.timed_out or seconds >= self.longest:
                    self._by_path[path] = baseline
        self._log_baseline(path, baseline)
        return baseline

    def note_flaky(self, path: str, baseline: Baseline, names: Collection[str]) -> None:
        """Keep that ``names`` fail at times at the base commit, so that they never count."""
        results = dict(baseline.results)
        results.update(dict.fromkeys(names, "SKIPPED"))
        noted = replace(baseline, results=results)
        self._by_path[path] = noted
        if not baseline.died:
            write_json_atomic(self._file(path), asdict(noted))

    def _file(self, path: str) -> Path:
        instance = self.tests.instance
        key = json.dumps(
            [
                instance.tested_as,
                instance.base_commit,
                self.tests.report_command(self.tests.command(path), ""),
                self.identity,
                self.longest,
            ]
        )
        return self.cache / f"{instance.tested_as}.{sha256_of(key)[:32]}.json"

    def _log_baseline(self, path: str, baseline: Baseline) -> None:
        self.log.info(
            "baseline of %s: %d of %d pass in %.1f s%s",
            path or "all tests",
            len(passing_tests(baseline.results)),
            len(baseline.results),
            baseline.seconds,
            ", timed out" if baseline.timed_out else "",
        )


def was_killed(result: CommandResult | Baseline) -> bool:
    """Return whether the time limit or a signal ended a run."""
    code = result.exit_code
    return code is None or code < 0 or _FIRST_SIGNAL <= code <= _LAST_SIGNAL


def _read_baseline(file: Path) -> Baseline | None:
    try:
        text = file.read_text(encoding="utf-8")
        baseline = Baseline(**json.loads(text))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return None if baseline.died else baseline


IMAGE = "python:3.11-slim"
"""Has the interpreter where no sandbox of this machine can be made."""

_SECONDS = 60.0
_RESULTS = "found"
_STATUS_BY_WORD = {
    "pass": "PASSED",
    "fail": "FAILED",
    "skip": "SKIPPED",
    "error": "ERROR",
}
_MAX_TESTS = 200_000
# The parser may print, so its results go into a file.
_DRIVER = f"""import json, sys
names = {{}}
exec(compile(open("parser.py", encoding="utf-8").read(), "parser.py", "exec"), names)
log = open("log.txt", encoding="utf-8", errors="replace", newline="").read()
found = names["parser"](log) or {{}}
with open("{_RESULTS}", "w", encoding="utf-8") as file:
    json.dump({{str(name): str(status) for name, status in found.items()}}, file)
"""


def run_parser(source: str, log: str, folders: Folders) -> dict[str, str]:
    """Return swebench's status by test that the function ``parser`` of ``source`` reads from a log.

    Empty if it fails, takes too long or returns something else: then nothing is known.
    """
    files = {
        "parser.py": source,
        "log.txt": log,
        "driver.py": _DRIVER,
    }
    data = {}
    for name, text in files.items():
        data[name] = text.encode("utf-8", "replace")
    argv = ("python3", "-I", "driver.py")
    command = FolderCommand(argv, data, _SECONDS, collect=(_RESULTS,))
    result = folders.run(command)
    if result.exit_code != 0:
        return {}
    try:
        statuses = json.loads(result.files.get(_RESULTS, b"{}"))
    except (ValueError, RecursionError):
        return {}
    if not isinstance(statuses, Mapping):
        return {}
    results = {}
    for name, text in islice(statuses.items(), _MAX_TESTS):
        status = _status_in(str(text))
        if status:
            results[name] = status
    return results


def _status_in(text: str) -> str | None:
    """Return the status in ``text``, by the words for which the official evaluation looks."""
    for word, status in _STATUS_BY_WORD.items():
        if word in text.lower():
            return status
    return None


def parser_folders() -> Folders:
    """Return a sandbox for parsers: of this machine, or else a container."""
    try:
        return make_folders(EnvironmentKind.LOCAL)
    except UnavailableError:
        try:
            return make_folders(EnvironmentKind.DOCKER, image=IMAGE)
        except (UserError, InfrastructureError) as error:
            raise UnavailableError(
                f"the row's parser needs a sandbox: {error}"
            ) from error
