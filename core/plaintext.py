"""Turn text of models and repositories into one plain line without terminal commands. Pure."""

from __future__ import annotations

import re
import unicodedata

# ECMA-48: CSI … final byte; OSC, DCS, SOS, PM and APC strings up to BEL or ST; two-byte escapes.
_ESCAPE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b[ -/]*[0-~]?"
)
# Control, format (also those that turn the direction of writing), surrogates, line separators.
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})


def one_line(text: str) -> str:
    """Return ``text`` in one line, without escape sequences and control characters."""
    return " ".join("".join(map(_seen, _ESCAPE.sub("", text))).split())


def counted(number: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun: ``1 instance``, ``2 instances``."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def shortened(text: str, most: int) -> str:
    """Return ``text`` as one line of at most ``most`` characters, with … where it was cut."""
    line = one_line(text[: 10 * most + 1000])
    return line if len(line) <= most else line[: max(most - 1, 0)].rstrip() + "…"


def _seen(character: str) -> str:
    if character.isspace():
        return " "
    return "" if unicodedata.category(character) in _UNSEEN else character
