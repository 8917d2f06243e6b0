"""The journal of an instance: its requests and their outcomes, written before they are used, and
the attempts that ended.

One JSON object a line, appended and flushed to the disk. A process that is killed leaves at most a
torn last line; the next start sets it aside, as it does with other damaged lines. This module has
the models of all entries.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter
from pydantic.functional_serializers import PlainSerializer
from pydantic.functional_validators import BeforeValidator

from swe_retry.core.jsontypes import JsonMapping
from swe_retry.core.money import as_number, as_text, dollars_or_none
from swe_retry.core.redaction import Redactor
from swe_retry.llm.chat import AnyText, IfAny, Reply, Usage, refusal
from swe_retry.llm.gate import CallOutcome, PlannedCall, Refused
from swe_retry.record.jsonlines import LineFormat, read_lines
from swe_retry.record.records import Attempt, AttemptStatus
from swe_retry.runner.calls.budget import BudgetLimits, LimitScope, OverBudgetError

DollarsOrNone = Annotated[
    Decimal | None,
    BeforeValidator(lambda v: v if isinstance(v, Decimal) else dollars_or_none(v)),
]
"""Dollars; a number or a text in a file."""
DollarsText = Annotated[DollarsOrNone, PlainSerializer(as_text)]


class _Entry(BaseModel):
    """A request, one of its four ends, a request that the budget did not allow, or the record of an
    attempt that ended.
    """

    model_config = ConfigDict(frozen=True)


class AskedEntry(_Entry):
    """A request that is about to be sent; it costs at most ``bound``, None if no price is known."""

    kind: Literal["asked"] = "asked"
    call: AnyText
    attempt: Annotated[int, Field(strict=True)]
    model: AnyText
    request_sha256: AnyText
    exchange_sha256: Annotated[AnyText | None, IfAny] = None
    bound: DollarsText
    at: AnyText = ""

    @classmethod
    def of(cls, call: str, attempt: int, ask: PlannedCall) -> AskedEntry:
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        return cls(call=call, attempt=attempt, at=at, **asdict(ask))


class AnsweredEntry(_Entry):
    """The provider answered; the hashes of ``reply`` stand in the request's entry."""

    kind: Literal["answered"] = "answered"
    call: AnyText
    reply: Reply


class RefusedEntry(_Entry):
    """The provider will never answer the request."""

    kind: Literal["refused"] = "refused"
    call: AnyText
    cost: Annotated[DollarsOrNone, PlainSerializer(as_number)]
    error: AnyText


class FailedEntry(_Entry):
    """No answer this time; see ``swe_retry.llm.gate.Failed``."""

    kind: Literal["failed"] = "failed"
    call: AnyText
    transient: bool = True
    billed: bool = False
    reached: bool = True
    retry_after: float | None = None
    cost: Annotated[DollarsText, IfAny] = None
    usage: Annotated[Usage | None, IfAny] = None
    error: AnyText


class LostEntry(_Entry):
    """The call was pending when its process died: it may be billed, at most its bound."""

    kind: Literal["lost"] = "lost"
    call: AnyText
    cost: DollarsText


class DeniedEntry(_Entry):
    """The limit that kept an instance from its next call: the option, and its value then."""

    kind: Literal["denied"] = "denied"
    model: AnyText
    limit: LimitScope
    value: Annotated[Decimal, PlainSerializer(as_text)]

    @classmethod
    def of(cls, error: OverBudgetError, model: str) -> DeniedEntry:
        return cls(model=model, limit=error.scope, value=error.limit)

    def stands(self, limits: BudgetLimits) -> bool:
        """Return whether the limit was not raised since."""
        now = limits.limit_of(self.limit, self.model)
        return now is not None and now <= self.value


class AttemptEntry(_Entry):
    """An attempt that ended: its record, with what only later attempts need of it."""

    kind: Literal["attempt"] = "attempt"
    attempt: Attempt
    failing: tuple[AnyText, ...] = ()

    @classmethod
    def of(cls, attempt: Attempt) -> AttemptEntry:
        return cls(attempt=attempt, failing=attempt.failing)

    @property
    def record(self) -> Attempt:
        return self.attempt.but(failing=self.failing)


PaidEntry = AnsweredEntry | RefusedEntry
EndEntry = PaidEntry | FailedEntry | LostEntry
JournalEntry = AskedEntry | EndEntry | DeniedEntry | AttemptEntry


def _key(entry: JournalEntry) -> tuple[str, bool] | None:
    if isinstance(entry, DeniedEntry | AttemptEntry):
        return None
    return entry.call, isinstance(entry, AskedEntry)


JOURNAL: LineFormat[JournalEntry] = LineFormat(
    TypeAdapter(Annotated[JournalEntry, Field(discriminator="kind")]), _key
)
"""The lines of a journal: each call is asked once, and ends once."""


@dataclass(frozen=True)
class Journal:
    """The journal at ``path``; written by one process at a time, one thread for each instance."""

    path: Path
    redact: Redactor = field(default_factory=Redactor)

    def append(self, entry: JournalEntry) -> None:
        """Write ``entry`` without secrets, and wait until the disk has it.

        Raises:
            OSError: the disk is full or gone; a later entry starts on a line of its own.
        """
        append_line(self.path, self.redact.of(entry.model_dump()), durable=True)

    def entries(self) -> list[JournalEntry]:
        """Return what was written, without damaged lines; nothing when there is no journal."""
        return list(read_lines(self.path, JOURNAL).values)

    def retire(self) -> None:
        """Rename the journal to the next free number, so that a new one is started."""
        if not self.path.exists():
            return
        number = 1
        while (aside := self.path.with_suffix(f".{number}.jsonl")).exists():
            number += 1
        self.path.replace(aside)


def append_line(path: Path, entry: JsonMapping, *, durable: bool) -> None:
    """Append one line to ``path``, after a torn one on a line of its own."""
    path.parent.mkdir(parents=True, exist_ok=True)
    line = json.dumps(entry, ensure_ascii=True).encode() + b"\n"
    with path.open("ab+") as stream:
        size = os.fstat(stream.fileno()).st_size
        torn = size > 0 and os.pread(stream.fileno(), 1, size - 1) != b"\n"
        stream.write(b"\n" * torn + line)
        stream.flush()
        if durable:
            os.fsync(stream.fileno())


def end_of(call: str, outcome: CallOutcome) -> EndEntry:
    """Return the entry that ends ``call``."""
    if isinstance(outcome, Reply):
        reply = replace(outcome, request_sha256="", exchange_sha256=None)
        return AnsweredEntry(call=call, reply=reply)
    kind = RefusedEntry if isinstance(outcome, Refused) else FailedEntry
    return kind(call=call, **asdict(outcome))


def starts_and_ends(
    entries: Sequence[JournalEntry],
) -> list[tuple[AskedEntry, EndEntry | None]]:
    """Return each request with its end, in the order of the requests.

    A request without an end was pending when the process died: whether it is billed is unknown.
    """
    starts = []
    ends = {}
    for entry in entries:
        if isinstance(entry, AskedEntry):
            starts.append(entry)
        elif isinstance(entry, EndEntry):
            ends[entry.call] = entry
    return [(start, ends.get(start.call)) for start in starts]


def reply_of(start: AskedEntry, end: PaidEntry) -> Reply:
    """Return the reply of a call that was answered.

    Raises:
        RequestRefusedError: the provider refused it.
    """
    if isinstance(end, RefusedEntry):
        raise refusal(end.error, end.cost)
    return replace(end.reply, exchange_sha256=start.exchange_sha256)


def journals_of(journals: Path, instance_id: str) -> list[Path]:
    """Return the paths of an instance's journal and of its retired journals."""
    return [
        journals / f"{instance_id}.jsonl",
        *journals.glob(f"{instance_id}.[0-9]*.jsonl"),
    ]


def bounds(journals: Path, instance_id: str) -> dict[str, Decimal | None]:
    """Return the bound of each call of an instance, those of retired journals included."""
    bound_by_call = {}
    for path in journals_of(journals, instance_id):
        for entry in Journal(path).entries():
            if isinstance(entry, AskedEntry):
                bound_by_call[entry.call] = entry.bound
    return bound_by_call


def finished_attempts(entries: Sequence[JournalEntry]) -> list[Attempt]:
    """Return the attempts that are not made again, numbered from 1 without a gap.

    One that the budget ended goes on when its limit is raised, and those after it may have to be
    told of it: they are made again, with the replies that were paid for.
    """
    attempts: list[Attempt] = []
    for entry in entries:
        if isinstance(entry, AttemptEntry):
            attempt = entry.record
            del attempts[attempt.attempt - 1 :]
            follows = attempt.attempt == len(attempts) + 1
            if follows and attempt.status != AttemptStatus.BUDGET:
                attempts.append(attempt)
    return attempts


def last_denial(entries: Sequence[JournalEntry]) -> DeniedEntry | None:
    """Return the last denial in the journal of an instance, None where there is none."""
    for entry in reversed(entries):
        if isinstance(entry, DeniedEntry):
            return entry
    return None
