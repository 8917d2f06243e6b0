"""Pure: how a run stands, by status, as a table and for machines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from core.money import as_text, column, total
from core.plaintext import one_line, shortened, table
from runs.progress.statuses import InstanceStatus

NOT_BEGUN = "not_begun"
IN_WORK = "in_work"
KILLED = "killed"
BROKEN = "broken"
_ORDER = (*(status.value for status in InstanceStatus), IN_WORK, KILLED, BROKEN, NOT_BEGUN)
_HEADINGS = ("status", "instances", "attempts", "dollars")
_LONGEST_REASON = 100


@dataclass(frozen=True)
class Entry:
    """One instance of a run.

    Attributes:
        status: of ``InstanceStatus``; ``not_begun``; ``in_work``; ``killed`` when its process ended
            without a word; ``broken`` when its file is.
        finished: whether it has a prediction.
        attempts: attempts begun.
        reason: why it stands so.
        cost: dollars by its own file, None where that does not know.
    """

    instance_id: str
    status: str
    finished: bool = False
    attempts: int = 0
    reason: str = ""
    cost: Decimal | None = None


@dataclass(frozen=True)
class Row:
    """All instances of one status; ``dollars`` is None when one of them is unknown."""

    status: str
    instances: int
    attempts: int
    dollars: Decimal | None

    def as_json(self) -> dict[str, Any]:
        """Return the row without its status; dollars are a string, exact."""
        return {
            "instances": self.instances,
            "attempts": self.attempts,
            "dollars": as_text(self.dollars),
        }


@dataclass(frozen=True)
class Overview:
    """A run as it stands.

    Attributes:
        statuses: by status, only those that occur.
        total: all of them.
        unfinished: what was begun and has no prediction, by id.
        broken: what is wrong with files of the run, in words.
        process: the one that works on the run, or that died on it, in words; empty for neither.
    """

    run: str
    folder: Path
    statuses: tuple[Row, ...]
    total: Row
    unfinished: tuple[Entry, ...]
    broken: tuple[str, ...]
    process: str = ""

    def as_json(self) -> dict[str, Any]:
        """Return the overview for machines (docs/run.md)."""
        return {
            "run": self.run,
            "folder": str(self.folder),
            "statuses": {row.status: row.as_json() for row in self.statuses},
            "total": self.total.as_json(),
            "unfinished": [
                {"instance_id": entry.instance_id, "status": entry.status, "reason": entry.reason}
                for entry in self.unfinished
            ],
            "broken": list(self.broken),
            "process": self.process,
        }


def summed(
    run: str,
    folder: Path,
    entries: Iterable[Entry],
    dollars: Mapping[str, Decimal],
    broken: Sequence[str],
    process: str = "",
) -> Overview:
    """Return the overview of ``entries``.

    Args:
        run: its name.
        folder: where it lies.
        entries: all its instances.
        dollars: spent by instance; for one that it lacks, its own file's word counts.
        broken: what is wrong with files, in words.
        process: see ``Overview``.
    """
    every = sorted(entries, key=lambda entry: entry.instance_id)
    by_status: dict[str, list[Entry]] = {status: [] for status in _ORDER}
    for entry in every:
        by_status.setdefault(entry.status, []).append(entry)
    begun = (e for e in every if not e.finished and e.status not in (NOT_BEGUN, BROKEN))
    return Overview(
        run=run,
        folder=folder,
        statuses=tuple(_row(status, some, dollars) for status, some in by_status.items() if some),
        total=_row("total", every, dollars),
        unfinished=tuple(begun),
        broken=tuple(broken),
        process=process,
    )


def _row(status: str, entries: Sequence[Entry], dollars: Mapping[str, Decimal]) -> Row:
    costs = [dollars.get(entry.instance_id, entry.cost) for entry in entries]
    return Row(
        status=status,
        instances=len(entries),
        attempts=sum(entry.attempts for entry in entries),
        dollars=total(costs),
    )


def lines(seen: Overview) -> Iterator[str]:
    """Yield the table by status, then what is unfinished and broken, without control characters."""
    yield one_line(f"{seen.run}: {seen.folder}")
    if seen.process:
        yield one_line(seen.process)
    yield from table(_HEADINGS, _cells([*seen.statuses, seen.total]), numbers=(1, 2, 3))
    if seen.unfinished:
        yield f"unfinished: {len(seen.unfinished)}"
        for entry in seen.unfinished:
            reason = shortened(entry.reason, _LONGEST_REASON)
            said = "; ".join(part for part in (entry.status, reason) if part)
            yield f"  {one_line(f'{entry.instance_id}: {said}')}"
    if seen.broken:
        yield f"broken files: {len(seen.broken)}"
        yield from (f"  {one_line(words)}" for words in seen.broken)


def _cells(rows: Sequence[Row]) -> Iterator[tuple[str, ...]]:
    for row, dollars in zip(rows, column([row.dollars for row in rows]), strict=True):
        yield row.status, str(row.instances), str(row.attempts), dollars
