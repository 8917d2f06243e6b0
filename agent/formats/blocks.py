"""Read SEARCH/REPLACE blocks, however a model has dressed them up."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from agent.formats.base import Edit, Scope, SearchReplace, Unreadable
from agent.formats.fences import fence_of, path_above, path_in_info
from agent.formats.names import clean_name, path_in_line, resolve_existing

# UPDATED and ORIGINAL are the words of 2023.
OPEN = re.compile(r"^\s{0,3}(<{5,}) ?(?:SEARCH|ORIGINAL)\b")
DIVIDER = re.compile(r"^(={5,})\s*$")
CLOSE = re.compile(r"^\s{0,3}(>{5,}) ?(?:REPLACE|UPDATED)\b")
_APPENDS = re.compile(
    r"\bappend|\b(?:to|at) the (?:very )?(?:end|bottom)\b|\bend of (?:the )?file\b", re.IGNORECASE
)


def read_blocks(lines: list[str], scope: Scope) -> Iterator[Edit]:
    """Yield the blocks in ``lines``; one that cannot be read is an ``Unreadable``."""
    return _Blocks(lines, scope).all()


class _Blocks:
    """Reads the blocks of one reply, from top to bottom."""

    def __init__(self, lines: list[str], scope: Scope) -> None:
        self.lines = lines
        self.scope = scope
        self.path: str | None = None
        self.fence = ""

    def all(self) -> Iterator[Edit]:
        done = 0
        at = self._next_opening(0)
        while at is not None:
            before = self.lines[done:at]
            self.path = self._name(before) or self.path
            self.fence = _last_fence(before) or self.fence
            end = self._closing(at)
            yield self._edit(before, at, end)
            done = min(end + 1, len(self.lines))
            at = self._next_opening(done)

    def _next_opening(self, start: int) -> int | None:
        found = (n for n in range(start, len(self.lines)) if OPEN.match(self.lines[n]))
        return next(found, None)

    def _name(self, before: Sequence[str]) -> str | None:
        """Return the file that the lines before a block name: inside or above its fence."""
        full = [line for line in before if line.strip()]
        if not full:
            return None
        known = self.scope.known
        if fence := fence_of(full[-1]):
            return path_in_info(fence[1], known) or path_above(full[:-1], known)
        if len(full) > 1 and fence_of(full[-2]):
            # Inside the fence a comment sign may stand before the name.
            bare = re.sub(r"^(#|//|--|/\*|<!--)\s*", "", full[-1].strip())
            return path_in_line(bare, known)
        return path_above(full, known)

    def _closing(self, at: int) -> int:
        """Return the line of the marker that ends the block, the number of lines when none does.

        A marker of the same length as the opening one goes before others: whoever writes blocks
        about blocks uses longer ones.
        """
        size = len(OPEN.match(self.lines[at])[1])  # type: ignore[index]
        other = None
        for number in range(at + 1, len(self.lines)):
            opening, closing = OPEN.match(self.lines[number]), CLOSE.match(self.lines[number])
            if closing and len(closing[1]) == size:
                return number
            if closing and other is None:
                other = number
            if opening and len(opening[1]) == size:
                return other or number - 1
        return other or len(self.lines)

    def _edit(self, before: Sequence[str], at: int, end: int) -> Edit:
        """Return the block between its markers at ``at`` and ``end``."""
        inside = self.lines[at + 1 : end]
        closed = end < len(self.lines) and bool(CLOSE.match(self.lines[end]))
        if not closed:
            inside = self.lines[at + 1 : end + 1]
        if self.path is None:
            return Unreadable("", _NO_NAME + _shown(self.lines[at : at + 3]))
        dividers = _dividers(inside, len(OPEN.match(self.lines[at])[1]))  # type: ignore[index]
        if not dividers:
            problem = f"the block for {self.path} has no line `=======` between its two parts."
            return Unreadable(self.path, problem + _shown(inside))
        if not closed:
            inside = _without_closing_fence(inside)
            if not inside:
                problem = f"the block for {self.path} has no `>>>>>>> REPLACE` at its end."
                return Unreadable(self.path, problem)
        readings = [self._sections(inside, divider) for divider in dividers]
        (search, replace), *others = dict.fromkeys(r for reading in readings for r in reading)
        return SearchReplace(
            path=resolve_existing(self.path, self.scope.known) if search.strip() else self.path,
            search=search,
            replace=replace,
            readings=tuple(others),
            appends=bool(_APPENDS.search(_prose(before))),
            blank_end=True,
        )

    def _sections(self, inside: Sequence[str], divider: int) -> list[tuple[str, str]]:
        """Return the ways to read the two parts: as they stand, and without a wrapping."""
        search, replace = inside[:divider], inside[divider + 1 :]
        bare_search, bare_replace = self._unwrap(search), self._unwrap(replace)
        if bare_search == search:
            return [(_text(search), _text(bare_replace))]
        return [(_text(search), _text(replace)), (_text(bare_search), _text(bare_replace))]

    def _unwrap(self, lines: Sequence[str]) -> Sequence[str]:
        """Take off what models wrap a part in: the file's name as the first line, a fence.

        A fence shorter than the one around the block is content.
        """
        if lines and clean_name(lines[0]) == self.path:
            lines = lines[1:]
        marks = [fence_of(lines[0]), fence_of(lines[-1])] if len(lines) > 1 else []
        wrapped = all(mark and mark[0].startswith(self.fence) for mark in marks)
        return lines[1:-1] if marks and wrapped else lines


_NO_NAME = (
    "a block has no file name. Put the file's path alone on the line before the opening fence."
)


def _shown(lines: Sequence[str]) -> str:
    return "".join(f"\n    | {line}" for line in lines[:10])


def _last_fence(before: Sequence[str]) -> str:
    marks = [mark[0] for line in before if (mark := fence_of(line))]
    return marks[-1] if marks else ""


def _prose(before: Sequence[str]) -> str:
    """Return the lines before a block that are neither fences nor names."""
    return "\n".join(line for line in before if not fence_of(line) and " " in line.strip())


def _dividers(inside: Sequence[str], size: int) -> list[int]:
    """Return the lines that may part the block, the likeliest first.

    One as long as the opening marker goes before others; then one that does not underline the
    line above it, as headings are underlined.
    """
    found = {n: len(m[1]) for n, line in enumerate(inside) if (m := DIVIDER.match(line))}
    same = [n for n, length in found.items() if length == size]
    candidates = same or [n for n, length in found.items() if length <= 9]

    def underlines(n: int) -> bool:
        return n > 0 and len(inside[n - 1].rstrip()) == found[n]

    return sorted(candidates, key=lambda n: (underlines(n), n))


def _without_closing_fence(inside: Sequence[str]) -> list[str]:
    """Return the block when a closing fence stands where its marker is missing, else nothing."""
    full = [n for n, line in enumerate(inside) if line.strip()]
    if full and (fence := fence_of(inside[full[-1]])) and not fence[1]:
        return list(inside[: full[-1]])
    return []


def _text(lines: Sequence[str]) -> str:
    return "".join(line + "\n" for line in lines)
