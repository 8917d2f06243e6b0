"""``filter``: keep the rows that pass the rules, with their sides cleaned."""

from __future__ import annotations

import os
import re
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from threading import Lock
from typing import IO, Any, TypeVar

import typer

from core.errors import InfrastructureError, StoppedError, UserError
from core.options import built, command, option, option_group
from core.processes import without_secrets
from exercises.editpack.files import RowFiles, RowInput, Step, row_workers_option
from exercises.editpack.parseworker import MOST_SECONDS
from exercises.editpack.rows import NEW, OLD, DroppedRow, EditRow, with_content
from exercises.editpack.rules import Cleanup, EditRule, RuleSet, broken_rule, cleaned
from exercises.editpack.workers import in_order, parts_of

_DIFFER = "cleanups_differ"
"""The key of a report: rows of which the two cleanups give other texts."""
_BATCH = 64
"""Rows that a worker gets at once; each batch is parsed in a process of its own."""

Parse = Callable[[Sequence[str]], Sequence[str]]
"""Returns why each text is not Python, in one line; empty for one that is."""


@option_group
class FilterAsked:
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
    source, skip_bad = asked.given.source(), asked.given.skip_bad
    with parser_pool(asked.python, asked.workers) as pool:
        options = {
            "rules": asked.rules.value,
            "cleanup": asked.cleanup.value,
            "python": pool.version,
            "skip_bad": skip_bad,
        }
        counts = {_DIFFER: 0}
        step = Step("filter", (source,), asked.files, options, ("rapidfuzz",), lambda: counts)

        def judge(part: Sequence[EditRow | DroppedRow]) -> tuple[list[EditRow | DroppedRow], int]:
            differ = sum(isinstance(row, dict) and cleanups_differ(row) for row in part)
            return judged(part, asked.rules, asked.cleanup, pool.parser), differ

        def results() -> Iterator[EditRow | DroppedRow]:
            for found, differ in pool.map(judge, parts_of(source.rows(skip_bad=skip_bad), _BATCH)):
                counts[_DIFFER] += differ
                yield from found

        step.write(results())


def judged(
    rows: Iterable[EditRow | DroppedRow], rules: RuleSet, cleanup: Cleanup, parse: Parse
) -> list[EditRow | DroppedRow]:
    """Return rows with cleaned sides, instruction and content, or as they were if dropped.

    Only the edits that pass all other rules are parsed.
    """
    found: list[EditRow | DroppedRow] = []
    passed: list[tuple[int, EditRow, EditRow]] = []
    for place, row in enumerate(rows):
        found.append(row)
        if isinstance(row, DroppedRow):
            continue
        old, new = cleaned(row[OLD], cleanup), cleaned(row[NEW], cleanup)
        if broken := broken_rule(old, new, rules):
            found[place] = DroppedRow(row, broken[0].value, broken[1])
        else:
            passed.append((place, row, {**row, OLD: old, NEW: new}))
    problems = parse([clean[NEW] for _, _, clean in passed])
    for (place, row, clean), problem in zip(passed, problems, strict=True):
        wrong = problem and DroppedRow(row, EditRule.SYNTAX.value, problem)
        found[place] = wrong or with_content(clean)
    return found


def cleanups_differ(row: EditRow) -> bool:
    """Tell whether the published cleanup and the exact one give other texts of a side."""
    return any(
        cleaned(row[side], Cleanup.REFERENCE) != cleaned(row[side], Cleanup.EXACT)
        for side in (OLD, NEW)
    )


P = TypeVar("P")
R = TypeVar("R")

_SCRIPT = Path(__file__).with_name("parseworker.py")
_VERSION = re.compile(r"\d+\.\d+\.\d+")
_OLDEST = (3, 6)
_FIX = "name a Python of 3.6 or newer"
_END = 10.0
_LONGEST_ANSWER = 4096
# Verdicts that may come of what a process did before.
_BY_LIMIT = ("the parser", "MemoryError")
_AHEAD = 2


class Parser:
    """Parses texts with another Python, in a process for each call; threads may share it.

    ``patience`` is in seconds, for an answer of a process that does nothing; one that works is
    ended by its limit of processor time.
    """

    def __init__(self, python: str, patience: float = 300.0) -> None:
        self.python, self.patience = python, patience
        self._running: set[subprocess.Popen[bytes]] = set()
        self._lock, self._closed = Lock(), False

    def __call__(self, texts: Sequence[str]) -> list[str]:
        """Return why each text is not Python, in one line; empty for one that is.

        A process that dies or hangs is the verdict on the text that it had, and another goes on.
        """
        found: list[str] = []
        while left := texts[len(found) :]:
            _, *answers, end = self._run(left)
            for place, answer in enumerate([*answers, end][: len(left)]):
                # Memory that earlier texts took must change no verdict: ask a new process.
                if place and answer.startswith(_BY_LIMIT):
                    break
                found.append(answer)
        return found

    def version(self) -> str:
        return self._run(())[0]

    def cancel(self) -> None:
        """Kill the processes, and start no other; what is asked then has no verdict."""
        with self._lock:
            self._closed = True
            for process in self._running:
                _kill(process)

    def _run(self, texts: Sequence[str]) -> list[str]:
        """Return the version, the answers of one process, and why it gave no more."""
        # A file, because a process that reads nothing must not stop this one.
        with TemporaryFile() as given:
            for text in texts:
                data = text.encode("utf-8", "surrogatepass")
                given.write(len(data).to_bytes(8, "big") + data)
            given.seek(0)
            with self._started(given) as process:
                said, end = self._answers(process, len(texts) + 1)
        if self._closed:
            raise StoppedError("the parser is closed")
        version, *answers = said.decode("ascii", "replace").split("\n")
        if not answers:
            raise InfrastructureError(f"{self.python} does not start: {end}")
        if not _VERSION.fullmatch(version):
            raise InfrastructureError(f"{self.python} does not answer as a Python")
        return [version, *answers[:-1], end]

    @contextmanager
    def _started(self, given: IO[bytes]) -> Iterator[subprocess.Popen[bytes]]:
        with self._lock:
            if self._closed:
                raise StoppedError("the parser is closed")
            try:
                # In a session of its own: an interrupt of the terminal is for the command alone.
                process = subprocess.Popen(
                    [self.python, "-I", "-S", str(_SCRIPT)], env=without_secrets(os.environ),
                    stdin=given, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0,
                    start_new_session=True,
                )  # fmt: skip
            except OSError as error:
                raise InfrastructureError(f"{self.python} does not start: {error}") from error
            self._running.add(process)
        try:
            with process:
                try:
                    yield process
                finally:
                    _kill(process)
        finally:
            with self._lock:
                self._running.discard(process)

    def _answers(self, process: subprocess.Popen[bytes], lines: int) -> tuple[bytes, str]:
        assert process.stdout
        said, poll = bytearray(), select.poll()
        poll.register(process.stdout, select.POLLIN)
        while len(said) <= lines * _LONGEST_ANSWER:
            if said.count(b"\n") >= lines:
                return bytes(said), ""
            if not poll.poll(self.patience * 1000):
                return bytes(said), "the parser did not answer in time"
            if not (data := process.stdout.read(_LONGEST_ANSWER)):
                break
            said += data
        try:
            code = process.wait(_END)
        except subprocess.TimeoutExpired:
            return bytes(said), "the parser closed its output"
        if code == -signal.SIGXCPU:
            return bytes(said), f"the parser took more than {MOST_SECONDS} s"
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        return bytes(said), f"the parser died ({how})"


def _kill(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@dataclass(frozen=True)
class ParserPool:
    """A parser with the version of its Python, and threads that use it."""

    version: str
    parser: Parser
    threads: ThreadPoolExecutor
    workers: int

    def map(self, work: Callable[[P], R], parts: Iterable[P]) -> Iterator[R]:
        """Yield ``work(part)`` in the order of the parts; read few of them ahead."""

        def submit(part: P) -> Future[R]:
            return self.threads.submit(work, part)

        return (found for _, found in in_order(submit, parts, _AHEAD * self.workers))


@contextmanager
def parser_pool(python: str, workers: int) -> Iterator[ParserPool]:
    """Have a parser and threads for it; no process is left at the end.

    ``python`` is the path or the name of an interpreter, empty for the running one.
    """
    found = shutil.which(Path(python).expanduser() if python else sys.executable)
    if not found:
        raise UserError(f"--python {python}: there is no such program; {_FIX}")
    parser = Parser(str(Path(found).absolute()))
    try:
        version = parser.version()
    except InfrastructureError as error:
        raise UserError(f"--python: {error}; {_FIX}") from error
    if tuple(map(int, version.split("."))) < _OLDEST:
        raise UserError(f"--python: {parser.python} is Python {version}; {_FIX}")
    threads = ThreadPoolExecutor(workers)
    try:
        yield ParserPool(version, parser, threads, workers)
    finally:
        # The processes first: threads may wait for them.
        parser.cancel()
        threads.shutdown(cancel_futures=True)
