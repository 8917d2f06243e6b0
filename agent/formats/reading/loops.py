"""Find the repetition in which a reply ran into its output limit."""

from __future__ import annotations

# The end of a reply by which its repetition is found.
_PROBE = 200
_MIN_REPEATS = 3
_MIN_SHARE = 0.25


def split_repetition(text: str) -> tuple[str, str]:
    """Return ``text`` without the repetitions at its end, and what it repeats.

    What is repeated stands once in the first. It counts if it stands four times or more and takes
    a quarter of the text; otherwise returns ``text`` and an empty string.
    """
    backwards = text[::-1]
    period = backwards.find(backwards[:_PROBE], 1)
    pairs = zip(backwards, backwards[period:], strict=False)
    again = 0
    for one, other in pairs:
        if one != other:
            break
        again += 1
    if again < max(_MIN_REPEATS * period, _MIN_SHARE * len(text)) or period < 1:
        return text, ""
    start = len(text) - again - period
    # A whole line begins it, if there is one.
    start = text.find("\n", start, start + period) + 1 or start
    return text[: start + period], text[start : start + period]
