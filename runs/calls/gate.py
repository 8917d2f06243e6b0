"""The gate of one attempt: its recorded replies, its time limit, and the call coordinator."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from llm.chat import Reply, TimeUsedError
from llm.gate import CallOutcome, PlannedCall
from llm.replay import exchange_of
from runs.calls.coordinator import Ticket, WorkerCalls
from runs.calls.journal import EntryKind, JournalEntry, asked_and_ended, reply_of

PaidCall = tuple[JournalEntry, JournalEntry]
"""The journal's entries of a call that a provider answered or refused: its request and its end."""


@dataclass
class AttemptGate:
    coordinator: WorkerCalls
    instance_id: str
    attempt: int
    recorded_calls: list[PaidCall]
    sleep: Callable[[float], None]
    seconds: float | None = None
    clock: Callable[[], float] = time.monotonic
    _started: float = field(init=False)

    def __post_init__(self) -> None:
        self._started = self.clock()

    def recorded(self, request_sha256: str, exchange_sha256: str | None = None) -> Reply | None:
        for number, (asked, ended) in enumerate(self.recorded_calls):
            same = asked["request_sha256"] == request_sha256
            if exchange_of(asked) == exchange_sha256 if exchange_sha256 else same:
                del self.recorded_calls[number]
                return reply_of(asked, ended)
        return None

    def pause(self, seconds: float) -> None:
        self.sleep(seconds)

    def begin(self, ask: PlannedCall) -> str:
        while True:
            if self.seconds is not None and self.clock() - self._started > self.seconds:
                raise TimeUsedError(f"the attempt's {self.seconds:g} s are used up")
            answer = self.coordinator.begin(self.instance_id, self.attempt, ask)
            if isinstance(answer, Ticket):
                return answer.call
            self.sleep(answer.seconds)

    def end(self, ticket: str, outcome: CallOutcome) -> bool:
        return self.coordinator.end(ticket, outcome)


def recorded_calls(entries: Sequence[JournalEntry], attempt: int) -> list[PaidCall]:
    """Return the calls of ``attempt`` that need not be repeated."""
    final = (EntryKind.ANSWERED.value, EntryKind.REFUSED.value)
    return [
        (asked, ended)
        for asked, ended in asked_and_ended(entries)
        if asked["attempt"] == attempt and ended is not None and ended["kind"] in final
    ]
