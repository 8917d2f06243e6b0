"""Shorten a traceback to the test's own frame, the last frames and the message."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import dropwhile

_SEPARATOR = re.compile(r"^(?:_ )+_?$")
_FRAME = re.compile(r'^\s*File ".+", line \d+|^\S+:\d+: in \S')
_CHAIN = re.compile(r"^(?:The above exception was|During handling of the above)")
_NOISE = re.compile(
    r"^Traceback(?: \(most recent call last\))?:$|^E\s+\(?(?:Use -v|\.\.\.Full output truncated)"
    r"|^Hint: make sure your test modules|^\[gw\d+\] |^E?\s*$|^\s+[~^]{3,}$"
)
_ARGUMENT = re.compile(r"^\w+ += ")
_LAST_FRAMES = 2
_BEFORE = 6
_MESSAGE_HEAD, _MESSAGE_TAIL = 24, 6
_LONGEST_LINE = 300


def relevant_lines(lines: Sequence[str]) -> str:
    """Return the part of a traceback that says why, about fifty lines at most.

    A chain of exceptions is shortened to the last one and the message of the one before it.
    """
    links = _links(lines)
    earlier = [_last_frame(link) for link in links[-2:-1]]
    before = [line for link in earlier for line in [*link, "which led to:"]]
    return "\n".join([*before, *_shortened(_frames(links[-1]))])


def cause(lines: Sequence[str]) -> str:
    """Return the last frame with its message, which tests that fail for one reason share."""
    return "\n".join(_last_frame(_links(lines)[-1]))


def _links(lines: Sequence[str]) -> list[list[str]]:
    """Return the lines of each exception of a chain, without noise."""
    links: list[list[str]] = [[]]
    for line in lines:
        if _CHAIN.match(line):
            links.append([])
        elif not _NOISE.match(line):
            links[-1].append(line[:_LONGEST_LINE])
    return links


def _last_frame(link: Sequence[str]) -> list[str]:
    return _trimmed(_frames(link)[-1])


def _frames(lines: Sequence[str]) -> list[list[str]]:
    frames: list[list[str]] = [[]]
    for line in lines:
        if _SEPARATOR.match(line):
            frames.append([])
        elif _FRAME.match(line):
            frames.append([line])
        else:
            frames[-1].append(line)
    return [frame for frame in frames if frame] or [[]]


def _shortened(frames: Sequence[list[str]]) -> list[str]:
    """Return the lines of the first and the last frames."""
    between = len(frames) - 1 - _LAST_FRAMES
    if between < 1:
        return [line for frame in frames for line in _trimmed(frame)]
    last = [line for frame in frames[-_LAST_FRAMES:] for line in _trimmed(frame)]
    gap = f"… ({between} frame{'s' if between > 1 else ''} left out)"
    return [*_trimmed(frames[0]), gap, *last]


def _trimmed(frame: Sequence[str]) -> list[str]:
    """Return a frame without the values of its arguments and with few lines before the failing one.

    The values differ between the cases of a parametrized test, which have different names.
    """
    lines = list(dropwhile(_ARGUMENT.match, frame))
    marked = next((n for n, line in enumerate(lines) if line.startswith(">")), 0)
    lines = lines[max(0, marked - _BEFORE) :]
    if len(lines) <= _MESSAGE_HEAD + _MESSAGE_TAIL + 1:
        return lines
    left_out = len(lines) - _MESSAGE_HEAD - _MESSAGE_TAIL
    return [
        *lines[:_MESSAGE_HEAD],
        f"… ({left_out} lines left out)",
        *lines[-_MESSAGE_TAIL:],
    ]
