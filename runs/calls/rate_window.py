"""Pure: the calls of one model in the last minute, and when the next one fits."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass, field

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

    Attributes:
        requests: most calls in 60 seconds; None is no limit.
        tokens: most tokens in 60 seconds; None is no limit.
    """

    requests: int | None = None
    tokens: int | None = None
    _calls: deque[tuple[float, int]] = field(default_factory=deque)
    _held: int = 0
    _head: _Head | None = None

    def wait(self, now: float, tokens: int, caller: Hashable, grace: float) -> float | None:
        """Return the seconds until ``caller`` may ask again, None when its call may start.

        Args:
            now: seconds of a clock that never goes back.
            tokens: what the call may use.
            caller: identifies the caller when it asks again.
            grace: seconds that the head may be late before it loses its place.
        """
        self._forget(now)
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

    def _forget(self, now: float) -> None:
        while self._calls and now - self._calls[0][0] >= MINUTE:
            self._held -= self._calls.popleft()[1]

    def _until_it_fits(self, now: float, tokens: int) -> float | None:
        """Return the seconds until enough calls have left, None when it fits now.

        A call of any size fits into an empty window.
        """
        calls, held, seconds = len(self._calls), self._held, None
        for started, size in self._calls:
            if self._fits(calls, held, tokens):
                break
            seconds = started + MINUTE - now
            calls, held = calls - 1, held - size
        return seconds

    def _fits(self, calls: int, held: int, tokens: int) -> bool:
        by_requests = self.requests is None or calls < self.requests
        by_tokens = self.tokens is None or held + tokens <= self.tokens
        return by_requests and by_tokens
