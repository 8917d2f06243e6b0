"""The journal of an instance: its requests and their outcomes, written before they are used.

One JSON object a line, appended and flushed to the disk. A process that is killed leaves at most a
torn last line; the next start sets it aside, as it does with other damaged lines. This module has
the one writer of entries and their one reader.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timezone
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any

from core.money import as_number, as_text, dollars_or_none
from core.redaction import Redactor
from llm.chat import Reply, refusal
from llm.gate import Answered, CallOutcome, PlannedCall, Refused
from llm.replay import exchange_of, reply_of_json
from runs.calls.budget import BudgetLimits, LimitScope, OverBudgetError
from runs.storage.jsonlines import LineFormat, read_lines

JournalEntry = Mapping[str, Any]


class EntryKind(str, Enum):
    """A request (``asked``), one of its four ends, or a request that the budget did not allow."""

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

    def append(self, entry: JournalEntry) -> None:
        """Write ``entry`` and wait until the disk has it.

        Raises:
            OSError: the disk is full or gone; a later entry starts on a line of its own.
        """
        append_entry(self.path, entry, durable=True)

    def entries(self) -> list[JournalEntry]:
        """Return what was written, without damaged lines; nothing when there is no journal."""
        return list(read_lines(self.path, JOURNAL).whole)

    def retire(self) -> None:
        """Rename the journal to the next free number, so that a new one is started."""
        if not self.path.exists():
            return
        number = 1
        while (aside := self.path.with_suffix(f".{number}.jsonl")).exists():
            number += 1
        self.path.replace(aside)


def append_entry(path: Path, entry: JournalEntry, *, durable: bool) -> None:
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


def asked_entry(call: str, attempt: int, ask: PlannedCall) -> JournalEntry:
    """Return the entry of a request that is about to be sent."""
    exchange = ask.exchange_sha256
    return {
        "kind": EntryKind.ASKED.value,
        "call": call,
        "attempt": attempt,
        "model": ask.model,
        "request_sha256": ask.request_sha256,
        **({"exchange_sha256": exchange} if exchange else {}),
        "bound": as_text(ask.bound),
        "at": datetime.now(timezone.utc).isoformat(timespec="milliseconds"),
    }


def ended_entry(call: str, outcome: CallOutcome, redact: Redactor) -> JournalEntry:
    """Return the entry that ends ``call``, redacted where providers quote keys: in errors."""
    if isinstance(outcome, Answered):
        kind = EntryKind.ANSWERED.value
        return {"kind": kind, "call": call, "reply": outcome.reply.as_json()}
    error = redact(outcome.error)
    if isinstance(outcome, Refused):
        kind, cost = EntryKind.REFUSED.value, as_number(outcome.cost)
        return {"kind": kind, "call": call, "cost": cost, "error": error}
    said = {name: value for name, value in asdict(outcome).items() if name != "error"}
    return {"kind": EntryKind.FAILED.value, "call": call, **said, "error": error}


def lost_entry(asked: JournalEntry) -> JournalEntry:
    """Return the end of a call that was pending when its process died: it may be billed."""
    return {"kind": EntryKind.LOST.value, "call": asked["call"], "cost": asked["bound"]}


def denied_entry(error: OverBudgetError, model: str) -> JournalEntry:
    """Return the entry of a request that ``error`` did not allow."""
    limit = {"limit": error.scope.value, "value": as_text(error.limit)}
    return {"kind": EntryKind.DENIED.value, "model": model, **limit}


def _entry(raw: JournalEntry) -> JournalEntry:
    """Return an entry that has all values that its readers need; see ``LineFormat``."""
    kind = EntryKind(raw["kind"])
    if kind is EntryKind.DENIED:
        return raw
    texts = {"call": raw["call"]}
    if kind is EntryKind.ASKED:
        texts |= {"model": raw["model"], "request_sha256": raw["request_sha256"]}
        dollars_or_none(raw["bound"])
        exchange_of(raw)
        if type(raw["attempt"]) is not int or raw["attempt"] < 1:
            raise ValueError("`attempt` is not the number of an attempt")
    elif kind is EntryKind.ANSWERED:
        reply_of_json(raw["reply"])
    elif kind is EntryKind.FAILED:
        texts |= {"error": raw["error"]}
    else:
        dollars_or_none(raw["cost"])
    if wrong := [key for key, value in texts.items() if not isinstance(value, str)]:
        raise TypeError(f"`{wrong[0]}` is not a text")
    return raw


def _key(entry: JournalEntry) -> tuple[str, bool] | None:
    kind = EntryKind(entry["kind"])
    return None if kind is EntryKind.DENIED else (entry["call"], kind is EntryKind.ASKED)


JOURNAL = LineFormat(_entry, _key)
"""The lines of a journal: each call is asked once, and ends once."""


def asked_and_ended(
    entries: Sequence[JournalEntry],
) -> list[tuple[JournalEntry, JournalEntry | None]]:
    """Return each request with its end, in the order of the requests.

    A request without an end was pending when the process died: whether it is billed is unknown.
    """
    asked = EntryKind.ASKED.value
    ends = {entry.get("call"): entry for entry in entries if entry.get("kind") != asked}
    return [(e, ends.get(e.get("call"))) for e in entries if e.get("kind") == asked]


def reply_of(asked: JournalEntry, ended: JournalEntry) -> Reply:
    """Return the reply of a call that was answered.

    Raises:
        RequestRefusedError: the provider refused it.
    """
    if ended["kind"] == EntryKind.REFUSED.value:
        raise refusal(str(ended["error"]), dollars_or_none(ended.get("cost")))
    return replace(reply_of_json(ended["reply"]), exchange_sha256=exchange_of(asked))


def journals_of(journals: Path, instance_id: str) -> list[Path]:
    """Return the paths of an instance's journal and of its retired journals."""
    return [journals / f"{instance_id}.jsonl", *journals.glob(f"{instance_id}.[0-9]*.jsonl")]


def bounds(journals: Path, instance_id: str) -> dict[str, Decimal | None]:
    """Return the bound of each call of an instance, those of retired journals included."""
    paths = journals_of(journals, instance_id)
    every = [pair for path in paths for pair in asked_and_ended(Journal(path).entries())]
    return {asked["call"]: dollars_or_none(asked["bound"]) for asked, _ in every}


@dataclass(frozen=True)
class Denial:
    """The limit that kept an instance from its next call: the option, and its value then."""

    scope: LimitScope
    model: str
    value: Decimal

    def stands(self, limits: BudgetLimits) -> bool:
        """Return whether the limit was not raised since."""
        now = limits.of(self.scope, self.model)
        return now is not None and now <= self.value


def last_denial(entries: Sequence[JournalEntry]) -> Denial | None:
    """Return the last denial in the journal of an instance, None where there is none."""
    denied = [entry for entry in entries if entry.get("kind") == EntryKind.DENIED.value]
    if not denied:
        return None
    last = denied[-1]
    try:
        return Denial(LimitScope(last["limit"]), str(last["model"]), Decimal(last["value"]))
    except (KeyError, TypeError, ValueError, ArithmeticError):
        return None
