"""Pure: what a commit object says: date, message, and the names that must not be kept."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timezone

# Decoders of texts. Python has others (punycode, unicode_escape) that nobody writes messages in.
_ENCODING = re.compile(r"(utf|iso|latin|l\d|cp|windows|koi|gb|big5|euc|shift|sjis|mac|ascii)[\w-]*")
_PERSON = re.compile(rb"(author|committer) (.*?) ?<([^>\n]*)> (-?\d{1,20}) [+-]\d+")


@dataclass(frozen=True)
class CommitFacts:
    """What is used of a commit.

    Attributes:
        author_date: in UTC, ``2013-05-06T12:34:56Z``; empty where the commit states none that
            exists. The author's time zone is not kept.
        message: None where it is no text in the encoding that the commit states (UTF-8 if none).
        names: of author and committer, to be removed from the message.
    """

    author_date: str
    message: str | None
    names: tuple[str, ...]


def read_commit(data: bytes) -> CommitFacts:
    """Return the facts of a commit object."""
    head, _, body = data.partition(b"\n\n")
    encoding, date, names = "utf-8", "", []
    for line in head.split(b"\n"):
        if line.startswith(b"encoding "):
            encoding = line[9:].decode("ascii", "replace").strip().lower()
        elif person := _PERSON.fullmatch(line):
            role, name, _, seconds = person.groups()
            names.append(name)
            date = date or (_utc(int(seconds)) if role == b"author" else "")
    known = [text for name in names if (text := _decoded(name, encoding))]
    return CommitFacts(date, _decoded(body, encoding), tuple(dict.fromkeys(known)))


def _decoded(data: bytes, encoding: str) -> str | None:
    if not _ENCODING.fullmatch(encoding):
        return None
    try:
        return data.decode(encoding)
    except (LookupError, UnicodeError):
        return None


def _utc(seconds: int) -> str:
    try:
        return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return ""
