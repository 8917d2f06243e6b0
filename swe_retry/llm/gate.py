"""The gate that every request to a provider passes: recorded replies, permission, outcome.

A gate belongs to one attempt. A request passes it before it is sent, so that limits on money and
rate hold over all workers, and after it, so that its reply is stored before it is used. Without
limits and records, use ``OpenGate``.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from decimal import Decimal
from typing import Protocol

from swe_retry.llm.chat import Reply, Usage


@dataclass(frozen=True)
class PlannedCall:
    """A request that is about to be sent.

    Attributes:
        provider: litellm's name of the model's provider.
        tokens: of the prompt, counted or estimated, and of the longest reply where known.
        bound: the most dollars that it can cost; None when the price is unknown.
        exchange_sha256: None for an agent that is a command.
    """

    model: str
    provider: str
    request_sha256: str
    tokens: int
    bound: Decimal | None
    exchange_sha256: str | None = None


@dataclass(frozen=True)
class Refused:
    """The provider will never answer this request; ``cost`` as in ``RequestRefusedError``."""

    error: str
    cost: Decimal | None = Decimal()


@dataclass(frozen=True)
class Failed:
    """No answer this time.

    Attributes:
        transient: worth another try; the user must fix other failures.
        billed: it may be billed: the connection broke, or time ran out.
        reached: the provider was connected to.
        retry_after: seconds that the provider asked to wait.
        cost: dollars for what arrived of an answer that broke off; ``usage`` are its tokens.
    """

    error: str
    transient: bool = True
    billed: bool = False
    reached: bool = True
    retry_after: float | None = None
    cost: Decimal | None = None
    usage: Usage | None = None


CallOutcome = Reply | Refused | Failed


class Gate(Protocol):
    """Gives permission for requests and records their outcomes; this one limits nothing."""

    def recorded_reply(
        self, request_sha256: str, exchange_sha256: str | None = None
    ) -> Reply | None:
        """Return a recorded reply, which is paid for, each once; None when there is none.

        Where both sides know the exchange, it decides: a reply to another seed is another reply.

        Raises:
            RequestRefusedError: the provider refused this request.
        """
        return None

    def pause(self, seconds: float, problem: str = "") -> None:
        """Wait before another try, and note why; a StoppedError when the run is stopping."""
        time.sleep(seconds)

    def begin(self, call: PlannedCall) -> str:
        """Wait until ``call`` may be sent and return a ticket for it.

        Raises:
            BudgetUsedError: the budget does not allow it.
            StoppedError: the run is stopping.
        """
        return ""

    def note_arrival(self, ticket: str, tokens: int) -> None:
        """Note how many tokens of an answer have arrived, about."""
        return

    def end(self, ticket: str, outcome: CallOutcome) -> bool:
        """Record the outcome of a request, before it is used.

        Returns:
            Whether a failure uses up one of the caller's tries: not while the provider is down for
            all callers.
        """
        return True


class OpenGate(Gate):
    """A gate without records and limits."""
