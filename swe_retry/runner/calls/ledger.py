"""The ledger: one line for each billed call, and the source of all costs that are shown.

Dollars are decimal texts, so the total of a report is the sum of its lines to the last digit.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import Field, TypeAdapter

from swe_retry.core import money
from swe_retry.core.atomic import write_text_atomic
from swe_retry.core.money import dollars_or_none
from swe_retry.llm.chat import AnyText, IfAny, Reply, Usage
from swe_retry.record.jsonlines import (
    DAMAGED,
    DamagedLine,
    JsonLines,
    LineFormat,
    read_lines,
    set_aside,
)
from swe_retry.record.store import RunStore
from swe_retry.runner.calls.journal import (
    JOURNAL,
    AnsweredEntry,
    AskedEntry,
    DollarsText,
    EndEntry,
    FailedEntry,
    append_line,
)

REPLAYED: Final = "replayed"


@dataclass(frozen=True)
class LedgerLine:
    """One call.

    Attributes:
        call: identifies the call; a ledger has each once.
        kind: as in the journal (``answered``, ``refused``, ``failed``, ``lost``), or ``replayed``
            (``REPLAYED``) for a recorded reply, with its cost at the time.
        cost: dollars at most; None when unknown. A ``lost`` or unanswered call has its bound.
        usage: the tokens; without a price also those of an answer that broke off.
        arrived: dollars for what arrived of an answer that broke off.
        bound: the most dollars that it could cost; None if unknown, or in a file up to version
            0.13, whose lines are those of its journals all the same.
        error: why a call failed.
    """

    call: str
    kind: Literal["answered", "refused", "failed", "lost", "replayed"]
    instance_id: str
    attempt: Annotated[int, Field(strict=True)]
    model: str
    cost: DollarsText
    usage: Usage | None = None
    arrived: DollarsText = None
    bound: Annotated[DollarsText, IfAny] = field(default=None, compare=False)
    error: Annotated[AnyText, IfAny] = field(default="", compare=False)

    @property
    def cost_at_most(self) -> Decimal | None:
        """The cost, or the bound of a call whose cost is unknown."""
        if self.cost is None:
            return self.bound
        return self.cost

    @property
    def is_unsure(self) -> bool:
        """Whether the provider may not have billed the call."""
        return self.kind in ("failed", "lost")

    @property
    def paid(self) -> Decimal | None:
        """The dollars that are known to be due; None when unknown."""
        if self.is_unsure:
            return self.arrived or Decimal()
        return self.cost

    @classmethod
    def of_call(
        cls,
        instance_id: str,
        start: AskedEntry,
        end: EndEntry,
    ) -> LedgerLine | None:
        """Return the line of a call in a journal, None where no provider bills it.

        A call whose bill is unknown, because it failed or was lost, costs its bound.
        """
        usage = None
        arrived = None
        error = ""
        if isinstance(end, FailedEntry):
            if not end.billed:
                return None
            cost = start.bound
            arrived = end.cost
            error = end.error
            if start.bound is None:
                usage = end.usage
        elif isinstance(end, AnsweredEntry):
            cost = end.reply.cost
            usage = end.reply.usage
        else:
            cost = end.cost
        return cls(
            call=start.call,
            kind=end.kind,
            instance_id=instance_id,
            attempt=start.attempt,
            model=start.model,
            cost=dollars_or_none(cost),
            usage=usage,
            arrived=arrived,
            bound=start.bound,
            error=error,
        )

    def as_json(self) -> dict[str, Any]:
        return dict(LEDGER.model.dump_python(self))


LEDGER = LineFormat(TypeAdapter(LedgerLine), lambda line: line.call)
"""The format of a ledger's lines: each call occurs once."""


@dataclass
class Ledger:
    """The ledger at ``path``, appended to by one process; safe to use from many threads."""

    path: Path
    _lines: dict[str, LedgerLine] = field(default_factory=dict)
    _by_instance: dict[str, list[LedgerLine]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def load(cls, path: Path) -> Ledger:
        """Return the ledger at ``path``, empty when there is none, without damaged lines."""
        ledger = cls(path)
        for line in read_ledger(path).values:
            ledger._count(line)
        return ledger

    def add(self, line: LedgerLine) -> bool:
        """Append ``line`` unless its call is there already, and tell whether it was new.

        Only ``sync`` makes sure that it is on the disk; until then the journals have the same.
        """
        with self._lock:
            if line.call in self._lines:
                return False
            append_line(self.path, line.as_json(), durable=False)
            self._count(line)
            return True

    def lines_of(self, instance_id: str) -> tuple[LedgerLine, ...]:
        """Return the lines of an instance, all attempts and starts."""
        with self._lock:
            return tuple(self._by_instance.get(instance_id, ()))

    def _count(self, line: LedgerLine) -> None:
        self._lines[line.call] = line
        lines = self._by_instance.setdefault(line.instance_id, [])
        lines.append(line)

    def sync(self) -> None:
        """Wait until the disk has all lines."""
        with self._lock:
            if self.path.exists():
                with self.path.open("ab") as stream:
                    os.fsync(stream.fileno())

    def lines(self) -> tuple[LedgerLine, ...]:
        with self._lock:
            return tuple(self._lines.values())


def replayed_lines(
    instance_id: str,
    attempt: int,
    model: str,
    calls: Iterable[Reply],
) -> Iterator[LedgerLine]:
    """Yield the lines of the replayed replies of an attempt: what they once cost."""
    for number, call in enumerate(calls, 1):
        yield LedgerLine(
            call=f"{instance_id}:{attempt}:{number}",
            kind=REPLAYED,
            instance_id=instance_id,
            attempt=attempt,
            model=model,
            cost=call.cost,
            usage=call.usage,
        )


def read_ledger(path: Path) -> JsonLines[LedgerLine]:
    """Return the lines of the ledger at ``path``, none when there is no such file.

    Raises:
        DamagedFileError, OSError: the file as a whole cannot be read.
    """
    return read_lines(path, LEDGER)


def write_ledger(path: Path, lines: Iterable[LedgerLine]) -> None:
    """Write a whole ledger at ``path``, instead of one that is there."""
    texts = [json.dumps(line.as_json()) + "\n" for line in lines]
    write_text_atomic(path, "".join(texts))


def total(lines: Iterable[LedgerLine]) -> Decimal | None:
    """Return the dollars that are known to be due, None when those of a line are unknown."""
    return money.total(map(attrgetter("paid"), lines))


def unsure(lines: Iterable[LedgerLine]) -> Decimal | None:
    """Return the most dollars of calls that were lost or broke off, None when unknown."""
    return money.total(line.cost for line in lines if line.is_unsure)


def at_most(lines: Iterable[LedgerLine]) -> Decimal | None:
    """Return the most dollars that ``lines`` cost, None when one of them is unknown."""
    return money.total(line.cost_at_most for line in lines)


def by_instance(lines: Iterable[LedgerLine]) -> dict[str, Decimal | None]:
    """Return the dollars per instance, None when the cost of a call is unknown."""
    sums: dict[str, Decimal | None] = {}
    for line in lines:
        name = line.instance_id
        earlier = sums.get(name, Decimal())
        sums[name] = money.total((earlier, line.paid))
    return sums


def recorded_cost(lines: Iterable[LedgerLine]) -> Decimal:
    """Return what the replayed replies among ``lines`` once cost, as far as it is known."""
    return money.known_sum(line.cost for line in lines if line.kind == REPLAYED)


def tokens(lines: Sequence[LedgerLine]) -> Usage:
    """Return the sum of the tokens that providers reported; unknown if none reported any."""
    usages = {line.usage for line in lines}
    if usages and usages <= {None, Usage()}:
        return Usage()
    return Usage.known_sum(line.usage for line in lines)


def damaged_lines(store: RunStore) -> Iterator[DamagedLine]:
    """Yield the damaged lines of a run that no kill explains."""
    for path, kind in _files(store):
        yield from read_lines(path, kind).broken


def set_damage_aside(store: RunStore) -> Iterator[str]:
    """Move damaged lines to other files and say so; the caller holds the run's lock."""
    for path, kind in _files(store):
        for damage in set_aside(path, kind):
            yield f"{damage}; moved to {path.name}{DAMAGED}, the rest is used"


def ledger_was_damaged(store: RunStore) -> bool:
    """Return whether the ledger ever lost a line; journals have the same calls."""
    ledger = store.ledger
    aside = ledger.with_name(ledger.name + DAMAGED)
    return aside.exists()


def owner_of(store: RunStore, journal: Path) -> str:
    """Return the id of a journal, ``<id>.jsonl`` or, retired, ``<id>.<number>.jsonl``."""
    name, _, number = journal.stem.rpartition(".")
    newer = journal.with_name(f"{name}.jsonl")
    is_retired = newer.exists() or store.prediction(name).exists()
    if number.isdigit() and is_retired:
        return name
    return journal.stem


def _files(store: RunStore) -> Iterator[tuple[Path, LineFormat[Any]]]:
    yield store.ledger, LEDGER
    for path in sorted(store.journals.glob("*.jsonl")):
        if not store.prediction(path.stem).exists():
            yield path, JOURNAL
