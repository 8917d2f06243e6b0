"""``filter``: keep the rows that pass the rules, with their sides cleaned.

What precedes the code of a file is taken off, and then the rules of a trained edit apply.
``reference`` is the cleanup that EditPackFT was published with, ``exact`` does what that was meant
to do. Both take off the comments at the top of a file, with the blank lines before and between
them, and then a docstring of several lines. Both keep a docstring of one line, comments behind the
docstring and blank lines behind what they took off; so a second cleanup may take off more.

``code`` are the rules of EditPackFT's public code, ``paper`` those that the CanItEdit paper states
(F. Cassano et al., 2023, arXiv:2312.12450v1). The code's are stricter: more words, and small edits
besides none.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import tokenize
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from tempfile import TemporaryFile
from threading import Event

from pydantic import Field
from rapidfuzz.distance import Levenshtein

from core.errors import InfrastructureError, StoppedError
from core.processes import without_secrets
from core.settings import CommandLine, Section, command
from exercises.editpack.files import (
    ONE_PROCESS,
    DroppedFile,
    OutFile,
    RowsArgument,
    RowSettings,
    Step,
    Workers,
)
from exercises.editpack.parseworker import MOST_SECONDS, READY
from exercises.editpack.rows import NEW, OLD, DroppedRow, EditRow, with_content
from exercises.editpack.workers import in_order, parts_of

Parse = Callable[[Sequence[str]], Sequence[str]]
"""Returns why each text is not Python, in one line; empty for one that is."""

_BATCH = 64
"""Rows that a worker gets at once; each batch is parsed in a process of its own."""
_TRIPLE = '"""'
_BOM = "\ufeff"
# Lines as Python divides them: at \r\n, \r and \n, but not at a form feed.
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_BLANK_OR_COMMENT = re.compile(r"[ \t\f]*(?:(#)|[\r\n]|\Z)")
_TEXT_PREFIX = re.compile(r"[rRuU]?['\"]")
LEAST_DISTANCE = 10
"""Edits of fewer characters are ``small`` in the public code."""
_PAPER_WORDS = ("TODO", "FIXME", "BUG")
_MORE_WORDS = ("FIX ME", "from setuptools import", "import setuptools")
# The lower-case forms as well: "debug" holds "bug", "todos" holds "todo"; "Todo" holds none.
_WORDS = (*_PAPER_WORDS, *_MORE_WORDS)
_CODE_WORDS = tuple(dict.fromkeys((*_WORDS, *(word.lower() for word in _WORDS))))

_SCRIPT = Path(__file__).with_name("parseworker.py")
_PATIENCE = 300.0
"""Seconds for a process: one that works is ended by its limit of processor time."""
_TICK = 0.2
_AHEAD = 2
# Verdicts that may come of what a process did before.
_BY_LIMIT = ("the parser", "MemoryError")


class Cleanup(str, Enum):
    """How the sides of a row are cleaned before they are judged."""

    REFERENCE = "reference"
    EXACT = "exact"
    NONE = "none"


class RuleSet(str, Enum):
    CODE = "code"
    PAPER = "paper"


class EditRule(str, Enum):
    """What an edit can break, in the order in which it is judged."""

    BLANK = "blank"
    WORDS = "words"
    SMALL = "small"
    SYNTAX = "syntax"


class FilterRules(Section):
    """How rows are cleaned and judged."""

    rules: RuleSet = Field(
        default=RuleSet.CODE,
        description="Judge by the rules of the published code (code), or by those that the paper "
        "states (paper).",
    )
    cleanup: Cleanup = Field(
        default=Cleanup.REFERENCE,
        description="Clean both sides as published (reference), by Python's tokens (exact), or "
        "not (none), as of rows that were cleaned.",
    )


class FilterSettings(RowSettings):
    """All that ``filter`` is told."""

    filter: FilterRules = FilterRules()


@command(FilterSettings, ())
def main(
    line: CommandLine[FilterSettings],
    rows: RowsArgument = None,
    out: OutFile = None,
    dropped: DroppedFile = None,
    workers: Workers = ONE_PROCESS,
) -> None:
    """Drop rows that are blank, have certain words, are small or do not parse."""
    settings = line.load()
    if line.prints(settings, rows):
        return
    source = settings.rows.source(rows)
    choice = settings.filter
    options = {**choice.model_dump(mode="json"), "skip_bad": source.skip_bad}
    # Rows of which the two cleanups give other texts.
    counts = {"cleanups_differ": 0}
    step = Step(
        "filter",
        (source,),
        out,
        dropped,
        options,
        ("rapidfuzz",),
        lambda: counts,
    )
    parser = SyntaxParser()

    def judge(
        part: Sequence[EditRow | DroppedRow],
    ) -> tuple[list[EditRow | DroppedRow], int]:
        differ = sum(isinstance(row, dict) and cleanups_differ(row) for row in part)
        return judged(part, choice.rules, choice.cleanup, parser), differ

    def results() -> Iterator[EditRow | DroppedRow]:
        parts = parts_of(source.rows(), _BATCH)
        batches = in_order(
            lambda part: threads.submit(judge, part), parts, _AHEAD * workers
        )
        for _, (batch, differ) in batches:
            counts["cleanups_differ"] += differ
            yield from batch

    with ThreadPoolExecutor(workers) as threads:
        try:
            step.write(results())
        finally:
            # Threads may wait for processes.
            parser.stopped.set()
            threads.shutdown(cancel_futures=True)


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
    """Return whether the published cleanup and the exact one give other texts of a side."""
    return any(
        cleaned(row[side], Cleanup.REFERENCE) != cleaned(row[side], Cleanup.EXACT)
        for side in (OLD, NEW)
    )


def _reference(text: str) -> str:
    """Clean as the public code of EditPackFT does, with its faults.

    It counts triple double quotes in lines and reads no tokens. A first statement such as
    ``T = \"\"\"`` with its text on the next lines is lost, and so is code behind the docstring on
    its last line. Quotes in a comment begin a docstring. A docstring in ``'''``, or behind a byte
    order mark or an indented comment, stays. A carriage return alone ends no line.
    """
    kept, position, quoted = 0, 0, False
    while position <= len(text):
        end = text.find("\n", position)
        line = text[position : end if end >= 0 else len(text)]
        following = end + 1 if end >= 0 else len(text) + 1
        if line.count(_TRIPLE) == 1:
            if quoted:
                return text[following:]
            quoted = True
        elif not quoted and line.startswith("#"):
            kept = following
        elif not quoted and line.strip():
            break
        position = following
    return text[kept:]


def _exact(text: str) -> str:
    """Clean by the tokens of Python; nothing that is code is lost.

    A byte order mark goes, as it declares the coding. Where a text cannot be tokenized, the
    comments above that place go, and what follows stays as it is.
    """
    text = text.removeprefix(_BOM)
    text = text[_end_of_comments(text) :]
    return text[_end_of_docstring(text) :]


def _end_of_comments(text: str) -> int:
    """Return where the last comment line ends that has only comments and blank lines above."""
    kept = 0
    for line in _LINE.finditer(text):
        # Not by tokens: the tokenizers of Python versions disagree on null bytes in a comment.
        found = _BLANK_OR_COMMENT.match(line[0])
        if not found:
            break
        kept = line.end() if found[1] else kept
    return kept


def _end_of_docstring(text: str) -> int:
    """Return where the last line of a docstring of several lines ends; 0 without one.

    The statement must be nothing but texts, of any quotes, and one comment.
    """
    ends: list[int] = []

    def read() -> str:
        line = next(lines, None)
        ends.append(line.end() if line else len(text))
        return (
            line[0].rstrip("\r\n") + "\n" * line[0].endswith(("\r", "\n"))
            if line
            else ""
        )

    lines = _LINE.finditer(text)
    first = last = 0
    with suppress(tokenize.TokenError, SyntaxError, ValueError):
        for token in tokenize.generate_tokens(read):
            if token.type == tokenize.STRING and _TEXT_PREFIX.match(token.string):
                first = first or token.start[0]
                last = token.end[0]
            elif token.type == tokenize.NEWLINE:
                return ends[last - 1] if first < last else 0
            elif token.type != tokenize.COMMENT and (
                first or token.type != tokenize.NL
            ):
                return 0
    return 0


def cleaned(text: str, cleanup: Cleanup) -> str:
    """Return the text of a file without what ``cleanup`` takes off its top."""
    if cleanup is Cleanup.NONE:
        return text
    return _reference(text) if cleanup is Cleanup.REFERENCE else _exact(text)


def broken_rule(old: str, new: str, rules: RuleSet) -> tuple[EditRule, str] | None:
    """Return the first rule that cleaned sides break, with what broke it; None without one.

    ``syntax``, the last, is judged by the command.
    """
    blank = " and ".join(
        name for name, text in (("old", old), ("new", new)) if not text.strip()
    )
    if blank:
        return EditRule.BLANK, blank
    words = _CODE_WORDS if rules is RuleSet.CODE else _PAPER_WORDS
    if word := next((word for word in words if word in new), ""):
        return EditRule.WORDS, word
    if old == new:
        return EditRule.SMALL, "equal sides"
    if rules is RuleSet.CODE:
        # With a cut-off: 50,000 characters take 0.1 s without, 30 µs with.
        distance = Levenshtein.distance(old, new, score_cutoff=LEAST_DISTANCE - 1)
        if distance < LEAST_DISTANCE:
            return EditRule.SMALL, f"distance {distance}"
    return None


@dataclass(frozen=True)
class SyntaxParser:
    """Parses texts with this Python, in a process for each call; threads may share it.

    ``stopped`` ends all calls.
    """

    stopped: Event = field(default_factory=Event)

    def __call__(self, texts: Sequence[str]) -> list[str]:
        """Return why each text is not Python, in one line; empty for one that is.

        A process that dies or hangs is the verdict on the text that it had, and another goes on.
        """
        problems: list[str] = []
        while left := texts[len(problems) :]:
            *answers, end = self._answers(left)
            for number, answer in enumerate([*answers, end][: len(left)]):
                # Memory that earlier texts took must change no verdict: ask a new process.
                if number and answer.startswith(_BY_LIMIT):
                    break
                problems.append(answer)
        return problems

    def _answers(self, texts: Sequence[str]) -> list[str]:
        """Return the answers of one process, and why it gave no more."""
        # A file: communicate writes no rest of its input after a tick.
        with TemporaryFile() as data:
            for text in texts:
                encoded = text.encode("utf-8", "surrogatepass")
                data.write(len(encoded).to_bytes(8, "big") + encoded)
            data.seek(0)
            try:
                # In a session of its own: an interrupt of the terminal is for the command alone.
                process = subprocess.Popen(
                    [sys.executable, "-I", "-S", str(_SCRIPT)],
                    env=without_secrets(os.environ),
                    stdin=data,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )
            except OSError as error:
                raise InfrastructureError(
                    f"the parser does not start: {error}"
                ) from error
        with process:
            try:
                output, end = self._output(process)
            finally:
                process.kill()
        lines = output.decode("ascii", "replace").split("\n")
        if lines[0] != READY:
            # No text is to blame.
            raise InfrastructureError(f"the parser does not start: {end}")
        return [*lines[1:-1], end]

    def _output(self, process: subprocess.Popen[bytes]) -> tuple[bytes, str]:
        latest = time.monotonic() + _PATIENCE
        while True:
            try:
                output, _ = process.communicate(timeout=_TICK)
                return output, _end_in_words(process.returncode)
            except subprocess.TimeoutExpired as error:
                if self.stopped.is_set():
                    raise StoppedError("the parser is closed") from error
                if time.monotonic() > latest:
                    return error.stdout or b"", "the parser did not answer in time"


def _end_in_words(code: int) -> str:
    if code == -signal.SIGXCPU:
        return f"the parser took more than {MOST_SECONDS} s"
    if code < 0:
        return f"the parser died (signal {-code})"
    return f"the parser died (exit code {code})"
