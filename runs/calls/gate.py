"""The gate of one attempt: its recorded replies, its time limit, and the call coordinator."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from llm.chat import Reply, TimeUsedError
from llm.gate import Ask, Outcome
from llm.replay import exchange_of
from runs.calls.coordinator import Ticket, WorkerCalls
from runs.calls.journal import EntryKind, InstanceEntry, asked_and_ended, reply_of

PaidCall = tuple[InstanceEntry, InstanceEntry]
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
        """Return the first recorded reply, each once; see ``Gate``."""
        for number, (asked, ended) in enumerate(self.recorded_calls):
            exchange = exchange_of(asked)
            same = asked["request_sha256"] == request_sha256
            # Earlier versions recorded no exchange.
            if exchange and exchange_sha256:
                same = exchange == exchange_sha256
            if same:
                del self.recorded_calls[number]
                return reply_of(asked, ended)
        return None

    def pause(self, seconds: float) -> None:
        self.sleep(seconds)

    def begin(self, ask: Ask) -> str:
        while True:
            self._check_time()
            answer = self.coordinator.begin(self.instance_id, self.attempt, ask)
            if isinstance(answer, Ticket):
                return answer.call
            self.sleep(answer.seconds)

    def end(self, ticket: str, outcome: Outcome) -> bool:
        return self.coordinator.end(ticket, outcome)

    def _check_time(self) -> None:
        if self.seconds is not None and self.clock() - self._started > self.seconds:
            raise TimeUsedError(f"the attempt's {self.seconds:g} s are used up")


def recorded_calls(entries: Sequence[InstanceEntry], attempt: int) -> list[PaidCall]:
    """Return the calls of ``attempt`` that need not be repeated."""
    final = (EntryKind.ANSWERED.value, EntryKind.REFUSED.value)
    return [
        (asked, ended)
        for asked, ended in asked_and_ended(entries)
        if asked["attempt"] == attempt and ended is not None and ended["kind"] in final
    ]
