"""The ``whole`` format: each file in full, in a fence under its name."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

from agent.formats.base import ApplyReport, EditResult, MalformedReplyError, Reader
from agent.formats.names import path_in_line
from agent.prompts import render

_FENCE = re.compile(r"^(`{3,}|~{3,})(.*)$")


@dataclass(frozen=True)
class WholeFile:
    """The complete new content of ``path``."""

    path: str
    content: str


@dataclass(frozen=True)
class WholeFormat:
    """Parse and apply whole files."""

    name: str = field(default="whole", init=False)

    def instructions(self, fence: str) -> str:
        """Return the rules and the example, with ``fence`` as the code fence."""
        return render("format_whole", fence=fence)

    def parse(self, reply: str, known: Collection[str]) -> Sequence[WholeFile]:
        """Return the files of ``reply``; fences without a name above them are prose."""
        return tuple(_files(reply.replace("\r\n", "\n").split("\n"), known))

    def apply(self, edits: Sequence[WholeFile], read: Reader, chat: Sequence[str]) -> ApplyReport:
        """Take over each file as it is; the last one of a name wins."""
        contents = {edit.path: edit.content for edit in edits}
        results = [EditResult(edit.path, applied=True, landed_in=edit.path) for edit in edits]
        return ApplyReport(contents, tuple(results))

    def join(self, partial: str, reply: str) -> str:
        """Return the reply to parse after one that was cut off; see ``EditFormat.join``."""
        first = next((line for line in reply.split("\n") if _FENCE.match(line)), "")
        opened = sum(bool(_FENCE.match(line)) for line in partial.split("\n")) % 2
        closes_first = bool(first) and not first.strip("`~ ")
        return partial + reply if opened and closes_first else reply


def _files(lines: list[str], known: Collection[str]) -> Iterator[WholeFile]:
    index = 0
    while index < len(lines):
        opening = _FENCE.match(lines[index])
        if not opening:
            index += 1
            continue
        path = _name_above(lines[max(0, index - 2) : index], known)
        end = _closing(lines, index, opening.group(1))
        if path and end is None:
            raise MalformedReplyError(
                f"The file {path} is not complete: its closing fence {opening.group(1)} is missing."
            )
        if path and end is not None:
            yield WholeFile(path, "".join(line + "\n" for line in lines[index + 1 : end]))
        index = len(lines) if end is None else end + 1


def _name_above(lines: list[str], known: Collection[str]) -> str | None:
    above = next((line for line in reversed(lines[-2:]) if line.strip()), "")
    return path_in_line(above, known)


def _closing(lines: list[str], start: int, fence: str) -> int | None:
    """Return the line that closes the fence at ``start``, or None when none does.

    A file may hold fences itself (documentation does): an opening one with a language is closed
    by the next bare one, and shorter ones do not count.
    """
    depth = 1
    for index in range(start + 1, len(lines)):
        match = _FENCE.match(lines[index])
        if not match or match.group(1)[0] != fence[0] or len(match.group(1)) < len(fence):
            continue
        if match.group(2).strip():
            depth += 1
        else:
            depth -= 1
        if depth == 0:
            return index
    return None
