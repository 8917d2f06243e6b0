"""Re-indent an edit for lines that differ from the model's copy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import lru_cache
from itertools import dropwhile

Opcode = tuple[str, int, int, int, int]
# difflib reads each pair of equal lines again for each run that it finds.
_MOST_PAIRS = 100_000


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
        if have and tabs == len(have) and spaces == len(wrote) and spaces and spaces % tabs == 0:
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
    have: Sequence[str], search: Sequence[str], taken: Sequence[int], wanted: Sequence[int]
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
    if sum(counts[line] for line in old) > _MOST_PAIRS:
        return [("replace", 0, len(old), 0, len(new))]
    return SequenceMatcher(None, old, new, autojunk=False).get_opcodes()


def carry_over(
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
            shift = _shift_at(shifts, search, first)
            new = replace[start:end]
            if first and len(parts[first - 1]) > 1:
                # The file already has the blank line that the model adds.
                new = list(dropwhile(lambda line: not line.strip(), new))
            out += [shift(line) for line in new]
    return tuple(out)


def _shift_at(shifts: Sequence[IndentShift], search: Sequence[str], index: int) -> IndentShift:
    for distance in range(len(search) + 1):
        for near in (index - distance, index + distance):
            if 0 <= near < len(search) and search[near].strip():
                return shifts[near]
    return IndentShift()
