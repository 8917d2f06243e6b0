"""Find the lines that are like those of an edit, where only words of prose differ."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from rapidfuzz.distance import Indel

from swe_retry.agent.formats.matching.lines import (
    FixedLines,
    Lines,
    PlacingWork,
    lines_at,
    numbers_where,
)
from swe_retry.agent.formats.matching.reindent import (
    IndentShift,
    counterparts,
    reindent,
)
from swe_retry.agent.grammars import language_of, parser

if TYPE_CHECKING:
    from tree_sitter import Node

_MIN_LIKENESS = 0.85
_MIN_LINE_LIKENESS = 0.8
_MIN_LEAD = 0.08
_WORD = re.compile(r"\w+")
# A word with a mark, a digit or a capital inside is no word of prose.
_NAME = re.compile(r"_|\d|[a-z][A-Z]")
_OPERATOR = re.compile(r"[<>=!+\-*/%&|^~@]")
_LITERAL = re.compile(r"'[^']*'|\"[^\"]*\"")
_QUOTES = str.maketrans("‘’“”\u00a0–—", "''\"\" --")
_MAX_LINES = 400
_CHARACTERS_PER_LOOK = 64
_MAX_LINE_LENGTH = 1_000
_MAX_FILE_LENGTH = 2_000_000


def likest_lines(
    lines: FixedLines, search: Lines, replace: Lines, work: PlacingWork, path: str
) -> tuple[int, int, FixedLines] | None:
    """Return the first and last line of the only ones like ``search``, and their new lines.

    Likeness is the mean over the lines of the normalized Indel similarity (rapidfuzz), white
    space, blank lines and the kind of quotes aside. It must be at least 0.85 and lead any place
    that does not overlap by 0.08. Only plain words of prose (comments, docstrings, sentences in
    strings) may differ, and every line is alike by 0.8.
    """
    search_numbers = numbers_where(search, str.strip)
    numbers = numbers_where(lines, str.strip)
    size = len(search_numbers)
    if not 0 < size <= min(_MAX_LINES, len(numbers)):
        return None
    if sum(map(len, lines)) > _MAX_FILE_LENGTH:
        return None
    work.spend(len(lines))
    full_search = lines_at(search, search_numbers)
    plain_search = list(map(_plain, full_search))
    plain_lines = _plain_lines(lines)
    all_plain_lines = set(plain_lines)
    # Where most lines are nowhere in the file, the places are not compared.
    equal_count = sum(line in all_plain_lines for line in plain_search)
    if 2 * equal_count < size - 2:
        return None
    full_plain_lines = lines_at(plain_lines, numbers)
    start = _best_start(full_plain_lines, plain_search, work)
    if start is None:
        return None
    file_numbers = numbers[start : start + size]
    pairs = list(zip(file_numbers, full_search, strict=True))
    # The file is parsed, which takes as long as a look for each character.
    work.spend(sum(map(len, lines)))
    if not _may_stand_for(lines, pairs, path):
        return None
    parts = counterparts(lines, search, file_numbers, search_numbers)
    shifts = []
    for part, line in zip(parts, search, strict=True):
        shift = IndentShift()
        if part:
            shift = IndentShift.between(part[0], line)
        shifts.append(shift)
    new_lines = reindent(parts, search, replace, shifts)
    return file_numbers[0], file_numbers[-1] + 1, new_lines


@lru_cache(maxsize=2)
def _plain_lines(lines: FixedLines) -> FixedLines:
    return tuple(map(_plain, lines))


def _plain(line: str) -> str:
    return " ".join(line.translate(_QUOTES).split())


def _best_start(lines: Lines, search: Lines, work: PlacingWork) -> int | None:
    """Return where ``search`` is likest, if it is like enough and no other place is near to it."""
    size = len(search)

    @cache
    def line_likeness(line: str, other: str) -> float:
        work.spend(1 + len(other) // _CHARACTERS_PER_LOOK)
        if max(len(line), len(other)) > _MAX_LINE_LENGTH:
            return float(line == other)
        return Indel.normalized_similarity(line, other, score_cutoff=0.5)

    def likeness(start: int) -> float:
        total = 0.0
        for index, line in enumerate(search):
            work.spend(2)
            total += line_likeness(lines[start + index], line)
            # Even with equal lines from here on it is too low.
            if total + size - index - 1 < _MIN_LIKENESS * size:
                return 0.0
        return total / size

    starts = range(len(lines) - size + 1)
    scores = list(map(likeness, starts))
    best_score = max(scores)
    best = scores.index(best_score)
    second = 0.0
    for start, score in enumerate(scores):
        if abs(start - best) >= size:
            second = max(second, score)
    if best_score >= _MIN_LIKENESS and best_score - second >= _MIN_LEAD:
        return best
    return None


def _may_stand_for(lines: Lines, pairs: Sequence[tuple[int, str]], path: str) -> bool:
    """Return whether the lines of the file and of the model, in pairs, mean the same."""
    differing = {}
    for number, written in pairs:
        line = lines[number]
        if _plain(line) != _plain(written):
            if max(len(line), len(written)) > _MAX_LINE_LENGTH:
                return False
            differing[number] = written
    if not differing:
        return True
    prose = comment_columns(lines, path, differing)
    for number, written in differing.items():
        columns = prose.get(number, frozenset())
        if not _is_harmless(lines[number], written, columns):
            return False
    return True


def _is_harmless(line: str, written: str, prose: frozenset[int]) -> bool:
    """Return whether only plain words differ, in the columns ``prose`` of ``line``."""
    likeness = Indel.normalized_similarity(_plain(line), _plain(written))
    if likeness < _MIN_LINE_LIKENESS:
        return False
    if _OPERATOR.findall(line) != _OPERATOR.findall(written):
        return False
    if not _has_equal_literals(line, written, prose):
        return False
    line_words = list(_WORD.finditer(line))
    written_words = _WORD.findall(written)
    old_words = _texts(line_words)
    for change in Indel.opcodes(old_words, written_words):
        if change.tag == "equal":
            continue
        first = change.src_start
        if change.tag == "insert":
            # A new word belongs to the word before it, else to the one behind it.
            first -= 1
        end = max(change.src_end, first + 1)
        touched = line_words[max(0, first) : end]
        in_prose = [match.start() in prose for match in touched]
        if not touched or not all(in_prose):
            return False
        new_words = written_words[change.dest_start : change.dest_end]
        changed_words = [*_texts(touched), *new_words]
        if any(map(_NAME.search, changed_words)):
            return False
    return True


def _texts(matches: Sequence[re.Match[str]]) -> list[str]:
    return [match.group() for match in matches]


def _has_equal_literals(line: str, written: str, prose: frozenset[int]) -> bool:
    written_literals = _LITERAL.findall(written.translate(_QUOTES))
    count = 0
    for match in _LITERAL.finditer(line.translate(_QUOTES)):
        if match.start() not in prose:
            count += 1
            if match.group() not in written_literals:
                return False
    return bool(prose) or count == len(written_literals)


# A string that is a sentence, not a name: three or more plain words in one line.
_SENTENCE = re.compile(rb"(?:\b[A-Za-z]+\b[,;:]? +){2,}[A-Za-z]+")


def comment_columns(
    lines: Lines, path: str, rows: Collection[int]
) -> Mapping[int, frozenset[int]]:
    """Return for each of the lines ``rows`` (from 0) the columns, in characters, that are prose.

    Prose is in comments, docstrings, and strings of one line that are sentences. A file in an
    unknown language has none.
    """
    language = language_of(path)
    if not language:
        return {}
    encoded = [line.encode("utf-8", "surrogatepass") for line in lines]
    tree = parser(language).parse(b"\n".join(encoded))
    columns: dict[int, frozenset[int]] = {}
    stack = [tree.root_node]
    while stack:
        node = stack.pop()
        is_string = node.type.startswith("string") or node.type.endswith(
            "string_literal"
        )
        is_prose = "comment" in node.type
        if is_string and not is_prose:
            is_prose = _is_prose_string(node)
        if not is_prose:
            if not is_string:
                stack += node.children
            continue
        first = node.start_point
        last = node.end_point
        for row in rows:
            if not first.row <= row <= last.row:
                continue
            text = encoded[row]
            start = 0
            if row == first.row:
                start = _characters(text[: first.column])
            if row == last.row:
                text = text[: last.column]
            prose = range(start, _characters(text))
            columns[row] = columns.get(row, frozenset()).union(prose)
    return columns


def _is_prose_string(node: Node) -> bool:
    """Return whether a string is a docstring or a sentence in one line."""
    if node.parent and node.parent.type == "expression_statement":
        return True
    is_on_one_line = node.start_point.row == node.end_point.row
    return is_on_one_line and bool(_SENTENCE.search(node.text or b""))


def _characters(text: bytes) -> int:
    return len(text.decode("utf-8", "ignore"))
