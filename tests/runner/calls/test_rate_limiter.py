"""Rates per minute: nothing exceeds them, and every caller gets its turn."""

from __future__ import annotations

import heapq
import threading
import time
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from swe_retry.core.settings import EVERY
from swe_retry.runner.calls.rate_limiter import RateLimiter, Rates
from tests.support.runner import in_threads
from tests.support.runs import (
    POLICY,
    Clock,
    ask_limiter,
    make_limiter,
    make_rates,
    opened,
)


def test_without_limits_all_start() -> None:
    throttle, _ = make_limiter()
    for number in range(1000):
        assert ask_limiter(throttle, 10**9, str(number)) == 0


def test_requests_per_minute() -> None:
    throttle, clock = make_limiter(rpm=2)
    assert ask_limiter(throttle) == 0
    clock.now += 10
    assert ask_limiter(throttle) == 0
    clock.now += 5
    assert 45 < ask_limiter(throttle) <= 47
    clock.now = 1059.999
    assert ask_limiter(throttle) > 0
    clock.now = 1060
    assert ask_limiter(throttle) == 0
    assert 10 < ask_limiter(throttle) <= 12


def test_tokens_per_minute() -> None:
    throttle, clock = make_limiter(tpm=100)
    for tokens in (40, 30):
        assert ask_limiter(throttle, tokens) == 0
        clock.now += 10
    assert 40 < ask_limiter(throttle, 31) <= 42
    # More has to leave the window.
    assert 50 < ask_limiter(throttle, 71) <= 52
    assert ask_limiter(throttle, 30) == 0


def test_more_tokens_than_a_minute_has_start_alone() -> None:
    throttle, clock = make_limiter(tpm=100)
    assert ask_limiter(throttle, 1) == 0
    assert 60 < ask_limiter(throttle, 101) <= 62
    clock.now += 60
    assert ask_limiter(throttle, 101) == 0
    assert 60 < ask_limiter(throttle, 1) <= 62
    clock.now += 60
    assert ask_limiter(throttle, 1) == 0


def test_each_model_has_its_own_rate() -> None:
    clock = Clock()
    tokens_per_minute = {EVERY: 5, "m": 100}
    rates = Rates({"m": 1}, tokens_per_minute)
    throttle = RateLimiter(rates, POLICY, clock, lambda: 0.5)
    assert ask_limiter(throttle, 100) == 0
    assert ask_limiter(throttle, 0) > 0
    for tokens in (3, 2):
        assert ask_limiter(throttle, tokens, model="other") == 0
    assert ask_limiter(throttle, 1, model="other") > 0


def test_the_first_refused_caller_goes_first() -> None:
    """Otherwise small calls would use every gap that a large one waits for."""
    throttle, clock = make_limiter(tpm=100)
    assert ask_limiter(throttle, 50, "small") == 0
    clock.now += 30
    assert ask_limiter(throttle, 50, "small") == 0
    clock.now += 1
    large = ask_limiter(throttle, 100, "large")
    assert 59 < large <= 61
    clock.now += 29
    assert ask_limiter(throttle, 50, "small") > 30
    clock.now = 1031 + large
    assert ask_limiter(throttle, 100, "large") == 0


def test_a_place_at_the_head_is_lost_when_its_caller_does_not_return() -> None:
    throttle, clock = make_limiter(tpm=100)
    ask_limiter(throttle, 50, "small")
    wait = ask_limiter(throttle, 100, "large")
    clock.now += wait
    assert ask_limiter(throttle, 50, "small") > 0
    clock.now += 2 * POLICY.first_wait
    assert ask_limiter(throttle, 50, "small") == 0


def test_a_caller_is_its_thread_by_default() -> None:
    throttle, clock = make_limiter(rpm=1)
    assert throttle.admit("m", "p", 1) == 0
    assert throttle.admit("m", "p", 1) > 0
    clock.now += 60
    waits: list[float] = []
    in_threads(1, lambda _: waits.append(throttle.admit("m", "p", 1)))
    assert waits[0] > 0
    assert throttle.admit("m", "p", 1) == 0


def test_waiting_times_differ_and_are_never_0() -> None:
    throttle, _ = make_limiter(rpm=1, random=None)
    ask_limiter(throttle)
    paused, _ = make_limiter(random=None)
    opened(paused)
    for waiting in (throttle, paused):
        waits = {ask_limiter(waiting, caller=str(n)) for n in range(64)}
        assert len(waits) == 64
    lowest, _ = make_limiter(random=0.0)
    opened(lowest)
    for _ in range(2):
        assert ask_limiter(lowest) > 0


def admissions(
    throttle: RateLimiter,
    clock: Clock,
    demands: Sequence[Sequence[int]],
    until: float,
) -> list[tuple[float, int, int]]:
    """Return (time, worker, tokens) of each call; every worker asks at the times it is given.

    A call takes one second and succeeds.
    """
    queue = [(clock.now, worker, 0) for worker in range(len(demands))]
    heapq.heapify(queue)
    admitted = []
    while queue:
        when, worker, call = heapq.heappop(queue)
        if call == len(demands[worker]):
            continue
        clock.now = when
        assert when < until, "a worker starves"
        tokens = demands[worker][call]
        wait = throttle.admit("m", "p", tokens, worker)
        if wait:
            heapq.heappush(queue, (when + wait, worker, call))
            continue
        admitted.append((when, worker, tokens))
        heapq.heappush(queue, (when + 1, worker, call + 1))
    return admitted


def busiest_minute(admitted: Sequence[tuple[float, int, int]]) -> Mapping[str, int]:
    """Return the most requests and tokens in any 60 seconds, except calls that were alone."""
    requests = 0
    tokens = 0
    for index, (start, _, _) in enumerate(admitted):
        window = []
        for when, _, size in admitted[index:]:
            if when - start < 60:
                window.append(size)
        requests = max(requests, len(window))
        if len(window) > 1:
            tokens = max(tokens, sum(window))
    return {"requests": requests, "tokens": tokens}


_DEMAND = st.lists(st.integers(0, 120), max_size=6)
_DEMANDS = st.lists(_DEMAND, max_size=8)


@settings(max_examples=60)
@given(
    st.integers(1, 6),
    st.integers(1, 100),
    _DEMANDS,
    st.integers(),
)
def test_no_minute_exceeds_its_limits_and_no_worker_starves(
    rpm: int,
    tpm: int,
    demands: list[list[int]],
    seed: int,
) -> None:
    clock = Clock()
    rates = make_rates(rpm, tpm)
    throttle = RateLimiter(rates, POLICY, clock, Random(seed).random)
    calls = sum(map(len, demands))
    until = clock.now + (calls + 1) * (60 + 10)
    admitted = admissions(throttle, clock, demands, until)
    assert len(admitted) == calls
    minute = busiest_minute(admitted)
    assert minute["requests"] <= rpm
    assert minute["tokens"] <= tpm


def test_a_large_call_among_many_small_ones_starts_soon() -> None:
    throttle, clock = make_limiter(tpm=100, random=None)
    small_calls = [5] * 60
    large_calls = [90] * 3
    demands = [small_calls] * 20 + [large_calls]
    admitted = admissions(throttle, clock, demands, clock.now + 10_000)
    large = [when for when, worker, _ in admitted if worker == 20]
    # All calls take more than an hour; without a queue the large ones would come last.
    assert len(large) == 3
    assert large[-1] < 1000 + 600


class SlowNumbers(dict[str, int]):
    """Gives other threads time to interfere when a number is looked up."""

    def get(self, key: str, default: Any = None) -> Any:
        time.sleep(0.002)
        return super().get(key, default)


def test_64_threads_get_what_the_rate_allows_and_one_probe() -> None:
    clock = Clock()
    rates = Rates(SlowNumbers({EVERY: 10}))
    throttle = RateLimiter(rates, POLICY, clock, Random(1).random)
    begin = threading.Barrier(64)
    admitted: list[int] = []

    def count_admitted(provider: str) -> int:
        def work(worker: int) -> None:
            begin.wait()
            for _ in range(40):
                wait = throttle.admit(provider, provider, 1, worker)
                if wait == 0:
                    admitted.append(worker)

        admitted.clear()
        in_threads(64, work)
        return len(admitted)

    assert count_admitted("p") == 10
    for _ in range(5):
        opened(throttle, "q")
        clock.now += POLICY.longest_wait
        assert count_admitted("q") == 1
