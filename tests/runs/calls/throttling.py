"""A throttle with a clock that the tests set."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from runs.calls.budget import PerModel
from runs.calls.rate_limiter import RateLimiter, RateLimiterPolicy, Rates

POLICY = RateLimiterPolicy(failures=3, first_wait=2, longest_wait=60, probe_patience=300)


@dataclass
class Clock:
    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


def make(
    rpm: int | None = None, tpm: int | None = None, random: float | None = 0.5
) -> tuple[RateLimiter, Clock]:
    clock = Clock()
    share = Random(1).random if random is None else lambda: random
    return RateLimiter(Rates(PerModel(rpm), PerModel(tpm)), POLICY, clock, share), clock


def ask(throttle: RateLimiter, tokens: int = 1, caller: str = "w", model: str = "m") -> float:
    return throttle.admit(model, "p", tokens, caller)


def opened(throttle: RateLimiter, provider: str = "p") -> None:
    for _ in range(POLICY.failures):
        throttle.failed(provider)


def is_open(throttle: RateLimiter, provider: str) -> bool:
    return throttle._provider(provider).open
