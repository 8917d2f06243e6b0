"""Find the lines of an edit in a file, from exact to similar lines.

The first step that finds any match decides and returns all its matches; the caller decides whether
several matches are ambiguous. The order, documented in docs/edit-formats.md: exact lines; trailing
white space; a uniform difference in indentation; blank lines; ``...`` elisions; likeness.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import StrEnum
from functools import cache, cached_property, lru_cache, partial
from itertools import pairwise
from typing import TYPE_CHECKING

from rapidfuzz.distance import Indel

from swe_retry.agent.formats.matching.lines import (
    Lines,
    Numbers,
    PlacingWork,
    has_text,
    indent_of,
    lines_at,
    numbers_where,
    starts_of,
)
from swe_retry.agent.grammars import language_of, parser

if TYPE_CHECKING:
    from tree_sitter import Node

Opcode = tuple[str, int, int, int, int]
FixedLines = tuple[str, ...]
# difflib reads each pair of equal lines again for each run that it finds.
_MAX_EQUAL_PAIRS = 100_000


@dataclass(frozen=True)
class IndentShift:
    """Changes the indentation of a model to that of the file: removes ``drop``, adds ``add``.

    Attributes:
        spaces: the number of spaces for a tab of the file; 0 where it has no tabs.
    """

    drop: str = ""
    add: str = ""
    spaces: int = 0

    @classmethod
    def between(cls, file_indent: str, model_indent: str) -> IndentShift:
        """Return the shift from the model's indentation to the file's, less their common part."""
        tabs = file_indent.count("\t")
        spaces = model_indent.count(" ")
        only_tabs = tabs == len(file_indent)
        only_spaces = spaces == len(model_indent)
        if tabs and spaces and only_tabs and only_spaces and spaces % tabs == 0:
            return cls(spaces=spaces // tabs)
        if file_indent.endswith(model_indent):
            return cls(add=file_indent.removesuffix(model_indent))
        if model_indent.endswith(file_indent):
            return cls(drop=model_indent.removesuffix(file_indent))
        return cls(drop=model_indent, add=file_indent)

    def __call__(self, line: str) -> str:
        """Return ``line`` shifted; blank lines and lines without ``drop`` stay."""
        if self.spaces:
            bare = line.lstrip(" ")
            width = len(line) - len(bare)
            depth, rest = divmod(width, self.spaces)
            return "\t" * depth + " " * rest + bare
        if not line.strip() or not line.startswith(self.drop):
            return line
        return self.add + line[len(self.drop) :]


def counterparts(
    lines: Lines,
    search: Lines,
    file_numbers: Numbers,
    search_numbers: Numbers,
) -> list[list[str]]:
    """Return for each line of ``search`` the corresponding lines of the file.

    Blank lines correspond to blank lines of the file while there are any; further blank lines of
    the file belong to the line before. ``file_numbers`` are the lines of the file that are not
    blank, ``search_numbers`` the corresponding lines of ``search``, one to one.
    """
    parts: list[list[str]] = [[] for _ in search]
    last = len(file_numbers) - 1
    pairs = zip(search_numbers, file_numbers, strict=True)
    for position, (index, file_number) in enumerate(pairs):
        parts[index] = [lines[file_number]]
        if position == last:
            break
        next_number = file_numbers[position + 1]
        blanks = list(lines[file_number + 1 : next_number])
        last_index = search_numbers[position + 1] - 1
        for blank_index in range(index + 1, last_index + 1):
            if blanks:
                parts[blank_index] = [blanks.pop(0)]
        parts[last_index] += blanks
    return parts


@lru_cache(maxsize=4)
def _opcodes(old: FixedLines, new: FixedLines) -> Sequence[Opcode]:
    """Return difflib's opcodes; with too many equal pairs of lines, one that replaces all."""
    counts = Counter(new)
    if sum(counts[line] for line in old) > _MAX_EQUAL_PAIRS:
        return [("replace", 0, len(old), 0, len(new))]
    return SequenceMatcher(None, old, new, autojunk=False).get_opcodes()


def reindent(
    parts: Sequence[Lines],
    search: Lines,
    replace: Lines,
    shifts: Sequence[IndentShift],
) -> FixedLines:
    """Return the new lines for ``search``; ``parts`` and ``shifts`` have an entry for each line.

    Unchanged lines stay as they are in the file; new lines are shifted like the line that they
    replace.
    """
    new_lines: list[str] = []
    opcodes = _opcodes(tuple(search), tuple(replace))
    for kind, first, last, start, end in opcodes:
        if kind == "equal":
            for part in parts[first:last]:
                new_lines += part
            continue
        shift = _nearest_shift(shifts, search, first)
        if first and len(parts[first - 1]) > 1:
            # The file already has the blank line that the model adds.
            while start < end and not replace[start].strip():
                start += 1
        new_lines += map(shift, replace[start:end])
    return tuple(new_lines)


def _nearest_shift(
    shifts: Sequence[IndentShift],
    search: Lines,
    index: int,
) -> IndentShift:
    for distance in range(len(search) + 1):
        for near in (index - distance, index + distance):
            is_inside = 0 <= near < len(search)
            if is_inside and search[near].strip():
                return shifts[near]
    return IndentShift()


_DOTS = frozenset({"...", "…", "# ...", "// ...", "/* ... */", "# …", "// …"})
# The search for each piece reads the whole file.
_MAX_PIECES = 50


class MatchStep(StrEnum):
    """The steps of the search, in their order."""

    EXACT = "exact"
    TRAILING_SPACE = "trailing white space"
    INDENTATION = "indentation"
    BLANK_LINES = "blank lines"
    ELISION = "elision"
    LIKENESS = "likeness"


@dataclass
class Match:
    """Lines ``start`` to ``end`` (from 0, end not included); ``make`` returns the new lines.

    It is not frozen because there may be many thousands: a frozen one takes twice the time.
    """

    start: int
    end: int
    make: Callable[[], FixedLines]

    @cached_property
    def lines(self) -> FixedLines:
        """The new lines, made when the match is chosen, as there may be thousands of matches."""
        return self.make()


_LOOKS_PER_MATCH = 4
# For each line, to compare the indentation.
_LOOKS_PER_SHIFT = 3


_Search = Callable[[Lines, Lines, Lines, PlacingWork], list[Match]]


def find_matches(
    lines: Lines,
    search: Lines,
    replace: Lines,
    work: PlacingWork,
    path: str,
    *,
    likeness: bool,
) -> tuple[MatchStep | None, list[Match]]:
    """Return the first step that finds matches of ``search`` in ``lines``, and these matches.

    ``path`` gives the language for the last step; without ``likeness`` that step is left out.

    Raises:
        TooMuchWorkError: ``work`` is used up.
    """
    # New lines are made when a match is chosen: they need the lines of now.
    lines = tuple(lines)
    if not has_text(search):
        # Blank lines alone have no match, unless the file has no other lines.
        if lines and tuple(search) == lines:
            match = _fixed_match(0, len(lines), tuple(replace))
            return MatchStep.EXACT, [match]
        return None, []
    searches = dict(_SEARCHES)
    if likeness:
        searches[MatchStep.LIKENESS] = partial(_likeness_matches, path=path)
    for step, find in searches.items():
        work.spend_pass(lines)
        matches = find(lines, search, replace, work)
        if matches:
            return step, matches
    return None, []


def _fixed_match(start: int, end: int, lines: FixedLines) -> Match:
    return Match(start, end, lambda: lines)


def _exact_matches(
    lines: Lines,
    search: Lines,
    replace: Lines,
    work: PlacingWork,
) -> list[Match]:
    size = len(search)
    new_lines = tuple(replace)
    matches = []
    for start in starts_of(lines, search):
        work.spend(_LOOKS_PER_MATCH)
        matches.append(_fixed_match(start, start + size, new_lines))
    return matches


@lru_cache(maxsize=16)
def _bare_lines(
    lines: FixedLines,
    strip: Callable[[str], str],
    blanks: bool,
) -> tuple[Numbers, FixedLines]:
    """Return the lines stripped, with or without blank ones, after their numbers."""
    # Cached for hundreds of edits of one file.
    numbers: Numbers = range(len(lines))
    if not blanks:
        numbers = numbers_where(lines, str.strip)
    return numbers, tuple(map(strip, lines_at(lines, numbers)))


def _bare_matches(
    lines: Lines,
    search: Lines,
    replace: Lines,
    work: PlacingWork,
    strip: Callable[[str], str] = str.strip,
    blanks: bool = True,
) -> list[Match]:
    """Match lines as ``strip`` leaves them, with or without ``blanks``."""
    numbers, bare_lines = _bare_lines(tuple(lines), strip, blanks)
    search_numbers, bare_search = _bare_lines(tuple(search), strip, blanks)
    size = len(bare_search)

    def shifted_lines(file_numbers: Numbers, shift: IndentShift) -> FixedLines:
        parts = counterparts(lines, search, file_numbers, search_numbers)
        return reindent(parts, search, replace, [shift] * len(search))

    matches = []
    for start in starts_of(bare_lines, bare_search):
        work.spend(_LOOKS_PER_MATCH)
        file_numbers = numbers[start : start + size]
        shift: IndentShift | None = IndentShift()
        if strip is str.strip:
            work.spend(_LOOKS_PER_SHIFT * size)
            window = lines_at(lines, file_numbers)
            shift = uniform_shift(window, lines_at(search, search_numbers))
        if shift:
            make = partial(shifted_lines, file_numbers, shift)
            matches.append(Match(file_numbers[0], file_numbers[-1] + 1, make))
    return matches


def uniform_shift(window: Lines, search: Lines) -> IndentShift | None:
    """Return the shift from the indentation of ``search`` to that of ``window``, if it is uniform.

    Lines correspond one to one; blank ones do not count.
    """
    shifts = set()
    for file_line, search_line in zip(window, search, strict=True):
        if file_line.strip():
            file_indent = indent_of(file_line)
            shift = IndentShift.between(file_indent, indent_of(search_line))
            shifts.add(shift)
    if len(shifts) == 1:
        return shifts.pop()
    return None


def _elision_matches(
    lines: Lines,
    search: Lines,
    replace: Lines,
    work: PlacingWork,
) -> list[Match]:
    """Match the pieces between lines of dots in order; the lines in between are kept."""
    old_pieces = _pieces(search)
    new_pieces = _pieces(replace)
    if len(old_pieces) != len(new_pieces):
        return []
    if not 1 < len(old_pieces) <= _MAX_PIECES:
        return []
    matches = []
    end = 0
    for old, new in zip(old_pieces, new_pieces, strict=True):
        if not old and not new:
            continue
        if not old:
            return []
        match = _only_match_from(end, lines, old, new, work)
        if not match:
            return []
        matches.append(match)
        end = match.end
    if not matches:
        return []
    new_lines = list(matches[0].lines)
    for before, after in pairwise(matches):
        new_lines += lines[before.end : after.start]
        new_lines += after.lines
    return [_fixed_match(matches[0].start, end, tuple(new_lines))]


def _only_match_from(
    first: int,
    lines: Lines,
    search: Lines,
    replace: Lines,
    work: PlacingWork,
) -> Match | None:
    """Return the only match of a piece from ``first`` on, by the first step that has any."""
    for step in SURE_STEPS:
        work.spend_pass(lines)
        matches = _SEARCHES[step](lines, search, replace, work)
        if matches:
            later = [match for match in matches if match.start >= first]
            return later[0] if len(later) == 1 else None
    return None


_SEARCHES: dict[MatchStep, _Search] = {
    MatchStep.EXACT: _exact_matches,
    MatchStep.TRAILING_SPACE: partial(_bare_matches, strip=str.rstrip),
    MatchStep.INDENTATION: _bare_matches,
    MatchStep.BLANK_LINES: partial(_bare_matches, blanks=False),
    MatchStep.ELISION: _elision_matches,
}
SURE_STEPS = (MatchStep.EXACT, MatchStep.TRAILING_SPACE, MatchStep.INDENTATION)
"""Those that find equal lines, apart from the white space around them."""


def _pieces(lines: Lines) -> list[list[str]]:
    pieces: list[list[str]] = [[]]
    for line in lines:
        if line.strip() in _DOTS:
            pieces.append([])
        else:
            pieces[-1].append(line)
    return pieces


_MIN_LIKENESS = 0.85
_MIN_LINE_LIKENESS = 0.8
_MIN_LEAD = 0.08
_WORD = re.compile(r"\w+")
# A word with a mark, a digit or a capital inside is no word of prose.
_NAME = re.compile(r"_|\d|[a-z][A-Z]")
_OPERATOR = re.compile(r"[<>=!+\-*/%&|^~@]")
_LITERAL = re.compile(r"'[^']*'|\"[^\"]*\"")
_QUOTES = str.maketrans(
    {
        "‘": "'",
        "’": "'",
        "“": '"',
        "”": '"',
        "\u00a0": " ",
        "–": "-",
        "—": "-",
    }
)
_MAX_LINES = 400
_CHARACTERS_PER_LOOK = 64
_MAX_LINE_LENGTH = 1_000
_MAX_FILE_LENGTH = 2_000_000


def _likeness_matches(
    lines: Lines,
    search: Lines,
    replace: Lines,
    work: PlacingWork,
    path: str,
) -> list[Match]:
    """Return the only match whose lines are like ``search``, or nothing.

    Likeness is the mean over the lines of the normalized Indel similarity (rapidfuzz), white
    space, blank lines and the kind of quotes aside. It must be at least 0.85 and lead any place
    that does not overlap by 0.08. Only plain words of prose (comments, docstrings, sentences in
    strings) may differ, and every line is alike by 0.8.
    """
    search_numbers = numbers_where(search, str.strip)
    numbers = _bare_lines(tuple(lines), str.strip, False)[0]
    size = len(search_numbers)
    if not 0 < size <= min(_MAX_LINES, len(numbers)):
        return []
    if sum(map(len, lines)) > _MAX_FILE_LENGTH:
        return []
    work.spend(len(lines))
    full_search = lines_at(search, search_numbers)
    plain_search = list(map(_plain, full_search))
    plain_lines = _plain_lines(tuple(lines))
    all_plain_lines = set(plain_lines)
    # Where most lines are nowhere in the file, the places are not compared.
    equal_count = sum(line in all_plain_lines for line in plain_search)
    if 2 * equal_count < size - 2:
        return []
    full_plain_lines = lines_at(plain_lines, numbers)
    start = _best_start(full_plain_lines, plain_search, work)
    if start is None:
        return []
    file_numbers = numbers[start : start + size]
    pairs = list(zip(file_numbers, full_search, strict=True))
    # The file is parsed, which takes as long as a look for each character.
    work.spend(sum(map(len, lines)))
    if not _may_stand_for(lines, pairs, path):
        return []
    parts = counterparts(lines, search, file_numbers, search_numbers)
    shifts = []
    for part, line in zip(parts, search, strict=True):
        shift = IndentShift()
        if part:
            file_indent = indent_of(part[0])
            shift = IndentShift.between(file_indent, indent_of(line))
        shifts.append(shift)
    new_lines = reindent(parts, search, replace, shifts)
    return [_fixed_match(file_numbers[0], file_numbers[-1] + 1, new_lines)]


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
    lines: Lines,
    path: str,
    rows: Collection[int],
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
