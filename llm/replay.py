"""Serve replies from trajectories instead of a model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from core.errors import UserError
from core.money import dollars_or_none
from core.parsing.untrusted import damage_at, read_object
from llm.chat import (
    REPLY,
    TRAITS,
    Message,
    ReplayExhaustedError,
    Reply,
    RequestRefusedError,
    Tool,
    Traits,
    estimate_tokens,
    refusal,
    request_sha256,
)
from llm.gate import OpenGate, PlannedCall

_NOT_RECORDED = "not_recorded"


@dataclass(frozen=True)
class RecordedAttempt:
    """One attempt of a trajectory.

    Attributes:
        calls: with an empty ``request_sha256`` in trajectories that did not keep it.
        refusal: the error that ended the attempt after its last reply; empty without one.
        traits: the traits of the model; None in trajectories without them.
        temperature: the temperature that was sent; None if none was sent or recorded.
        made: False for an attempt that a replay marked as not recorded.
        refused: hashes of requests of a writer of scripts that got no reply.
    """

    number: int
    model: str
    edit_format: str
    calls: tuple[Reply, ...]
    cost: Decimal | None
    refusal: str = ""
    traits: Traits | None = None
    temperature: float | None = None
    made: bool = True
    refused: frozenset[str] = frozenset()


@dataclass
class ReplayModel:
    """Serves the replies of one recorded attempt, each once.

    Serves the first unserved reply with the request's hash, else the first unserved reply: the
    tries of one model begin with equal requests, and trajectories of other harnesses have no
    hashes. With ``exact`` it serves none with the hash of another request.
    """

    attempt: RecordedAttempt
    traits: Traits = field(default_factory=Traits)
    counter: Callable[[str], int] = estimate_tokens
    exact: bool = False
    _served: set[int] = field(default_factory=set)

    def count(self, text: str) -> int:
        return self.counter(text)

    def complete(
        self, messages: Sequence[Message], tools: Sequence[Tool] = ()
    ) -> Reply:
        wanted = request_sha256(messages)
        if wanted in self.attempt.refused:
            raise RequestRefusedError("the recording has no reply: it was refused")
        left = [i for i in range(len(self.attempt.calls)) if i not in self._served]
        if not left and self.attempt.refusal:
            raise refusal(self.attempt.refusal)
        if not left:
            raise ReplayExhaustedError(f"attempt {self.attempt.number}: no reply left")
        calls = self.attempt.calls
        index = next((i for i in left if calls[i].request_sha256 == wanted), left[0])
        if self.exact and calls[index].request_sha256 not in ("", wanted):
            raise ReplayExhaustedError("the recording has no reply to this request")
        self._served.add(index)
        if calls[index].request_sha256 == wanted:
            return calls[index]
        # It answers another request than the one that is recorded with it.
        return replace(calls[index], exchange_sha256=None, request_sha256="")


@dataclass
class RecordedGate(OpenGate):
    """Serves the answers of one recorded attempt to a coding agent, each once, and no other.

    Attributes:
        calls: those of the attempt that were not served yet.
    """

    calls: list[Reply]

    def recorded(
        self, request_sha256: str, exchange_sha256: str | None = None
    ) -> Reply | None:
        for number, call in enumerate(self.calls):
            same = call.request_sha256 == request_sha256
            if call.exchange_sha256 == exchange_sha256 if exchange_sha256 else same:
                return self.calls.pop(number)
        return None

    def begin(self, ask: PlannedCall) -> str:
        raise ReplayExhaustedError("the recording has no answer to this request")


def read_trajectory(path: Path) -> dict[int, RecordedAttempt]:
    """Return the recorded attempts of a trajectory file by number; writers of scripts are below 1.

    Raises:
        UserError: the file is not a trajectory.
    """
    try:
        data = read_object(path, "fix it or move it away")
        attempts = [
            _attempt(raw) for raw in (*data["attempts"], *data.get("writers", ()))
        ]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(
            f"{path} is not a trajectory: {error!r}; see docs/trajectory.md"
        ) from error
    if (name := data.get("instance_id", path.stem)) != path.stem:
        fix = "call the file by its instance"
        raise damage_at(path, ("instance_id",), f"is the trajectory of {name!a}", fix)
    return {attempt.number: attempt for attempt in attempts if attempt.made}


def _attempt(raw: Mapping[str, Any]) -> RecordedAttempt:
    recorded = raw.get("recorded") or {}
    temperature = raw.get("temperature")
    if "calls" in raw:
        calls = [REPLY.validate_python(call) for call in raw["calls"]]
    else:
        calls = _from_messages(raw)
    return RecordedAttempt(
        number=int(raw["attempt"]),
        model=str(raw["model"]),
        edit_format=str(raw["edit_format"]),
        calls=tuple(calls),
        cost=dollars_or_none(_cost(recorded)),
        refusal=str(raw.get("error") or ""),
        traits=TRAITS.validate_python(raw.get("traits")),
        temperature=float(temperature)
        if isinstance(temperature, (int, float))
        else None,
        made=raw.get("status") != _NOT_RECORDED,
        refused=_refused(raw) if int(raw["attempt"]) < 1 else frozenset(),
    )


def _refused(raw: Mapping[str, Any]) -> frozenset[str]:
    """Return the hashes of requests that no reply follows; each is a conversation of its own."""
    said = [(str(m["role"]), str(m["content"])) for m in raw.get("messages") or ()]
    alone = (
        text
        for (role, text), (follows, _) in zip(said, [*said[1:], ("", "")], strict=True)
        if role == "user" and follows != "assistant"
    )
    return frozenset(request_sha256([Message("user", text)]) for text in alone)


def _cost(raw: Mapping[str, Any]) -> float | None:
    # As in reports, true and false are not numbers: the cost is unknown.
    cost: float | None = raw.get("cost")
    return None if isinstance(cost, bool) else cost


def _from_messages(raw: Mapping[str, Any]) -> list[Reply]:
    replies = [str(m["content"]) for m in raw["messages"] if m["role"] == "assistant"]
    cost = dollars_or_none(_cost(raw.get("recorded") or {}))
    if cost is None or not replies:
        return [Reply(text) for text in replies]
    # Equal parts; the last includes the rounding, so the sum is exact.
    share = Decimal(int(cost.scaleb(10)) // len(replies)).scaleb(-10)
    last = cost - share * (len(replies) - 1)
    shares = [*[share] * (len(replies) - 1), last]
    return [Reply(text, cost=c) for text, c in zip(replies, shares, strict=True)]
