"""Pure: when a worker may call a model, by rates and by the state of its provider."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Hashable, Mapping
from dataclasses import dataclass, field
from random import random as random_share
from typing import Annotated

from pydantic import AfterValidator, Field, PlainSerializer

from swe_retry.core.address import parse_address, recorded_address
from swe_retry.core.errors import UserError
from swe_retry.core.plaintext import quantity
from swe_retry.core.settings import EVERY, Pairs, Section, WrongValueError
from swe_retry.llm.gate import CallOutcome, Failed
from swe_retry.record.places import NamedRun

PerMinute = Annotated[dict[str, Annotated[int, Field(ge=1, lt=10**15)]], Pairs]


def _address(text: str) -> str:
    try:
        parse_address("", text)
    except UserError as error:
        raise WrongValueError(str(error).strip()) from None
    return text


class Calls(Section):
    """How models are called; seconds."""

    api_base: (
        Annotated[str, AfterValidator(_address), PlainSerializer(recorded_address)]
        | None
    ) = None
    """Call models at this server of the OpenAI protocol."""

    replay: NamedRun | None = None
    """Call no model: repeat the replies of this run."""

    timeout: float = Field(default=300, ge=1)
    """End a call in which nothing has arrived for this long."""

    retries: int = Field(default=5, ge=0)
    """Repeat a call this often after transient errors."""

    per_minute: PerMinute = Field(default={})
    """Start at most this many calls in a minute: N, or MODEL=N,MODEL=N."""

    tokens_per_minute: PerMinute = Field(default={})
    """Use at most this many tokens in a minute, in the same form."""

    give_up_after: float = Field(default=1800, ge=1)
    """End the run when no model has answered for this long."""

    trace: bool = False
    """Send attempts and calls as spans of OpenTelemetry to OTEL_EXPORTER_OTLP_ENDPOINT
    (docs/tracing.md)."""

    trace_content: bool = False
    """Send prompts and replies with the spans too."""


@dataclass(frozen=True)
class Rates:
    """The most requests and tokens in any 60 seconds, for each model by itself.

    They are by the names of models, and for those that are not named by ``EVERY``.
    """

    requests_per_minute: Mapping[str, int] = field(default_factory=dict)
    tokens_per_minute: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class RateLimiterPolicy:
    """When a provider counts as failing, and for how long it is not called.

    Attributes:
        failures: number of failures in a row that opens the circuit.
        first_wait: seconds of the first pause, and the most random delay of a waiting caller.
        longest_wait: seconds of the longest pause, and the most that a Retry-After counts.
        probe_patience: seconds of silence after which a probe counts as lost; more than a call's
            time-out.
    """

    failures: int = 5
    first_wait: float = 2.0
    longest_wait: float = 60.0
    probe_patience: float = 330.0


@dataclass
class _Provider:
    """The state of a provider; times are those of the clock."""

    failures: int = 0  # since the last success
    error: str = ""  # of the last failure
    pauses: int = 0  # of the open circuit; 0 while it is closed
    asked_until: float = -math.inf  # the end of the longest Retry-After
    paused_until: float = -math.inf
    probed_until: float = -math.inf  # then the present probe counts as lost
    failing_since: float = 0.0
    answered_at: float = -math.inf

    @property
    def open(self) -> bool:
        return self.pauses > 0

    def blocked_until(self) -> float:
        return max(self.asked_until, self.paused_until)


class RateLimiter:
    """Admits calls by the rates of their model and the state of their provider.

    A circuit opens after some failures in a row: the provider is paused for all workers, then one
    call probes it while the others still wait. If the probe fails, the next pause is longer; any
    success closes the circuit. Each waiting caller gets its own delay, so that they do not ask
    again at the same moment.

    Args:
        rates: limits per model.
        policy: when to pause.
        clock: seconds that never go back.
        random: numbers from 0 to 1, without 1.
    """

    def __init__(
        self,
        rates: Rates,
        policy: RateLimiterPolicy,
        clock: Callable[[], float] = time.monotonic,
        random: Callable[[], float] = random_share,
    ) -> None:
        self._rates = rates
        self._policy = policy
        self._clock = clock
        self._random = random
        self._lock = threading.Lock()
        self._windows: dict[str, RateWindow] = {}
        self._providers: dict[str, _Provider] = {}

    def admit(
        self,
        model: str,
        provider: str,
        tokens: int,
        caller: Hashable | None = None,
    ) -> float:
        """Return 0.0 when the call may start, and count it; else seconds until asking again.

        An admitted call must be followed by ``note_outcome``.

        Args:
            model: its rates hold.
            provider: receives the call.
            tokens: of the prompt and of the longest output.
            caller: identifies the caller when it asks again; the thread when not given.
        """
        if caller is None:
            caller = threading.get_ident()
        with self._lock:
            now = self._clock()
            state = self._provider(provider)
            wait = None
            if now < state.blocked_until():
                wait = state.blocked_until() - now
            elif state.open and now < state.probed_until:
                wait = 0.0  # the probe may end at any time
            else:
                # The head gets a random delay too, and needs time to ask again.
                grace = 2 * self._policy.first_wait
                wait = self._window(model).wait(now, tokens, caller, grace)
            if wait is not None:
                # The random delay is never 0, which would mean admitted.
                return wait + self._policy.first_wait * (0.1 + 0.9 * self._random())
            self._window(model).count(now, tokens)
            if state.open:
                state.probed_until = now + self._policy.probe_patience
            return 0.0

    def note_outcome(self, provider: str, outcome: CallOutcome) -> bool:
        """Note the outcome of an admitted call, and tell whether a failure uses up a try of it."""
        if (
            isinstance(outcome, Failed)
            and not outcome.transient
            and not outcome.reached
        ):
            # The worker died, or the error is of this machine: nothing is known of the provider.
            with self._lock:
                self._provider(provider).probed_until = -math.inf
            return True
        if not isinstance(outcome, Failed) or not outcome.transient:
            self.note_success(provider)
            return True
        with self._lock:
            state = self._provider(provider)
            was_open = state.open
            answered = state.answered_at > -math.inf
            if not outcome.reached and not answered:
                # A wrong address, or a server that was not started: a pause does not help.
                self._count_failure(state, outcome.error)
                return True
        self.note_failure(provider, outcome.retry_after, outcome.error)
        return not was_open

    def note_success(self, provider: str) -> None:
        """Note an answer: the circuit closes, but an earlier Retry-After still holds."""
        with self._lock:
            now = self._clock()
            state = self._provider(provider)
            self._providers[provider] = _Provider(
                asked_until=state.asked_until,
                answered_at=now,
            )

    def note_arrival(self, provider: str) -> None:
        """Note a part of an answer: a probe that is being answered is not lost."""
        with self._lock:
            state = self._provider(provider)
            if state.probed_until > -math.inf:
                state.probed_until = self._clock() + self._policy.probe_patience

    def note_failure(
        self, provider: str, retry_after: float | None = None, error: str = ""
    ) -> None:
        """Note a failure that may be temporary: an error status, or no answer.

        Calls that were pending when a pause started do not lengthen it. ``retry_after`` has the
        seconds that the provider asked for.
        """
        with self._lock:
            now = self._clock()
            state = self._provider(provider)
            self._count_failure(state, error)
            many = state.failures >= self._policy.failures
            opens = many and (not state.open or now >= state.blocked_until())
            if (
                retry_after is not None and retry_after > 0
            ):  # false where it is not a number
                requested_until = now + min(retry_after, self._policy.longest_wait)
                state.asked_until = max(state.asked_until, requested_until)
            if opens:
                state.pauses += 1
                # Pauses double, and their upper half is random.
                doubled = self._policy.first_wait * 2.0 ** min(state.pauses - 1, 60)
                pause = (
                    min(doubled, self._policy.longest_wait) * (1 + self._random()) / 2
                )
                state.paused_until = now + pause
                state.probed_until = -math.inf

    def unanswered_for(self, providers: Collection[str]) -> float:
        """Return for how many seconds none of ``providers`` has answered, though some were asked.

        It is 0.0 while none of them has failed often in turn.
        """
        with self._lock:
            states = [self._provider(name) for name in providers]
            failing = [s for s in states if s.failures >= self._policy.failures]
            if not failing:
                return 0.0
            answered_at = max(state.answered_at for state in states)
            failing_since = min(state.failing_since for state in failing)
            return self._clock() - max(answered_at, failing_since)

    def describe_failures(self, providers: Collection[str]) -> str:
        """Return how often each of ``providers`` has failed in turn, and why the last time."""
        with self._lock:
            descriptions = []
            for name in providers:
                state = self._provider(name)
                if not state.failures:
                    continue
                calls = quantity(state.failures, "call")
                descriptions.append(f"{name}: {calls}, the last: {state.error}")
        return "; ".join(descriptions)

    def _count_failure(self, state: _Provider, error: str) -> None:
        if not state.failures:
            state.failing_since = self._clock()
        state.failures += 1
        state.error = error

    def _provider(self, name: str) -> _Provider:
        return self._providers.setdefault(name, _Provider())

    def _window(self, model: str) -> RateWindow:
        if model not in self._windows:
            requests = _limit_of(self._rates.requests_per_minute, model)
            tokens = _limit_of(self._rates.tokens_per_minute, model)
            self._windows[model] = RateWindow(requests, tokens)
        return self._windows[model]


def _limit_of(rates: Mapping[str, int], model: str) -> int | None:
    return rates.get(model, rates.get(EVERY))


MINUTE = 60.0


@dataclass(frozen=True)
class _Head:
    """The caller that goes first: it was refused first and should ask again by ``until``."""

    caller: Hashable
    fits_at: float
    until: float


@dataclass
class RateWindow:
    """A sliding window: each call is remembered for 60 seconds.

    A token bucket refills during calls, so it admits nearly twice its size in its first minute,
    and the provider refuses the excess. Here no 60 seconds hold more than the limits. The one
    exception is a call that is larger than ``tokens`` by itself: it starts when the window is
    empty.

    A caller that is refused while no other caller waits becomes the head. Until the head is
    admitted, or fails to ask again in time, no other caller is admitted: otherwise small calls
    would fill each gap that a large call waits for.

    """

    requests: int | None
    tokens: int | None
    _calls: deque[tuple[float, int]] = field(default_factory=deque)
    _held: int = 0
    _head: _Head | None = None

    def wait(
        self,
        now: float,
        tokens: int,
        caller: Hashable,
        grace: float,
    ) -> float | None:
        """Return the seconds until ``caller`` may ask again, None when its call may start.

        The head may be late by ``grace`` seconds before it loses its place.
        """
        while self._calls and now - self._calls[0][0] >= MINUTE:
            self._held -= self._calls.popleft()[1]
        if self._head and (self._head.caller == caller or self._head.until < now):
            self._head = None
        seconds = self._until_it_fits(now, tokens)
        if self._head:
            return max(seconds or 0.0, self._head.fits_at - now, 0.0)
        if seconds is not None:
            self._head = _Head(caller, now + seconds, now + seconds + grace)
        return seconds

    def count(self, now: float, tokens: int) -> None:
        """Remember a call that starts now."""
        self._calls.append((now, tokens))
        self._held += tokens

    def _until_it_fits(self, now: float, tokens: int) -> float | None:
        """Return the seconds until enough calls have left, None when it fits now.

        A call of any size fits into an empty window.
        """
        calls = len(self._calls)
        counted_tokens = self._held
        seconds = None
        for started, size in self._calls:
            by_requests = self.requests is None or calls < self.requests
            if by_requests and (
                self.tokens is None or counted_tokens + tokens <= self.tokens
            ):
                break
            seconds = started + MINUTE - now
            calls -= 1
            counted_tokens -= size
        return seconds
