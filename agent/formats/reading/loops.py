"""Find the repetition in which a reply ran into its output limit."""

from __future__ import annotations

import re

# The end of a reply by which its repetition is found.
_PROBE = 200
_MIN_REPEATS = 3
_MIN_SHARE = 0.25
# A loop may count up. A table of data does so too, but with one line for each entry.
_COUNTED = re.compile(r"""'[^'\n]*'|"[^"\n]*"|\d+""")
_ORDINAL = re.compile(r"\s*\d+[.)] ")
_MIN_COUNTED_SHARE = 0.5
_MAX_BLOCK = 30


def split_repetition(text: str) -> tuple[str, str]:
    """Return ``text`` without the repetitions at its end, and what it repeats.

    What is repeated stands once in the first. It counts if it stands four times or more and takes
    a quarter of the text. It must take half of the text if it is an item of a list that differs in
    its number alone, or has two lines or more that differ in numbers or quoted words alone.
    Otherwise returns ``text`` and an empty string.
    """
    content, repeated = _split_equal(text)
    if repeated:
        return content, repeated
    return _split_counted(text)


def _split_counted(text: str) -> tuple[str, str]:
    lines = text.splitlines(keepends=True)
    complete = lines[:-1]  # the last is cut off
    masked = [_ORDINAL.sub("", line) for line in complete]
    for period in range(1, _MAX_BLOCK):
        again = 0
        for line, other in zip(masked[::-1], masked[-1 - period :: -1], strict=False):
            if line != other:
                break
            again += 1
        is_block = period == 1 or len(set(masked[-period:])) > 1
        enough = max(_MIN_REPEATS * period, _MIN_COUNTED_SHARE * len(masked))
        if is_block and again >= enough:
            first = len(masked) - again - period
            end = first + period
            return "".join(lines[:end]), "".join(lines[first:end])
        if period == 1:
            masked = [_COUNTED.sub("0", line) for line in complete]
    return text, ""


def _split_equal(text: str) -> tuple[str, str]:
    backwards = text[::-1]
    period = backwards.find(backwards[:_PROBE], 1)
    pairs = zip(backwards, backwards[period:], strict=False)
    again = 0
    for character, other in pairs:
        if character != other:
            break
        again += 1
    if again < max(_MIN_REPEATS * period, _MIN_SHARE * len(text)) or period < 1:
        return text, ""
    start = len(text) - again - period
    # A whole line begins it, if there is one.
    start = text.find("\n", start, start + period) + 1 or start
    return text[: start + period], text[start : start + period]
