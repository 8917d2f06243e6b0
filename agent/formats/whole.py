"""The ``whole`` format: each file in full, in a fence under its name."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from swe_retry.agent.formats.edits import Part
from swe_retry.agent.formats.protocol import ReplyScope
from swe_retry.agent.formats.reading.fences import (
    fence_of,
    has_open_fence,
    is_prose,
    path_above,
)
from swe_retry.agent.formats.reading.listings import (
    only_fence,
    read_listings,
    read_pairs,
)
from swe_retry.agent.formats.text import TextFormat


class WholeFormat(TextFormat):
    """Parse and apply whole files."""

    name = "whole"
    joins = True
    whole_files = True

    def read(self, lines: list[str], scope: ReplyScope) -> Iterator[Part]:
        parts = list(read_listings(lines, scope))
        read_otherwise = chain(parts, read_pairs(lines, scope))
        if all(isinstance(part, list) for part in read_otherwise):
            edit = only_fence(lines, scope)
            if edit:
                yield edit
                return
        yield from parts

    def join(self, partial: str, reply: str) -> str:
        if is_prose(reply) or not has_open_fence(partial.split("\n")):
            return reply
        lines = reply.split("\n")
        for number, line in enumerate(lines):
            fence = fence_of(line)
            if fence:
                above = path_above(lines[:number], ())
                closes = not fence[1] and not above
                return partial + reply if closes else reply
        return reply
