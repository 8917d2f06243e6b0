"""Find the lines of an edit in a file, from exact to similar lines.

The first step that finds any place decides and returns all its places; the caller decides whether
several places are ambiguous. The order, documented in docs/edit-formats.md: exact lines; trailing
white space; a uniform difference in indentation; blank lines; ``...`` elisions; likeness.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import Enum
from functools import cached_property, lru_cache, partial
from itertools import dropwhile, pairwise

from rapidfuzz.distance import Indel, Opcodes

from agent.formats.matching.lines import indent_of, starts_of
from agent.grammars import language_of, parser

Opcode = tuple[str, int, int, int, int]
# difflib reads each pair of equal lines again for each run that it finds.
_MOST_EQUAL_PAIRS = 100_000


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
    def between(cls, have: str, wrote: str) -> IndentShift:
        """Return the shift from the indentation ``wrote`` to ``have``, less their common part."""
        tabs, spaces = have.count("\t"), wrote.count(" ")
        if (
            have
            and tabs == len(have)
            and spaces == len(wrote)
            and spaces
            and spaces % tabs == 0
        ):
            return cls(spaces=spaces // tabs)
        if have.endswith(wrote):
            return cls(add=have[: len(have) - len(wrote)])
        if wrote.endswith(have):
            return cls(drop=wrote[: len(wrote) - len(have)])
        return cls(drop=wrote, add=have)

    def __call__(self, line: str) -> str:
        """Return ``line`` shifted; blank lines and lines without ``drop`` stay."""
        if self.spaces:
            bare = line.lstrip(" ")
            depth, rest = divmod(len(line) - len(bare), self.spaces)
            return "\t" * depth + " " * rest + bare
        if not line.strip() or not line.startswith(self.drop):
            return line
        return self.add + line[len(self.drop) :]


def counterparts(
    have: Sequence[str],
    search: Sequence[str],
    taken: Sequence[int],
    wanted: Sequence[int],
) -> list[list[str]]:
    """Return for each line of ``search`` the corresponding lines of the file.

    Blank lines correspond to blank lines of the file while there are any; further blank lines of
    the file belong to the line before. ``taken`` are the numbers of lines of ``have`` that are not
    blank, ``wanted`` those of the corresponding lines of ``search``, one to one.
    """
    parts: list[list[str]] = [[] for _ in search]
    for number, (index, line) in enumerate(zip(wanted, taken, strict=True)):
        parts[index] = [have[line]]
        last = number + 1 == len(wanted)
        blanks = [] if last else list(have[line + 1 : taken[number + 1]])
        for copied in range(index + 1, index + 1 if last else wanted[number + 1]):
            parts[copied] = [blanks.pop(0)] if blanks else []
            index = copied
        parts[index] += blanks
    return parts


@lru_cache(maxsize=4)
def _opcodes(old: tuple[str, ...], new: tuple[str, ...]) -> Sequence[Opcode]:
    """Return difflib's opcodes; with too many equal pairs of lines, one that replaces all."""
    counts = Counter(new)
    if sum(counts[line] for line in old) > _MOST_EQUAL_PAIRS:
        return [("replace", 0, len(old), 0, len(new))]
    return SequenceMatcher(None, old, new, autojunk=False).get_opcodes()


def reindented(
    parts: Sequence[Sequence[str]],
    search: Sequence[str],
    replace: Sequence[str],
    shifts: Sequence[IndentShift],
) -> tuple[str, ...]:
    """Return the new lines for ``search``; ``parts`` and ``shifts`` have an entry for each line.

    Unchanged lines stay as they are in the file; new lines are shifted like the line that they
    replace.
    """
    out: list[str] = []
    for kind, first, last, start, end in _opcodes(tuple(search), tuple(replace)):
        if kind == "equal":
            out += [line for part in parts[first:last] for line in part]
        else:
            shift = _nearest_shift(shifts, search, first)
            new = replace[start:end]
            if first and len(parts[first - 1]) > 1:
                # The file already has the blank line that the model adds.
                new = list(dropwhile(lambda line: not line.strip(), new))
            out += [shift(line) for line in new]
    return tuple(out)


def _nearest_shift(
    shifts: Sequence[IndentShift], search: Lines, index: int
) -> IndentShift:
    for distance in range(len(search) + 1):
        for near in (index - distance, index + distance):
            if 0 <= near < len(search) and search[near].strip():
                return shifts[near]
    return IndentShift()


_DOTS = frozenset({"...", "…", "# ...", "// ...", "/* ... */", "# …", "// …"})
# The search for each piece reads the whole file.
_MOST_PIECES = 50


class MatchStep(str, Enum):
    """The steps of the search, in their order."""

    EXACT = "exact"
    TRAILING_SPACE = "trailing white space"
    INDENTATION = "indentation"
    BLANK_LINES = "blank lines"
    ELISION = "elision"
    LIKENESS = "likeness"


@dataclass
class Place:
    """Lines ``start`` to ``end`` (from 0, end not included); ``make`` returns the new lines.

    It is not frozen because there may be many thousands: a frozen one takes twice the time.
    """

    start: int
    end: int
    make: Callable[[], tuple[str, ...]]

    @cached_property
    def lines(self) -> tuple[str, ...]:
        """The new lines, made when the place is chosen, as there may be thousands of places."""
        return self.make()


Lines = Sequence[str]
_Search = Callable[[Lines, Lines, Lines], list[Place]]


def find_places(
    have: Lines, search: Lines, replace: Lines, path: str = "", *, likeness: bool = True
) -> tuple[MatchStep | None, list[Place]]:
    """Return the first step that finds places for ``search`` in ``have``, and these places.

    ``path`` gives the language for the last step; without ``likeness`` that step is left out.
    """
    if not any(line.strip() for line in search):
        # Blank lines alone have no place, unless the file has no other lines.
        whole = list(search) == list(have) and bool(have)
        return (
            (MatchStep.EXACT, [_place(0, len(have), tuple(replace))])
            if whole
            else (None, [])
        )
    steps: tuple[tuple[MatchStep, _Search], ...] = (
        (MatchStep.EXACT, _exact),
        (MatchStep.TRAILING_SPACE, _trailing),
        (MatchStep.INDENTATION, _indented),
        (MatchStep.BLANK_LINES, _without_blanks),
        (MatchStep.ELISION, _elided),
        (MatchStep.LIKENESS, partial(_similar, path=path)),
    )
    # New lines are made when a place is chosen: they need the lines of now.
    have = tuple(have)
    for step, find in steps if likeness else steps[:-1]:
        if places := find(have, search, replace):
            return step, places
    return None, []


def _place(start: int, end: int, lines: tuple[str, ...]) -> Place:
    return Place(start, end, lambda: lines)


def _exact(have: Lines, search: Lines, replace: Lines) -> list[Place]:
    size, new = len(search), tuple(replace)
    return [_place(s, s + size, new) for s in starts_of(have, search)]


@lru_cache(maxsize=8)
def _stripped(lines: tuple[str, ...], strip: Callable[[str], str]) -> tuple[str, ...]:
    # Cached for hundreds of edits of one file.
    return tuple(map(strip, lines))


def _trailing(have: Lines, search: Lines, replace: Lines) -> list[Place]:
    bare = _stripped(tuple(have), str.rstrip)
    every = range(len(search))
    return [
        _shifted(
            have,
            search,
            replace,
            range(start, start + len(search)),
            every,
            IndentShift(),
        )
        for start in starts_of(bare, [line.rstrip() for line in search])
    ]


def _indented(have: Lines, search: Lines, replace: Lines) -> list[Place]:
    bare = _stripped(tuple(have), str.strip)
    found = []
    every = range(len(search))
    for start in starts_of(bare, [line.strip() for line in search]):
        taken = range(start, start + len(search))
        shift = uniform_shift([have[n] for n in taken], search)
        if shift is not None:
            found.append(_shifted(have, search, replace, taken, every, shift))
    return found


def uniform_shift(window: Lines, search: Lines) -> IndentShift | None:
    """Return the shift from the indentation of ``search`` to that of ``window``, if it is uniform.

    Lines correspond one to one; blank ones do not count.
    """
    pairs = zip(window, search, strict=True)
    shifts = {
        IndentShift.between(indent_of(h), indent_of(s)) for h, s in pairs if h.strip()
    }
    return shifts.pop() if len(shifts) == 1 else None


@lru_cache(maxsize=2)
def _full_lines(have: tuple[str, ...]) -> tuple[Sequence[int], Sequence[str]]:
    bare = _stripped(have, str.strip)
    return [n for n, line in enumerate(bare) if line], [line for line in bare if line]


def _without_blanks(have: Lines, search: Lines, replace: Lines) -> list[Place]:
    numbers, bare = _full_lines(tuple(have))
    wanted = [n for n, line in enumerate(search) if line.strip()]
    core = [search[n] for n in wanted]
    found = []
    for at in starts_of(bare, [line.strip() for line in core]):
        taken = numbers[at : at + len(core)]
        shift = uniform_shift([have[n] for n in taken], core)
        if shift is not None:
            found.append(_shifted(have, search, replace, taken, wanted, shift))
    return found


def _shifted(
    have: Lines,
    search: Lines,
    replace: Lines,
    taken: Sequence[int],
    wanted: Sequence[int],
    shift: IndentShift,
) -> Place:
    """Return the place of the lines ``taken``, which stand for the lines ``wanted`` of a search."""

    def make() -> tuple[str, ...]:
        parts = counterparts(have, search, taken, wanted)
        return reindented(parts, search, replace, [shift] * len(search))

    return Place(taken[0], taken[-1] + 1, make)


def _elided(have: Lines, search: Lines, replace: Lines) -> list[Place]:
    """Match the pieces between lines of dots in order; the lines in between are kept."""
    wanted, new = _pieces(search), _pieces(replace)
    if len(wanted) == 1 or len(wanted) != len(new) or len(wanted) > _MOST_PIECES:
        return []
    pairs = [(w, n) for w, n in zip(wanted, new, strict=True) if w or n]
    if any(not piece for piece, _ in pairs):
        return []
    places: list[Place] = []
    for piece, substitute in pairs:
        end = places[-1].end if places else 0
        found = (
            step(have, piece, substitute) for step in (_exact, _trailing, _indented)
        )
        later = [p for p in next(filter(None, found), []) if p.start >= end]
        if len(later) != 1:
            return []
        places += later
    lines = list(places[0].lines)
    for before, after in pairwise(places):
        lines += [*have[before.end : after.start], *after.lines]
    return [_place(places[0].start, places[-1].end, tuple(lines))]


def _pieces(lines: Lines) -> list[list[str]]:
    pieces: list[list[str]] = [[]]
    for line in lines:
        if line.strip() in _DOTS:
            pieces.append([])
        else:
            pieces[-1].append(line)
    return pieces


_LEAST = 0.85
_LEAST_LINE = 0.8
_LEAD = 0.08
_WORD = re.compile(r"\w+")
_NAME = re.compile(r"_|\d|[a-z][A-Z]")
_OPERATOR = re.compile(r"[<>=!+\-*/%&|^~@]")
_LITERAL = re.compile(r"'[^']*'|\"[^\"]*\"")
_QUOTES = str.maketrans(
    {"‘": "'", "’": "'", "“": '"', "”": '"', "\u00a0": " ", "–": "-", "—": "-"}
)
_MOST_LINES = 400
# The comparison takes each line of one text with each of the other, by character.
_MOST_PAIRS = 2_000_000
_LONGEST_LINE = 1_000
_LARGEST_FILE = 2_000_000


def _similar(have: Lines, search: Lines, replace: Lines, path: str) -> list[Place]:
    """Return the only place whose lines are like ``search``, or nothing.

    Likeness is the mean over the lines of the normalized Indel similarity (rapidfuzz), white
    space, blank lines and the kind of quotes aside. It must be at least 0.85 and lead any place
    that does not overlap by 0.08. Only plain words of prose (comments, docstrings, sentences in
    strings) may differ, and every line is alike by 0.8.
    """
    wanted = [n for n, line in enumerate(search) if line.strip()]
    numbers, _ = _full_lines(tuple(have))
    if not wanted or len(wanted) > _MOST_LINES or len(numbers) < len(wanted):
        return []
    if len(wanted) * len(numbers) > _MOST_PAIRS or sum(map(len, have)) > _LARGEST_FILE:
        return []
    core = [search[n] for n in wanted]
    looked_for = [_plain(line) for line in core]
    plain, known = _plain_lines(tuple(have))
    # Where most lines are nowhere in the file, the places are not compared.
    if 2 * sum(line in known for line in looked_for) < len(wanted) - 2:
        return []
    best = _best([plain[n] for n in numbers], looked_for)
    if best is None:
        return []
    taken = numbers[best : best + len(wanted)]
    if not _may_stand_for(have, list(zip(taken, core, strict=True)), path):
        return []
    parts = counterparts(have, search, taken, wanted)
    shifts = [
        IndentShift.between(indent_of(part[0]), indent_of(line))
        if part
        else IndentShift()
        for part, line in zip(parts, search, strict=True)
    ]
    lines = reindented(parts, search, replace, shifts)
    return [_place(taken[0], taken[-1] + 1, lines)]


@lru_cache(maxsize=2)
def _plain_lines(have: tuple[str, ...]) -> tuple[tuple[str, ...], frozenset[str]]:
    lines = tuple(_plain(line) for line in have)
    return lines, frozenset(lines)


def _plain(line: str) -> str:
    return " ".join(line.translate(_QUOTES).split())


def _best(have: Lines, search: Lines) -> int | None:
    size = len(search)
    known: dict[tuple[str, str], float] = {}

    def likeness(start: int) -> float:
        total = 0.0
        for index, line in enumerate(search):
            key = (have[start + index], line)
            if key not in known:
                known[key] = (
                    Indel.normalized_similarity(*key, score_cutoff=0.5)
                    if max(map(len, key)) <= _LONGEST_LINE
                    else float(key[0] == line)
                )
            total += known[key]
            if total + size - index - 1 < _LEAST * size:
                return 0.0
        return total / size

    scores = [likeness(start) for start in range(len(have) - size + 1)]
    best = max(range(len(scores)), key=lambda start: (scores[start], -start))
    apart = [score for start, score in enumerate(scores) if abs(start - best) >= size]
    second = max([*apart, 0.0])
    return best if scores[best] >= _LEAST and scores[best] - second >= _LEAD else None


def _may_stand_for(have: Lines, pairs: Sequence[tuple[int, str]], path: str) -> bool:
    differing = [(n, line) for n, line in pairs if _plain(have[n]) != _plain(line)]
    if not differing:
        return True
    if any(max(len(have[n]), len(line)) > _LONGEST_LINE for n, line in differing):
        return False
    prose = comment_columns(have, path, {n for n, _ in differing})
    return all(
        _harmless(have[n], line, prose.get(n, frozenset())) for n, line in differing
    )


def _harmless(line: str, wrote: str, prose: frozenset[int]) -> bool:
    if Indel.normalized_similarity(_plain(line), _plain(wrote)) < _LEAST_LINE:
        return False
    if _OPERATOR.findall(line) != _OPERATOR.findall(wrote):
        return False
    have, want = list(_WORD.finditer(line)), _WORD.findall(wrote)
    literals = [
        m for m in _LITERAL.finditer(line.translate(_QUOTES)) if m.start() not in prose
    ]
    said = _LITERAL.findall(wrote.translate(_QUOTES))
    if any(m.group() not in said for m in literals) or (
        not prose and len(literals) != len(said)
    ):
        return False
    changes: Opcodes = Indel.opcodes([match.group() for match in have], want)
    for change in changes:
        if change.tag == "equal":
            continue
        # A new word belongs to the word before it, else to the one behind it.
        first = change.src_start - (change.tag == "insert")
        touched = have[max(0, first) : max(change.src_end, first + 1)]
        words = [match.group() for match in touched] + want[
            change.dest_start : change.dest_end
        ]
        in_prose = bool(touched) and all(match.start() in prose for match in touched)
        if not in_prose or any(_NAME.search(word) for word in words):
            return False
    return True


# A string that is a sentence, not a name: three or more plain words in one line.
_SENTENCE = re.compile(rb"(?:\b[A-Za-z]+\b[,;:]? +){2,}[A-Za-z]+")


def comment_columns(
    lines: Sequence[str], path: str, asked: Collection[int]
) -> Mapping[int, frozenset[int]]:
    """Return for each of the lines ``asked`` (from 0) the columns, in characters, that are prose.

    Prose is in comments, docstrings, and strings of one line that are sentences. A file in an
    unknown language has none.
    """
    language = language_of(path)
    if language is None:
        return {}
    encoded = [line.encode("utf-8", "surrogatepass") for line in lines]
    tree = parser(language).parse(b"\n".join(encoded))
    columns: dict[int, set[int]] = {}
    stack = [tree.root_node]
    while stack:
        node = stack.pop()
        string = node.type.startswith("string") or node.type.endswith("string_literal")
        prose = "comment" in node.type
        if string and not prose:
            alone = (
                node.parent is not None and node.parent.type == "expression_statement"
            )
            one_line = node.start_point.row == node.end_point.row
            prose = alone or (one_line and bool(_SENTENCE.search(node.text or b"")))
        if not prose:
            stack += [] if string else node.children
            continue
        for row in asked:
            if not node.start_point.row <= row <= node.end_point.row:
                continue
            first = node.start_point.column if row == node.start_point.row else 0
            last = (
                node.end_point.column
                if row == node.end_point.row
                else len(encoded[row])
            )
            start = len(encoded[row][:first].decode("utf-8", "ignore"))
            end = len(encoded[row][:last].decode("utf-8", "ignore"))
            columns.setdefault(row, set()).update(range(start, end))
    return {row: frozenset(found) for row, found in columns.items()}
