"""What was asked and answered for one instance, on disk before anything is done with it.

One JSON object a line, appended and flushed to the disk. A process that is killed leaves at most a
torn last line, which nobody reads; whatever stands before it is whole.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

Entry = Mapping[str, Any]


class EntryKind(str, Enum):
    """What an entry says of a call: asked for, one of four ends, or not allowed by the budget."""

    ASKED = "asked"
    ANSWERED = "answered"
    REFUSED = "refused"
    FAILED = "failed"
    LOST = "lost"
    DENIED = "denied"


@dataclass(frozen=True)
class Journal:
    """The journal at ``path``; written by one process at a time, one thread for each instance."""

    path: Path

    def append(self, entry: Entry) -> None:
        """Write ``entry`` and wait until the disk has it.

        Raises:
            OSError: the disk is full or gone; a later entry begins on a line of its own.
        """
        append_entry(self.path, entry, durable=True)

    def entries(self) -> list[Entry]:
        """Return what was written, without torn lines; nothing when there is no journal."""
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return []
        return list(whole_entries(data))

    def retire(self) -> None:
        """Put the journal aside under the next free number: what follows begins anew."""
        if not self.path.exists():
            return
        number = 1
        while (aside := self.path.with_suffix(f".{number}.jsonl")).exists():
            number += 1
        self.path.replace(aside)


def append_entry(path: Path, entry: Entry, *, durable: bool) -> None:
    """Append one line to ``path``, after a torn one on a line of its own.

    Raises:
        OSError: the disk is full or gone.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    line = json.dumps(entry, ensure_ascii=True).encode() + b"\n"
    with path.open("ab+") as stream:
        stream.write(b"\n" * _torn(stream.fileno()) + line)
        stream.flush()
        if durable:
            os.fsync(stream.fileno())


def _torn(descriptor: int) -> bool:
    """Tell whether the file ends in the middle of a line."""
    size = os.fstat(descriptor).st_size
    return size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"


def whole_entries(data: bytes) -> Iterator[Entry]:
    """Yield the entries of a journal's bytes; lines that are no JSON objects are left out."""
    for line in data.split(b"\n"):
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict):
            yield entry


def asked_and_ended(entries: Sequence[Entry]) -> list[tuple[Entry, Entry | None]]:
    """Return each call's first entry with the one that ended it, in the order of asking.

    A call without an end was in flight when the process died: nobody knows whether it is billed.
    """
    ends = {entry.get("call"): entry for entry in entries if _kind(entry) is not EntryKind.ASKED}
    return [
        (entry, ends.get(entry.get("call"))) for entry in entries if _kind(entry) is EntryKind.ASKED
    ]


def _kind(entry: Entry) -> EntryKind | None:
    try:
        return EntryKind(entry.get("kind"))
    except ValueError:
        return None
