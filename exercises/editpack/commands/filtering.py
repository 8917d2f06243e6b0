"""``filter``: keep the rows that pass the rules, with their sides cleaned."""

from __future__ import annotations

import os
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from threading import Lock
from typing import Any, TypeVar

import typer

from core.errors import InfrastructureError, StoppedError, UserError
from core.options import built, command, option, option_group
from core.processes import without_secrets
from exercises.editpack.cleanup import Cleanup, cleaned
from exercises.editpack.commands.parseworker import MOST_SECONDS
from exercises.editpack.files import RowFiles, RowInput, Step, row_workers_option
from exercises.editpack.rows import NEW, OLD, DroppedRow, Row, with_content
from exercises.editpack.rules import Parser, RuleSet, broken_rule

_DIFFER = "cleanups_differ"
"""The key of a report: rows of which the two cleanups give other texts."""


@option_group
class FilterAsked:
    """What ``filter`` is asked for."""

    given: RowInput
    files: RowFiles
    rules: RuleSet = option(
        RuleSet.CODE, "Those of the published code, or those that the paper states.", "--rules"
    )
    cleanup: Cleanup = option(
        Cleanup.REFERENCE,
        "Clean both sides as published, or by Python's tokens, or not (rows that were cleaned).",
        "--cleanup",
    )
    python: str = option(
        "", "The Python, 3.6 or newer, that parses the new side; default: this one.", "--python"
    )
    workers: int = row_workers_option()


@command(FilterAsked)
def main(context: typer.Context, values: dict[str, Any]) -> None:
    """Drop rows that are blank, have certain words, are small or do not parse."""
    asked = built(FilterAsked, values)
    source = asked.given.source()
    with parser_pool(asked.python, asked.workers) as pool:
        options = {
            "rules": asked.rules.value,
            "cleanup": asked.cleanup.value,
            "python": pool.version,
            "skip_bad": asked.given.skip_bad,
        }
        counts = Counter[str]()
        step = Step(
            "filter", (source,), asked.files, options, ("rapidfuzz",),
            lambda: {_DIFFER: counts[_DIFFER]},
        )  # fmt: skip
        step.write(_filtered(source.rows(skip_bad=asked.given.skip_bad), asked, pool, counts))


def _filtered(
    rows: Iterator[Row | DroppedRow], asked: FilterAsked, pool: ParserPool, counts: Counter[str]
) -> Iterator[Row | DroppedRow]:
    def judge(row: Row | DroppedRow, parser: Parser) -> tuple[Row | DroppedRow, bool]:
        if isinstance(row, DroppedRow):
            return row, False
        return judged(row, asked.rules, asked.cleanup, parser), cleanups_differ(row)

    for result, differ in pool.map(judge, rows):
        counts[_DIFFER] += differ
        yield result


def judged(row: Row, rules: RuleSet, cleanup: Cleanup, parser: Parser) -> Row | DroppedRow:
    """Return the row with cleaned sides, instruction and content, or as it was if it is dropped."""
    old, new = cleaned(row[OLD], cleanup), cleaned(row[NEW], cleanup)
    broken = broken_rule(old, new, rules, parser)
    if broken:
        rule, detail = broken
        return DroppedRow(row, rule.value, detail)
    return with_content({**row, OLD: old, NEW: new})


def cleanups_differ(row: Row) -> bool:
    """Tell whether the published cleanup and the exact one give other texts of a side."""
    return any(
        cleaned(row[side], Cleanup.REFERENCE) != cleaned(row[side], Cleanup.EXACT)
        for side in (OLD, NEW)
    )


T = TypeVar("T")
R = TypeVar("R")

_SCRIPT = Path(__file__).with_name("parseworker.py")
_VERSION = re.compile(r"\d+\.\d+\.\d+")
_OLDEST = (3, 6)
_FIX = "name a Python of 3.6 or newer"
# For a process that does nothing; one that works is ended by its limit of processor time.
_PATIENCE = 300.0
_START = 30.0
_END = 10.0
_LONGEST_ANSWER = 4096
# Verdicts that may come of what a process did before.
_BY_LIMIT = ("the parser", "MemoryError")
_AHEAD = 8


class _EndedError(Exception):
    pass


@dataclass
class ParserProcess:
    """A parser in a process that is started when a text comes, and replaced where it ended.

    One thread uses it at a time; another may call ``cancel``.

    Attributes:
        python: the path of the interpreter.
        patience: seconds to wait for an answer.
    """

    python: str
    patience: float = _PATIENCE
    _process: subprocess.Popen[bytes] | None = None
    _used: bool = False
    _closed: bool = False
    _lock: Lock = field(default_factory=Lock)

    def __call__(self, text: str) -> str:
        """Return why a text is no Python, in one line; empty if it is."""
        used, problem = self._used, self._verdict(text)
        if used and problem.startswith(_BY_LIMIT):
            # Memory that earlier texts took must change no verdict: ask a new process.
            self.close()
            problem = self._verdict(text)
        return problem

    def start(self) -> str:
        """Start a process, and return the version of its Python."""
        with self._lock:
            if self._closed:
                raise StoppedError("the parser is closed")
            try:
                self._process = _started(self.python)
            except OSError as error:
                raise InfrastructureError(f"{self.python} does not start: {error}") from error
            self._used = False
        try:
            version = self._answer(time.monotonic() + _START)
        except _EndedError as error:
            self.close()
            raise InfrastructureError(f"{self.python} does not start: {error}") from error
        if not _VERSION.fullmatch(version):
            self.close()
            raise InfrastructureError(f"{self.python} does not answer as a Python")
        return version

    def cancel(self) -> None:
        """Kill the process, and start no other; what is asked then has no verdict."""
        with self._lock:
            self._closed = True
            if self._process:
                _kill(self._process)

    def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process:
            _kill(process)
            process.__exit__(None, None, None)

    def _verdict(self, text: str) -> str:
        if self._process is None:
            self.start()
        self._used = True
        end = time.monotonic() + self.patience
        data = text.encode("utf-8", "surrogatepass")
        try:
            self._send(len(data).to_bytes(8, "big") + data, end)
            return self._answer(end)
        except _EndedError as error:
            self.close()
            return str(error)

    def _send(self, data: bytes, end: float) -> None:
        assert self._process and self._process.stdin
        descriptor, left = self._process.stdin.fileno(), memoryview(data)
        while left:
            self._wait(descriptor, select.POLLOUT, end)
            try:
                left = left[os.write(descriptor, left) :]
            except BrokenPipeError as error:
                raise self._ended() from error

    def _answer(self, end: float) -> str:
        assert self._process and self._process.stdout
        descriptor, line = self._process.stdout.fileno(), b""
        while not line.endswith(b"\n"):
            self._wait(descriptor, select.POLLIN, end)
            data = os.read(descriptor, _LONGEST_ANSWER)
            if not data or len(line) > _LONGEST_ANSWER:
                raise self._ended()
            line += data
        return line[:-1].decode("ascii", "replace")

    def _wait(self, descriptor: int, event: int, end: float) -> None:
        poll = select.poll()
        poll.register(descriptor, event)
        if not poll.poll(max(0.0, end - time.monotonic()) * 1000):
            raise _EndedError("the parser did not answer in time")

    def _ended(self) -> Exception:
        if self._closed:
            return StoppedError("the parser is closed")
        assert self._process
        try:
            code = self._process.wait(_END)
        except subprocess.TimeoutExpired:
            return _EndedError("the parser closed its output")
        if code == -signal.SIGXCPU:
            return _EndedError(f"the parser took more than {MOST_SECONDS} s")
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        return _EndedError(f"the parser died ({how})")


def _started(python: str) -> subprocess.Popen[bytes]:
    # In a session of its own: an interrupt of the terminal is for the command alone.
    process = subprocess.Popen(
        [python, "-I", "-S", str(_SCRIPT)], env=without_secrets(os.environ), bufsize=0,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip
    assert process.stdin
    # A process that reads nothing must not stop this one in `write`.
    os.set_blocking(process.stdin.fileno(), False)
    return process


def _kill(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@dataclass(frozen=True)
class ParserPool:
    """Parsers, and a thread for each.

    Attributes:
        version: of the Python that parses.
    """

    version: str
    parsers: Sequence[ParserProcess]
    threads: ThreadPoolExecutor

    def map(self, work: Callable[[T, Parser], R], items: Iterable[T]) -> Iterator[R]:
        """Yield ``work(item, parser)`` in the order of the items; read few of them ahead."""
        idle: SimpleQueue[ParserProcess] = SimpleQueue()
        for parser in self.parsers:
            idle.put(parser)

        def one(item: T) -> R:
            parser = idle.get()
            try:
                return work(item, parser)
            finally:
                idle.put(parser)

        waiting: deque[Future[R]] = deque()
        for item in items:
            waiting.append(self.threads.submit(one, item))
            if len(waiting) >= _AHEAD * len(self.parsers):
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


@contextmanager
def parser_pool(python: str, workers: int) -> Iterator[ParserPool]:
    """Have a pool of parsers; no process of theirs is left at the end.

    Args:
        python: path or name of an interpreter; empty for the running one.
        workers: how many processes.
    """
    asked = shutil.which(Path(python).expanduser() if python else sys.executable)
    if not asked:
        raise UserError(f"--python {python}: there is no such program; {_FIX}")
    parsers = [ParserProcess(str(Path(asked).absolute())) for _ in range(workers)]
    threads = ThreadPoolExecutor(workers)
    try:
        yield ParserPool(_usable_version(parsers[0]), parsers, threads)
    finally:
        # The processes first: threads may wait for them.
        for parser in parsers:
            parser.cancel()
        threads.shutdown(cancel_futures=True)
        for parser in parsers:
            parser.close()


def _usable_version(parser: ParserProcess) -> str:
    try:
        version = parser.start()
    except InfrastructureError as error:
        raise UserError(f"--python: {error}; {_FIX}") from error
    if tuple(map(int, version.split("."))) < _OLDEST:
        raise UserError(f"--python: {parser.python} is Python {version}; {_FIX}")
    return version
