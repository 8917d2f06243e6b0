"""Write the change between two texts as lines to find and lines to put there."""

from __future__ import annotations

from difflib import SequenceMatcher

from agent.formats.base import SearchReplace
from agent.formats.matching.lines import to_lines, with_ends
from agent.formats.matching.place_edits import place_edits

_CONTEXT = 3


def hunks(before: str, after: str) -> list[tuple[str, str]]:
    """Return (search, replace) for each change, with enough lines around to be unique.

    Applied in order they turn ``before`` into ``after``; where no lines around make a change
    unique, one hunk holds the whole text.
    """
    old, new = to_lines(before), to_lines(after)
    if old == new:
        return []
    if old:
        for context in (_CONTEXT, 4 * _CONTEXT):
            matcher = SequenceMatcher(None, old, new, autojunk=False)
            found = []
            for group in matcher.get_grouped_opcodes(context):
                (_, first, _, start, _), (_, _, last, _, end) = group[0], group[-1]
                found.append((with_ends(old[first:last]), with_ends(new[start:end])))
            lines = list(old)
            edits = [
                SearchReplace("", search, replace, blank_end=True) for search, replace in found
            ]
            blocks = place_edits(lines, edits)
            if lines == list(new) and all(block.span is not None for block in blocks):
                return found
    return [(with_ends(old), with_ends(new))]


def marked(search: str, replace: str) -> list[str]:
    """Return the lines of a hunk as a diff has them: `` `` kept, ``-`` old, ``+`` new."""
    old, new = to_lines(search), to_lines(replace)
    out: list[str] = []
    for kind, i1, i2, j1, j2 in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind == "equal":
            out += [f" {line}" for line in old[i1:i2]]
        else:
            out += [f"-{line}" for line in old[i1:i2]] + [f"+{line}" for line in new[j1:j2]]
    return out


def unmarked(line: str) -> str:
    """Return a line of a diff without its mark, if it has a mark."""
    return line[1:] if line[:1] in (" ", "+", "-") else line
