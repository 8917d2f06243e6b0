"""The call coordinator of a run: journals, ledger, budget and rate limits of all its workers.

There is one per run, in the process that holds the run's lock. Its methods take and return plain
values and never wait, so that workers on other machines can call the same ones.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from statistics import median
from typing import Protocol

from swe_retry.core.errors import StoppedError
from swe_retry.core.money import in_words
from swe_retry.core.plaintext import Say
from swe_retry.core.redaction import Redactor
from swe_retry.core.shutdown import Shutdown
from swe_retry.llm.chat import AttemptLimitError, BudgetUsedError, Reply
from swe_retry.llm.gate import CallOutcome, Failed, PlannedCall
from swe_retry.llm.tracing import CallSpans
from swe_retry.record.records import Attempt
from swe_retry.runner.calls.budget import (
    Budget,
    LimitScope,
    OverBudgetError,
    Reservation,
)
from swe_retry.runner.calls.journal import (
    AskedEntry,
    AttemptEntry,
    DeniedEntry,
    Journal,
    JournalEntry,
    LostEntry,
    PaidEntry,
    bounds,
    end_of,
    reply_of,
    starts_and_ends,
)
from swe_retry.runner.calls.ledger import Ledger, LedgerLine
from swe_retry.runner.calls.rate_limiter import RateLimiter


class WorkerCalls(Protocol):
    """The coordinator as workers see it."""

    def entries(self, instance_id: str) -> Sequence[JournalEntry]:
        """Return the entries of an instance's journal."""

    def begin(self, instance_id: str, attempt: int, ask: PlannedCall) -> str | float:
        """Return the ticket of a request that may be sent, or seconds until asking again."""

    def note_arrival(self, call: str, tokens: int) -> None:
        """Note how many tokens of an answer have arrived, about."""

    def note_retry(self, instance_id: str, problem: str) -> None:
        """Say why a request of an instance is sent again, and when."""

    def end(self, call: str, outcome: CallOutcome) -> bool:
        """Record the outcome of a request; see ``Gate.end``."""

    def note_attempt(self, instance_id: str, attempt: Attempt) -> None:
        """Record an attempt that ended: a later start goes on behind it."""


@dataclass(frozen=True)
class _Pending:
    """A request that was let through and has not ended."""

    entry: AskedEntry
    provider: str
    reservation: Reservation

    @property
    def instance_id(self) -> str:
        return self.reservation.instance_id


@dataclass
class CallCoordinator:
    journals: Path
    ledger: Ledger
    budget: Budget
    rate_limiter: RateLimiter
    stop: Shutdown
    providers: Sequence[str] = ()
    give_up_after: float = float("inf")
    say: Say = lambda _: None
    redact: Redactor = field(default_factory=Redactor)
    called: Callable[[], None] = lambda: None
    arrived: Callable[[str, int], None] = lambda *_: None
    retried: Say = lambda _: None
    budget_reason: str = ""
    _denied: set[str] = field(default_factory=set)
    _dearest: dict[tuple[str, int], Decimal] = field(default_factory=dict)
    _pending: dict[str, _Pending] = field(default_factory=dict)
    _arriving: set[str] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def entries(self, instance_id: str) -> Sequence[JournalEntry]:
        return self.journal(instance_id).entries()

    def journal(self, instance_id: str) -> Journal:
        return Journal(self.journals / f"{instance_id}.jsonl", self.redact)

    def stopping(self) -> str:
        """Return why the run is stopping, an empty text while it is not."""
        return self.stop.reason

    def begin(self, instance_id: str, attempt: int, ask: PlannedCall) -> str | float:
        if self.stop.reason:
            raise StoppedError(self.stop.reason)
        # The budget comes first: a call that the rate limiter admits counts as sent.
        try:
            reservation = self.budget.reserve(instance_id, ask.model, ask.bound)
        except OverBudgetError as error:
            raise self._deny(instance_id, ask.model, error) from error
        if reservation is None:
            return _FOR_OTHERS
        sent: AskedEntry | None = None
        try:
            seconds = self.rate_limiter.admit(
                ask.model,
                ask.provider,
                ask.tokens,
                instance_id,
            )
            if seconds:
                self._check_providers()
                return seconds
            entry = AskedEntry.of(uuid.uuid4().hex, attempt, ask)
            self.journal(instance_id).append(entry)
            sent = entry
        finally:
            if sent is None:
                self.budget.cancel(reservation)
        key = instance_id, attempt
        with self._lock:
            before = self._dearest.get(key, Decimal())
            self._dearest[key] = max(before, ask.bound or before)
            self._pending[sent.call] = _Pending(sent, ask.provider, reservation)
        return sent.call

    def _deny(
        self,
        instance_id: str,
        model: str,
        error: OverBudgetError,
    ) -> BudgetUsedError:
        """Return what a call that costs too much ends: its attempt alone, or the run as well.

        The run goes on while what is left is enough for the dearest call of the median attempt of
        this start; before its first call, until another instance may make none either.
        """
        ends_run = error.scope is LimitScope.CALLS
        if error.scope is LimitScope.RUN:
            dearest = list(self._dearest.values())
            if dearest and error.left >= median(dearest):
                return AttemptLimitError(str(error))
            self._denied.add(instance_id)
            ends_run = bool(dearest) or error.left < 0 or len(self._denied) > 1
        if ends_run:
            self.budget_reason = str(error)
        self.journal(instance_id).append(DeniedEntry.of(error, model))
        return BudgetUsedError(str(error))

    def _check_providers(self) -> None:
        """End the run where no provider has answered for too long, and none is answering."""
        seconds = self.rate_limiter.unanswered_for(self.providers)
        if seconds < self.give_up_after or self._arriving:
            return
        failures = self.rate_limiter.describe_failures(self.providers)
        self.stop.request(
            f"no model has answered for {seconds:.0f} s ({failures}); run it again once it "
            "answers, or raise calls.give_up_after to wait longer"
        )

    def note_arrival(self, call: str, tokens: int) -> None:
        with self._lock:
            pending = self._pending.get(call)
            if not pending:
                return
            self._arriving.add(call)
        self.rate_limiter.note_arrival(pending.provider)
        self.arrived(pending.instance_id, tokens)

    def note_retry(self, instance_id: str, problem: str) -> None:
        line = f"{instance_id}: {self.redact(problem)}"
        self.say(line)
        self.retried(line)

    def end(self, call: str, outcome: CallOutcome) -> bool:
        with self._lock:
            pending = self._pending.pop(call)
            self._arriving.discard(call)
        self.arrived(pending.instance_id, 0)
        if isinstance(outcome, Failed):
            # The ledger and the display tell of its words.
            outcome = replace(outcome, error=self.redact(outcome.error))
        # Even if the disk fails, the budget and the rate limiter learn the outcome.
        uses_try = self.rate_limiter.note_outcome(pending.provider, outcome)
        if isinstance(outcome, Reply):
            self.called()
        elif isinstance(outcome, Failed):
            self._check_providers()
        ended = end_of(call, outcome)
        line = LedgerLine.of_call(pending.instance_id, pending.entry, ended)
        try:
            self.journal(pending.instance_id).append(ended)
        finally:
            if line is None:
                self.budget.cancel(pending.reservation)
            elif excess := self.budget.settle(pending.reservation, line.cost):
                bound = in_words(pending.entry.bound, 6)
                self.say(
                    f"{line.instance_id}: call {line.call} of {line.model} cost "
                    f"{in_words(excess, 6)} more than its bound of {bound}: charged"
                )
        if line is not None:
            self.ledger.add(line)
        return uses_try

    def note_attempt(self, instance_id: str, attempt: Attempt) -> None:
        entry = AttemptEntry.of(attempt)
        self.journal(instance_id).append(entry)

    def abandon(self, instance_id: str) -> None:
        """End the pending requests of a worker that died: they are charged with their bounds."""
        with self._lock:
            pending = dict(self._pending)
        died = Failed("the worker died", transient=False, billed=True, reached=False)
        for call, request in pending.items():
            if request.instance_id == instance_id:
                self.end(call, died)

    def recover(self, instance_id: str, journal: Journal | None = None) -> int:
        """Add to the ledger what only a journal has; return how many calls were pending.

        ``journal`` is a retired one, instead of the present one.
        """
        journal = journal or self.journal(instance_id)
        lost = 0
        for start, end in starts_and_ends(journal.entries()):
            if end is None:
                lost += 1
                end = LostEntry(call=start.call, cost=start.bound)
                journal.append(end)
            line = LedgerLine.of_call(instance_id, start, end)
            if line:
                self.ledger.add(line)
        return lost


def charge_budget(coordinator: CallCoordinator) -> None:
    """Charge the budget with what the ledger holds; a call of unknown cost with its bound."""
    bounds_by_instance: dict[str, dict[str, Decimal | None]] = {}
    for line in coordinator.ledger.lines():
        cost = line.cost_at_most
        if cost is None:
            # Ledgers up to version 0.13 have no bounds.
            if line.instance_id not in bounds_by_instance:
                bounds_by_instance[line.instance_id] = bounds(
                    coordinator.journals, line.instance_id
                )
            cost = bounds_by_instance[line.instance_id].get(line.call)
        coordinator.budget.charge(line.instance_id, line.model, cost)


# Seconds until a worker asks again for what others have reserved.
_FOR_OTHERS = 0.2


PaidCall = tuple[AskedEntry, PaidEntry]
"""The journal's entries of a call that a provider answered or refused: its request and its end."""


@dataclass
class AttemptGate:
    coordinator: WorkerCalls
    instance_id: str
    attempt: int
    recorded_calls: list[PaidCall]
    sleep: Callable[[float], None]
    seconds: float | None = None
    spans: CallSpans | None = None
    _started: float = field(default_factory=time.monotonic)

    def recorded_reply(
        self,
        request_sha256: str,
        exchange_sha256: str | None = None,
    ) -> Reply | None:
        for number, (start, end) in enumerate(self.recorded_calls):
            same = start.request_sha256 == request_sha256
            if start.exchange_sha256 == exchange_sha256 if exchange_sha256 else same:
                del self.recorded_calls[number]
                return reply_of(start, end)
        return None

    def pause(self, seconds: float, problem: str = "") -> None:
        if problem:
            self.coordinator.note_retry(self.instance_id, problem)
        self.sleep(seconds)

    def note_arrival(self, ticket: str, tokens: int) -> None:
        self.coordinator.note_arrival(ticket, tokens)

    def begin(self, call: PlannedCall) -> str:
        while True:
            seconds = time.monotonic() - self._started
            if self.seconds is not None and seconds > self.seconds:
                raise AttemptLimitError(f"the attempt's {self.seconds:g} s are used up")
            answer = self.coordinator.begin(self.instance_id, self.attempt, call)
            if isinstance(answer, str):
                break
            self.sleep(answer)
        if self.spans:
            self.spans.start(answer, call)
        return answer

    def end(self, ticket: str, outcome: CallOutcome) -> bool:
        if self.spans:
            self.spans.end(ticket, outcome)
        return self.coordinator.end(ticket, outcome)


def recorded_calls(entries: Sequence[JournalEntry], attempt: int) -> list[PaidCall]:
    """Return the calls of ``attempt`` that need not be repeated."""
    return [
        (start, end)
        for start, end in starts_and_ends(entries)
        if start.attempt == attempt and isinstance(end, PaidEntry)
    ]
