"""Carry an edit over to lines that are not exactly those that the model copied."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import dropwhile


@dataclass(frozen=True)
class Shift:
    """Turns the indentation that a model wrote into the file's: ``drop`` goes, ``add`` comes."""

    drop: str = ""
    add: str = ""

    @classmethod
    def between(cls, have: str, wrote: str) -> Shift:
        """Return the shift from the indentation ``wrote`` to ``have``, without what they share."""
        if have.endswith(wrote):
            return cls(add=have[: len(have) - len(wrote)])
        if wrote.endswith(have):
            return cls(drop=wrote[: len(wrote) - len(have)])
        return cls(drop=wrote, add=have)

    def __call__(self, line: str) -> str:
        """Return ``line`` shifted; blank lines, and those that do not begin so, stay."""
        if not line.strip() or not line.startswith(self.drop):
            return line
        return self.add + line[len(self.drop) :]


def carry_over(
    counterparts: Sequence[Sequence[str]],
    search: Sequence[str],
    replace: Sequence[str],
    shifts: Sequence[Shift],
) -> tuple[str, ...]:
    """Return the lines that come for ``search``, which stands for ``counterparts`` in the file.

    What the model copied and left as it is stays as it is in the file; what it wrote anew is
    shifted like the line in whose place it comes.

    Args:
        counterparts: for each line of ``search`` the lines of the file that it stands for.
        search: the lines that the model meant to copy.
        replace: what it wants there instead.
        shifts: for each line of ``search`` how its indentation differs.
    """
    out: list[str] = []
    matcher = SequenceMatcher(None, search, replace, autojunk=False)
    for kind, first, last, start, end in matcher.get_opcodes():
        if kind == "equal":
            out += [line for part in counterparts[first:last] for line in part]
        else:
            shift = _shift_at(shifts, search, first)
            new = replace[start:end]
            if first and len(counterparts[first - 1]) > 1:
                # The file has the blank line already that the model wants to add.
                new = list(dropwhile(lambda line: not line.strip(), new))
            out += [shift(line) for line in new]
    return tuple(out)


def _shift_at(shifts: Sequence[Shift], search: Sequence[str], index: int) -> Shift:
    """Return the shift of the nearest line that is not blank, the one at ``index`` first."""
    full = [n for n, line in enumerate(search) if line.strip()]
    return shifts[min(full, key=lambda n: (abs(n - index), n))] if full else Shift()
