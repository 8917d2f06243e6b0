"""Serve recorded replies instead of a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace

from swe_retry.llm.chat import (
    Message,
    ReplayExhaustedError,
    Reply,
    RequestRefusedError,
    Tool,
    Traits,
    Waiting,
    estimate_tokens,
    refusal,
    request_sha256,
)
from swe_retry.llm.gate import OpenGate, PlannedCall


@dataclass
class ReplayModel:
    """Serves the replies of one recorded attempt, each once.

    Serves the first unserved reply with the request's hash, else the first unserved reply: the
    tries of one model begin with equal requests, and trajectories of other harnesses have no
    hashes. With ``exact`` it serves none with the hash of another request.

    Attributes:
        error: what refused the request after the last reply; empty if nothing did.
        refused: hashes of requests that got no reply.
        waiting: surrounds each call, as that of a live model.
    """

    calls: Sequence[Reply]
    error: str = ""
    refused: frozenset[str] = frozenset()
    traits: Traits = field(default_factory=Traits)
    counter: Callable[[str], int] = estimate_tokens
    exact: bool = False
    waiting: Waiting = nullcontext
    _served: set[int] = field(default_factory=set)

    def count(self, text: str) -> int:
        return self.counter(text)

    def complete(
        self, messages: Sequence[Message], tools: Sequence[Tool] = ()
    ) -> Reply:
        with self.waiting():
            return self._serve(request_sha256(messages))

    def _serve(self, sha256: str) -> Reply:
        if sha256 in self.refused:
            raise RequestRefusedError("the recording has no reply: it was refused")
        index = self._next(sha256)
        reply = self.calls[index]
        if self.exact and reply.request_sha256 not in ("", sha256):
            raise ReplayExhaustedError("the recording has no reply to this request")
        self._served.add(index)
        if reply.request_sha256 == sha256:
            return reply
        # It answers another request than the one that is recorded with it.
        return replace(reply, exchange_sha256=None, request_sha256="")

    def _next(self, sha256: str) -> int:
        left = [i for i in range(len(self.calls)) if i not in self._served]
        for index in left:
            if self.calls[index].request_sha256 == sha256:
                return index
        if left:
            return left[0]
        if self.error:
            raise refusal(self.error)
        raise ReplayExhaustedError("no reply left")


@dataclass
class RecordedGate(OpenGate):
    """Serves the answers of one recorded attempt to a coding agent, each once, and no other.

    Attributes:
        calls: those of the attempt that were not served yet.
    """

    calls: list[Reply]

    def recorded_reply(
        self, request_sha256: str, exchange_sha256: str | None = None
    ) -> Reply | None:
        for number, call in enumerate(self.calls):
            same = call.request_sha256 == request_sha256
            if exchange_sha256:
                same = call.exchange_sha256 == exchange_sha256
            if same:
                return self.calls.pop(number)
        return None

    def begin(self, call: PlannedCall) -> str:
        raise ReplayExhaustedError("the recording has no answer to this request")
