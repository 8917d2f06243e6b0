"""Indent the new lines of an edit as the file is, where the model indented otherwise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import lru_cache

from swe_retry.agent.formats.matching.lines import FixedLines, Lines, Numbers, indent_of

Opcode = tuple[str, int, int, int, int]
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
    def between(cls, file_line: str, model_line: str) -> IndentShift:
        """Return the shift from the model's indentation to the file's, less their common part."""
        file_indent = indent_of(file_line)
        model_indent = indent_of(model_line)
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
    lines: Lines, search: Lines, file_numbers: Numbers, search_numbers: Numbers
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
    parts: Sequence[Lines], search: Lines, replace: Lines, shifts: Sequence[IndentShift]
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
    shifts: Sequence[IndentShift], search: Lines, index: int
) -> IndentShift:
    for distance in range(len(search) + 1):
        for near in (index - distance, index + distance):
            is_inside = 0 <= near < len(search)
            if is_inside and search[near].strip():
                return shifts[near]
    return IndentShift()


def uniform_shift(window: Lines, search: Lines) -> IndentShift | None:
    """Return the shift from the indentation of ``search`` to that of ``window``, if it is uniform.

    Lines correspond one to one; blank ones do not count.
    """
    shifts = set()
    for file_line, search_line in zip(window, search, strict=True):
        if file_line.strip():
            shifts.add(IndentShift.between(file_line, search_line))
    if len(shifts) == 1:
        return shifts.pop()
    return None
