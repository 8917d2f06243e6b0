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

import io
import json
import os
import re
import signal
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from enum import StrEnum
from itertools import islice
from pathlib import Path

from rapidfuzz.distance import Levenshtein

from swe_retry.kit import (
    InfrastructureError,
    Section,
    settings_command,
    without_secrets,
)
from swe_retry_exercises.editpack.files import (
    DroppedFile,
    OutFile,
    RowsArgument,
    RowSettings,
    write_rows,
)
from swe_retry_exercises.editpack.parser import MAX_SECONDS, READY
from swe_retry_exercises.editpack.rows import (
    NEW,
    OLD,
    DropReason,
    EditRow,
    JudgedRow,
    batches,
    reason,
    with_content,
)

Parse = Callable[[Sequence[str]], Sequence[str]]
"""Returns why each text is not Python, in one line; empty for one that is."""

_BATCH = 1000
"""Rows whose new sides one process parses."""
_TRIPLE = '"""'
_BOM = "\ufeff"
# Lines as Python divides them: at \r\n, \r and \n, but not at a form feed.
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_BLANK_OR_COMMENT = re.compile(r"[ \t\f]*(?:(#)|[\r\n]|\Z)")
_TEXT_PREFIX = re.compile(r"[rRuU]?['\"]")
MIN_DISTANCE = 10
"""Edits of fewer characters are ``small`` in the public code."""
_PAPER_WORDS = ("TODO", "FIXME", "BUG")
_CODE_WORDS = (
    *_PAPER_WORDS, "FIX ME", "from setuptools import", "import setuptools",
    # "debug" holds "bug", "todos" holds "todo"; "Todo" holds none.
    "todo", "fixme", "bug", "fix me",
)  # fmt: skip
_SCRIPT = Path(__file__).with_name("parser.py")
_MAX_WAIT = 300.0
"""Seconds for a process: one that works is ended by its limit of processor time."""


class Cleanup(StrEnum):
    """How the sides of a row are cleaned before they are judged."""

    REFERENCE = "reference"
    EXACT = "exact"
    NONE = "none"


class RuleSet(StrEnum):
    CODE = "code"
    PAPER = "paper"


class FilterRules(Section):
    """How rows are cleaned and judged."""

    rules: RuleSet = RuleSet.CODE
    """Judge by the rules of the published code (code), or by those that the paper
    states (paper)."""

    cleanup: Cleanup = Cleanup.REFERENCE
    """Clean both sides as published (reference), by Python's tokens (exact), or not
    (none), as of rows that were cleaned."""


class FilterSettings(RowSettings):
    """All that ``filter`` is told."""

    filter: FilterRules = FilterRules()


@settings_command(FilterSettings, "rows")
def main(
    settings: FilterSettings,
    rows: RowsArgument = None,
    out: OutFile = None,
    dropped: DroppedFile = None,
) -> None:
    """Drop rows that are blank, have certain words, are small or do not parse."""
    rules = settings.filter
    reading = settings.rows
    # Rows of which the two cleanups give other texts.
    counts = Counter(cleanups_differ=0)

    def judge_all() -> Iterator[JudgedRow]:
        for batch in batches(reading.rows(rows), _BATCH):
            for row, why in batch:
                counts["cleanups_differ"] += why is None and cleanups_differ(row)
            yield from judge_rows(batch, rules, syntax_problems)

    write_rows(
        "filter",
        judge_all(),
        out,
        dropped,
        reading=reading,
        names=[rows],
        options=rules.model_dump(mode="json"),
        packages=("rapidfuzz",),
        details=lambda: counts,
    )


def judge_rows(
    rows: Iterable[JudgedRow], rules: FilterRules, parse: Parse
) -> list[JudgedRow]:
    """Return rows with cleaned sides, instruction and content, or as they were if dropped.

    Only the edits that pass all other rules are parsed.
    """
    judged: list[JudgedRow] = []
    originals = {}
    for row, why in rows:
        if why is None:
            old = clean_text(row[OLD], rules.cleanup)
            new = clean_text(row[NEW], rules.cleanup)
            why = broken_rule(old, new, rules.rules)
            if why is None:
                originals[len(judged)] = row
                row = with_content({**row, OLD: old, NEW: new})
        judged.append((row, why))
    problems = parse([judged[number][0][NEW] for number in originals])
    for (number, row), problem in zip(originals.items(), problems, strict=True):
        if problem:
            judged[number] = (row, reason("syntax", problem))
    return judged


def broken_rule(old: str, new: str, rules: RuleSet) -> DropReason | None:
    """Return the first rule that cleaned sides break, with what broke it; None without one.

    ``syntax``, the last, is judged by the command.
    """
    sides = {"old": old, "new": new}
    blank = []
    for name, text in sides.items():
        if not text.strip():
            blank.append(name)
    if blank:
        return reason("blank", " and ".join(blank))
    terms: tuple[str, ...] = _PAPER_WORDS
    if rules is RuleSet.CODE:
        terms = _CODE_WORDS
    for term in terms:
        if term in new:
            return reason("words", term)
    if old == new:
        return reason("small", "equal sides")
    if rules is RuleSet.CODE:
        # With a cut-off: 50,000 characters take 0.1 s without, 30 µs with.
        distance = Levenshtein.distance(old, new, score_cutoff=MIN_DISTANCE - 1)
        if distance < MIN_DISTANCE:
            return reason("small", f"distance {distance}")
    return None


def cleanups_differ(row: EditRow) -> bool:
    """Return whether the published cleanup and the exact one give other texts of a side."""
    for text in (row[OLD], row[NEW]):
        if clean_text(text, Cleanup.REFERENCE) != clean_text(text, Cleanup.EXACT):
            return True
    return False


def clean_text(text: str, cleanup: Cleanup) -> str:
    """Return the text of a file without what ``cleanup`` takes off its top."""
    if cleanup is Cleanup.REFERENCE:
        return _without_top(text)
    if cleanup is Cleanup.EXACT:
        # A byte order mark declares the coding.
        text = text.removeprefix(_BOM)
        text = text[_end_of_comments(text) :]
        return text[_end_of_docstring(text) :]
    return text


def _without_top(text: str) -> str:
    """Clean as the public code of EditPackFT does, with its faults.

    It counts triple double quotes in lines and reads no tokens. A first statement such as
    ``T = \"\"\"`` with its text on the next lines is lost, and so is code behind the docstring on
    its last line. Quotes in a comment begin a docstring. A docstring in ``'''``, or behind a byte
    order mark or an indented comment, stays. A carriage return alone ends no line.
    """
    start = 0
    position = 0
    in_quotes = False
    while position <= len(text):
        end = text.find("\n", position)
        if end < 0:
            end = len(text)
        line = text[position:end]
        following = end + 1
        if line.count(_TRIPLE) == 1:
            if in_quotes:
                return text[following:]
            in_quotes = True
        elif not in_quotes and line.startswith("#"):
            start = following
        elif not in_quotes and line.strip():
            break
        position = following
    return text[start:]


def _end_of_comments(text: str) -> int:
    """Return where the last comment line ends that has only comments and blank lines above."""
    end = 0
    for line in _LINE.finditer(text):
        # Not by tokens: the tokenizers of Python versions disagree on null bytes in a comment.
        match = _BLANK_OR_COMMENT.match(line[0])
        if not match:
            break
        if match[1]:
            end = line.end()
    return end


def _end_of_docstring(text: str) -> int:
    """Return where the last line of a docstring of several lines ends; 0 without one.

    Where a text cannot be tokenized there is none.
    """
    end = 0
    with suppress(tokenize.TokenError, SyntaxError, ValueError):
        for line in islice(_LINE.finditer(text), _docstring_lines(text)):
            end = line.end()
    return end


def _docstring_lines(text: str) -> int:
    """Return the number of lines to the end of a docstring of several; 0 without one.

    The statement must be nothing but texts, of any quotes, and one comment.
    """
    lines = io.StringIO(text, newline=None)  # each ends with \n
    first = 0
    last = 0
    for token in tokenize.generate_tokens(lines.readline):
        if token.type == tokenize.STRING and _TEXT_PREFIX.match(token.string):
            first = first or token.start[0]
            last = token.end[0]
        elif token.type == tokenize.NEWLINE:
            break
        elif token.type == tokenize.COMMENT or (
            not first and token.type == tokenize.NL
        ):
            continue
        else:
            return 0
    if first < last:
        return last
    return 0


def syntax_problems(texts: Sequence[str]) -> list[str]:
    """Return why each text is not Python, in one line; empty for one that is.

    This Python parses them, in a process of its own. The text at which a process dies or hangs is
    the first one of the next process, since memory that earlier texts took must change no verdict;
    if that one has no answer either, its end is the verdict.
    """
    problems: list[str] = []
    while len(problems) < len(texts):
        answers, end = _parser_answers(texts[len(problems) :])
        problems += answers or [end]
    return problems


def _parser_answers(texts: Sequence[str]) -> tuple[list[str], str]:
    """Return the answers of one process, and why it gave no more."""
    data = "".join(f"{json.dumps(text)}\n" for text in texts).encode()
    try:
        # In a session of its own: an interrupt of the terminal is for the command alone.
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_SCRIPT)],
            env=without_secrets(os.environ),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError as error:
        raise InfrastructureError(f"the parser does not start: {error}") from error
    with process:
        try:
            output = process.communicate(data, timeout=_MAX_WAIT)[0]
            end = _end_in_words(process.returncode)
        except subprocess.TimeoutExpired as error:
            output = error.stdout or b""
            end = "the parser did not answer in time"
        finally:
            process.kill()
            # After an interrupt, nothing else waits.
            process.wait()
    # What follows the last line end is an answer that was cut off.
    lines = output.decode("ascii", "replace").split("\n")[:-1]
    if lines[:1] != [READY]:
        # No text is to blame.
        raise InfrastructureError(f"the parser does not start: {end}")
    return lines[1 : len(texts) + 1], end


def _end_in_words(code: int) -> str:
    if code == -signal.SIGXCPU:
        return f"the parser took more than {MAX_SECONDS} s"
    if code < 0:
        return f"the parser died (signal {-code})"
    return f"the parser died (exit code {code})"
