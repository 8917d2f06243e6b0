"""Results of test files at the base commit: measured once and cached on disk for all runs."""

from __future__ import annotations

import hashlib
import json
import logging
import secrets
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from filelock import FileLock

from bench.instances.instance import Instance
from bench.regression.related import directives
from bench.regression.runners import OF_PYTHON, Runner
from bench.regression.runners.base import BaseTree
from bench.regression.runners.commands import file_command, reporting_command
from bench.regression.statements import Stated
from bench.regression.testlogs import (
    Results,
    TestRun,
    passing,
    read_run,
    with_report_file,
)
from core.atomic import sweep, write_json_atomic
from core.errors import InfrastructureError, UserError
from core.processes import CommandResult
from core.shutdown import waited_for
from environments.base import (
    EnvironmentKind,
    Prepared,
    ResourceLimits,
    UnavailableError,
)
from environments.choice import make_folders
from environments.folders import FolderCommand, Folders

ALL_TESTS = ""
"""Stands for the whole suite in place of a test file."""

# A shell's exit code after a signal ended its command: 128 plus the signal's number. PHP ends with
# 255 after a fatal error.
_SIGNALLED, _LAST_SIGNAL = 128, 192


@dataclass(frozen=True)
class Baseline:
    """The run of one test file at the base commit.

    Attributes:
        timed_out: the time limit ended it, so nothing can be concluded.
        died: a signal ended it.
    """

    results: Results
    seconds: float
    timed_out: bool
    died: bool = False
    stated: Stated = field(default_factory=dict)

    @property
    def usable(self) -> bool:
        return not self.timed_out and bool(passing(self.results))


@dataclass(frozen=True)
class TestFiles:
    """Runs test files of an instance."""

    __test__ = False

    instance: Instance
    runner: Runner
    test_command: str
    files: Collection[str]
    read: Callable[[str], str | None] = lambda _: None

    def runnable(self, paths: Sequence[str]) -> tuple[str, ...]:
        """Return those of ``paths`` that can be run alone, one for each command."""
        if self.runner in OF_PYTHON:
            return tuple(paths)
        commands = {self._file_command(path): path for path in reversed(paths)}
        alone = {path for command, path in commands.items() if command is not None}
        return tuple(path for path in paths if path in alone)

    def command(self, *paths: str) -> str:
        """Return the command that runs the tests of ``paths``, or all tests for ALL_TESTS.

        Runners of other languages than Python take one file; all tests stand for several.
        """
        if self.runner not in OF_PYTHON:
            alone = self._file_command(paths[0]) if len(paths) == 1 else None
            return alone or self._suite_command
        names = [
            shlex.quote(directives(self.runner, path))
            for path in paths
            if path != ALL_TESTS
        ]
        return " ".join([self.test_command, *names])

    def reported(self, path: str, token: str) -> str:
        """Return the command whose output ``read_run`` reads."""
        return with_report_file(self.command(path), self.runner, token, self.show)

    @property
    def show(self) -> tuple[str, ...]:
        """Shell lines that print what the command has written elsewhere."""
        return self.instance.test_setup.show if self.instance.test_setup else ()

    def _file_command(self, path: str) -> str | None:
        if path == ALL_TESTS:
            return None
        tree = BaseTree(self.files, self.read)
        return file_command(self._suite_command, self.runner, path, tree)

    @property
    def _suite_command(self) -> str:
        return reporting_command(self.test_command, self.runner, self.read)

    def run(
        self, prepared: Prepared, path: str, seconds: float
    ) -> tuple[CommandResult, TestRun]:
        """Run the tests of ``path``; output of the code under test does not count as results."""
        token = secrets.token_hex(16)
        command = self.reported(path, token)
        result = prepared.run(command, seconds)
        found = read_run(result.output, self.instance, self.runner, token, self.files)
        # A parser of the row knows a script's output; our own know more of a known runner's.
        if self.instance.parser_source and (
            self.runner is Runner.SCRIPT or not found.results
        ):
            with suppress(UnavailableError):
                by_row = parsed_log(
                    self.instance.parser_source, found.log, parser_folders()
                )
                found = replace(found, results=by_row or found.results)
        if self.instance.commands and self.runner is Runner.SCRIPT and not died(result):
            # Of a command that hides its runner, the exit code is a result too.
            status = "PASSED" if result.exit_code == 0 else "FAILED"
            found = replace(found, results={**found.results, self.test_command: status})
        return result, found


@contextmanager
def no_spare(wanted: int) -> Iterator[int]:
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
    check: Callable[[], None] = lambda: None
    _known: dict[str, Baseline] = field(default_factory=dict)

    def known(self, path: str) -> Baseline | None:
        """Return the baseline of ``path``; None if it must be measured."""
        if path not in self._known and (found := _read(self._file(path))) is not None:
            self._note(path, found)
            self._known[path] = found
        return self._known.get(path)

    def measure(
        self, prepared: Prepared, paths: Sequence[str], seconds: float
    ) -> list[Baseline]:
        """Measure the first of ``paths`` and, if slots are free, further ones at the same time.

        Each runs for at most ``seconds``.
        """
        with self.spare(len(paths) - 1) as more:
            chosen = paths[: 1 + more]
            if len(chosen) == 1:
                return [self._measured(prepared, chosen[0], seconds)]
            with ThreadPoolExecutor(len(chosen)) as pool:
                return list(
                    pool.map(lambda p: self._measured(prepared, p, seconds), chosen)
                )

    def _measured(self, prepared: Prepared, path: str, seconds: float) -> Baseline:
        file = self._file(path)
        file.parent.mkdir(parents=True, exist_ok=True)
        with waited_for(FileLock(f"{file}.lock"), self.check):
            found = _read(file)
            if found is None:
                sweep(file)
                result, run = self.tests.run(prepared, path, seconds)
                found = Baseline(
                    run.results,
                    result.seconds,
                    result.timed_out,
                    died(result),
                    run.stated,
                )
                # A busy machine ends runs that end by themselves at another time.
                if not found.died:
                    write_json_atomic(file, asdict(found))
                # A file that timed out may end in the full time.
                if not found.timed_out or seconds >= self.longest:
                    self._known[path] = found
        self._note(path, found)
        return found

    def note_flaky(self, path: str, baseline: Baseline, names: Collection[str]) -> None:
        """Keep that ``names`` fail at times at the base commit, so that they never count."""
        known = {**baseline.results, **dict.fromkeys(names, "FAILED")}
        self._known[path] = replace(baseline, results=known)
        if not baseline.died:
            write_json_atomic(self._file(path), asdict(self._known[path]))

    def _file(self, path: str) -> Path:
        tests = self.tests
        command = tests.reported(path, "")
        base = tests.instance.base_commit
        key = json.dumps(
            [tests.instance.instance_id, base, command, self.identity, self.longest]
        )
        name = hashlib.sha256(key.encode()).hexdigest()[:32]
        return self.cache / f"{tests.instance.instance_id}.{name}.json"

    def _note(self, path: str, found: Baseline) -> None:
        self.log.info(
            "baseline of %s: %d of %d pass in %.1f s%s",
            path or "all tests",
            len(passing(found.results)),
            len(found.results),
            found.seconds,
            ", timed out" if found.timed_out else "",
        )


def died(result: CommandResult) -> bool:
    """Return whether the time limit or a signal ended a run."""
    code = result.exit_code
    return code is None or code < 0 or _SIGNALLED <= code <= _LAST_SIGNAL


def _read(file: Path) -> Baseline | None:
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
        found = Baseline(**data)
        return None if found.died else found
    except (OSError, ValueError, KeyError, TypeError):
        return None


IMAGE = "python:3.11-slim"
"""Has the interpreter where no sandbox of this machine can be made."""

_SECONDS = 60.0
_RESULTS = "found"
_WORDS = {"pass": "PASSED", "fail": "FAILED", "skip": "SKIPPED", "error": "ERROR"}
_MOST_TESTS = 200_000
# The parser may print, so its results go into a file.
_DRIVER = f"""import json, sys
names = {{}}
exec(compile(open("parser.py", encoding="utf-8").read(), "parser.py", "exec"), names)
log = open("log.txt", encoding="utf-8", errors="replace", newline="").read()
found = names["parser"](log) or {{}}
with open("{_RESULTS}", "w", encoding="utf-8") as file:
    json.dump({{str(name): str(status) for name, status in found.items()}}, file)
"""


def parsed_log(source: str, log: str, folders: Folders) -> dict[str, str]:
    """Return swebench's status by test that the function ``parser`` of ``source`` reads from a log.

    Empty if it fails, takes too long or returns something else: then nothing is known.
    """
    files = {"parser.py": source, "log.txt": log, "driver.py": _DRIVER}
    data = {name: text.encode("utf-8", "replace") for name, text in files.items()}
    command = FolderCommand(
        ("python3", "-I", "driver.py"), data, _SECONDS, collect=(_RESULTS,)
    )
    result = folders.run(command)
    if result.exit_code != 0:
        return {}
    try:
        found: Any = json.loads(result.files.get(_RESULTS, b"{}"))
    except (ValueError, RecursionError):
        return {}
    results = {}
    for name, status in (
        islice(found.items(), _MOST_TESTS) if isinstance(found, Mapping) else ()
    ):
        # The official evaluation looks for the words in a status.
        read = next(
            (known for word, known in _WORDS.items() if word in str(status).lower()), ""
        )
        if read:
            results[name] = read
    return results


def parser_folders(run_key: str = "") -> Folders:
    """Return a sandbox for parsers: of this machine, or else a container."""
    make = partial(make_folders, limits=ResourceLimits(), run_key=run_key)
    try:
        return make(EnvironmentKind.LOCAL)
    except UnavailableError:
        try:
            return make(EnvironmentKind.DOCKER, image=IMAGE)
        except (UserError, InfrastructureError) as error:
            raise UnavailableError(
                f"the row's parser needs a sandbox: {error}"
            ) from error
