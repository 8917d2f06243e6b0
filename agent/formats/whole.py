"""The ``whole`` format: each file in full, in a fence under its name."""

from __future__ import annotations

from collections.abc import Iterator

from agent.formats.base import Edit, ReplyScope
from agent.formats.reading.fences import fence_of, is_prose, path_above, shortest_fence
from agent.formats.reading.listings import only_fence, read_listings
from agent.formats.text import TextFormat
from llm.chat import Reply


class WholeFormat(TextFormat):
    """Parse and apply whole files."""

    name = "whole"
    joins = True
    whole_files = True

    def read(self, lines: list[str], scope: ReplyScope) -> Iterator[Edit | list[str]]:
        parts = list(read_listings(lines, scope))
        unread = all(isinstance(part, list) for part in parts)
        only = only_fence(lines, scope) if unread else None
        yield from [only] if only else parts

    def render(self, path: str, before: str | None, after: str | None) -> Reply:
        if after is None:
            raise ValueError("the whole format cannot delete a file")
        fence = shortest_fence([after])
        end = "" if not after or after.endswith("\n") else "\n"
        return Reply(f"{path}\n{fence}\n{after}{end}{fence}\n")

    def join(self, partial: str, reply: str) -> str:
        lines = reply.split("\n")
        first = next((n for n, line in enumerate(lines) if fence_of(line)), None)
        if first is None or is_prose(reply):
            return reply
        opened = sum(bool(fence_of(line)) for line in partial.split("\n")) % 2
        closes = not (fence_of(lines[first]) or ("", ""))[1] and not path_above(
            lines[:first], ()
        )
        return partial + reply if opened and closes else reply
