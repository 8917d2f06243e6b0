"""The ``whole`` format: each file in full, in a fence under its name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from agent.formats.apply import EngineFormat
from agent.formats.base import (
    Edit,
    ReplyScope,
    Unreadable,
    WholeFile,
)
from agent.formats.reading.fences import (
    fence_of,
    is_prose,
    path_above,
    path_in_info,
    shortest_fence,
)
from agent.formats.reading.names import path_in_line, resolve_likely
from agent.formats.reading.syntax import has_errors
from agent.grammars import language_of
from llm.chat import Reply

_TEXTS = (".md", ".rst", ".txt", ".markdown")
_MOST_FENCES = 20


class WholeFormat(EngineFormat):
    """Parse and apply whole files."""

    name = "whole"
    joins = True

    def parse(self, reply: Reply, scope: ReplyScope) -> Sequence[Edit]:
        """Return the files of ``reply``; fences without a name are no files."""
        text = reply.content.removeprefix("\ufeff").replace("\r\n", "\n")
        return tuple(_files(text.split("\n"), scope))

    def render(self, path: str, before: str | None, after: str | None) -> Reply:
        """Return the file in a fence that no line of it begins with."""
        if after is None:
            raise ValueError("the whole format cannot delete a file")
        fence = shortest_fence([after])
        end = "" if not after or after.endswith("\n") else "\n"
        return Reply(f"{path}\n{fence}\n{after}{end}{fence}\n")

    def join(self, partial: str, reply: str) -> str:
        """Return the reply to parse after one that was cut off; see ``EditFormat.join``."""
        lines = reply.split("\n")
        first = next((n for n, line in enumerate(lines) if fence_of(line)), None)
        if first is None or is_prose(reply):
            return reply
        opened = sum(bool(fence_of(line)) for line in partial.split("\n")) % 2
        closes = not (fence_of(lines[first]) or ("", ""))[1] and not path_above(lines[:first], ())
        return partial + reply if opened and closes else reply


def _files(lines: list[str], scope: ReplyScope) -> Iterator[Edit]:
    index = 0
    while index < len(lines):
        fence = fence_of(lines[index])
        if not fence:
            index += 1
            continue
        path, start = _name(lines, index, scope)
        end = _closing(lines, start - 1, fence[0], path)
        if path and end is None:
            yield Unreadable(
                path, f"the file {path} is not complete: its closing fence {fence[0]} is missing."
            )
        if path and end is not None:
            text = "".join(line + "\n" for line in lines[start:end])
            yield WholeFile(resolve_likely(path, scope), text)
        index = len(lines) if end is None else end + 1


def _name(lines: Sequence[str], index: int, scope: ReplyScope) -> tuple[str | None, int]:
    """Return the file of the fence at ``index``, and where its content begins."""
    known = scope.known
    info = (fence_of(lines[index]) or ("", ""))[1]
    path = path_in_info(info, known) or path_above(lines[max(0, index - 2) : index], known)
    if path or index + 1 >= len(lines):
        return path, index + 1
    inside = path_in_line(lines[index + 1], known)
    # A file name as the first line is also content, unless the file is known.
    return (inside, index + 2) if inside in known else (None, index + 1)


def _closing(lines: Sequence[str], start: int, fence: str, path: str | None) -> int | None:
    """Return the line that closes the fence that opens at or before ``start``, None without one.

    A file may hold fences itself, as documentation does: shorter ones do not count, and a bare
    fence closes the last one with a language. Where the lines up to a bare fence are no complete
    program, but those up to a later one are, the later one closes the file. For texts there is no
    such test: the last bare fence before the next named one closes them.
    """
    bare = _bare_fences(lines, start, fence)
    first = next((n for n, depth in bare if depth == 0), None)
    if first is None or path is None:
        return first
    later = [first, *islice((n for n, depth in bare if depth == 0), _MOST_FENCES)]
    if language_of(path) is None:
        return later[-1] if path.endswith(_TEXTS) else first
    whole = (n for n in later if not has_errors(path, "\n".join(lines[start + 1 : n]) + "\n"))
    return next(whole, first)


def _bare_fences(lines: Sequence[str], start: int, fence: str) -> Iterator[tuple[int, int]]:
    """Yield the lines that could close the fence, with the number of fences open after each."""
    depth = 1
    for number in range(start + 1, len(lines)):
        mark = fence_of(lines[number])
        if not mark:
            continue
        if depth == 0 and path_above(lines[max(start, number - 2) : number], ()):
            return
        if mark[0][0] != fence[0] or len(mark[0]) < len(fence):
            continue
        depth = depth + 1 if mark[1] else max(depth - 1, 0)
        if not mark[1]:
            yield number, depth
