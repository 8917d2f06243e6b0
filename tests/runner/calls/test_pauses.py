"""Pauses of a provider, probes after them, and how long all providers were paused."""

from __future__ import annotations

import math

import pytest

from swe_retry.llm.gate import Failed
from tests.support.runs import POLICY, ask_limiter, is_open, make_limiter, opened


def test_retry_after_pauses_the_provider_for_all() -> None:
    throttle, clock = make_limiter()
    throttle.note_failure("p", 20)
    assert not is_open(throttle, "p")
    for caller in "abc":
        wait = ask_limiter(throttle, caller=caller, model=caller)
        assert 20 < wait <= 22
    assert throttle.admit("m", "other", 1) == 0
    throttle.note_success("p")
    clock.now += 19
    assert 1 < ask_limiter(throttle) <= 3
    clock.now += 1
    for caller in "abc":
        assert ask_limiter(throttle, caller=caller) == 0


def test_retry_after_is_limited() -> None:
    pauses = {
        59: 59,
        61: 60,
        math.inf: 60,
        0: 0,
        -5: 0,
        math.nan: 0,
    }
    for retry_after, seconds in pauses.items():
        throttle, clock = make_limiter()
        throttle.note_failure("p", retry_after)
        clock.now += max(0, seconds - 0.001)
        is_paused = ask_limiter(throttle) > 0
        assert is_paused is (seconds > 0), retry_after
        clock.now = 1000 + seconds
        assert ask_limiter(throttle) == 0, retry_after


def test_a_shorter_retry_after_does_not_replace_a_longer_one() -> None:
    throttle, clock = make_limiter()
    throttle.note_failure("p", 50)
    throttle.note_failure("p", 1)
    clock.now += 49
    assert ask_limiter(throttle) > 0


def test_only_failures_in_a_row_open_the_circuit() -> None:
    throttle, _ = make_limiter()
    for _ in range(5):
        throttle.note_failure("p")
        throttle.note_failure("p")
        assert not is_open(throttle, "p")
        assert ask_limiter(throttle) == 0
        throttle.note_success("p")
    opened(throttle)
    assert is_open(throttle, "p")
    assert ask_limiter(throttle) > 0
    assert not is_open(throttle, "other")


def test_one_probe_after_each_pause_and_success_closes() -> None:
    throttle, clock = make_limiter(random=0.0)
    opened(throttle)
    clock.now += 0.999
    assert ask_limiter(throttle, caller="a") > 0
    clock.now += 0.001
    assert ask_limiter(throttle, caller="a") == 0
    for number in range(63):
        wait = ask_limiter(throttle, caller=str(number))
        assert 0 < wait <= 2
    throttle.note_failure("p")
    assert is_open(throttle, "p")
    clock.now += 2
    assert ask_limiter(throttle, caller="b") == 0
    assert ask_limiter(throttle, caller="c") > 0
    throttle.note_success("p")
    assert not is_open(throttle, "p")
    for number in range(5):
        assert ask_limiter(throttle, caller=str(number)) == 0


def pauses(random: float) -> list[float]:
    """Return the first eight pauses of a provider that never recovers."""
    throttle, clock = make_limiter(random=random)
    seconds = []
    opened(throttle)
    spread = POLICY.first_wait * (0.1 + 0.9 * random)
    for _ in range(8):
        pause = ask_limiter(throttle) - spread
        seconds.append(pause)
        clock.now += pause
        assert ask_limiter(throttle) == 0
        throttle.note_failure("p")
    return seconds


def test_pauses_double_to_the_longest_and_differ() -> None:
    assert pauses(0.0) == pytest.approx([1, 2, 4, 8, 16, 30, 30, 30])
    assert pauses(0.5) == pytest.approx([1.5, 3, 6, 12, 24, 45, 45, 45])
    assert max(pauses(0.999999)) <= 60


def test_a_success_makes_the_next_pause_short_again() -> None:
    throttle, clock = make_limiter(random=0.0)
    opened(throttle)
    for pause in (1, 2, 4):
        clock.now += pause
        assert ask_limiter(throttle) == 0
        throttle.note_failure("p")
    throttle.note_success("p")
    opened(throttle)
    clock.now += 1
    assert ask_limiter(throttle) == 0


def test_failures_of_calls_under_way_do_not_lengthen_a_pause() -> None:
    throttle, clock = make_limiter(random=0.0)
    for _ in range(64):
        throttle.note_failure("p")
    clock.now += 1
    assert ask_limiter(throttle) == 0, "a flood of failures is one pause"
    throttle, clock = make_limiter(random=0.0)
    for _ in range(64):
        throttle.note_failure("p", 50)
    # The circuit's own pause of 1 second is over, the provider's 50 are not.
    clock.now += 40
    for _ in range(64):
        throttle.note_failure("p")
    clock.now += 10
    assert ask_limiter(throttle) == 0
    throttle.note_failure("p")
    # The second pause, not the hundredth.
    assert ask_limiter(throttle) == pytest.approx(2 + 0.2)


def test_a_late_success_closes_the_circuit_at_once() -> None:
    throttle, _ = make_limiter()
    opened(throttle)
    throttle.note_success("p")
    assert ask_limiter(throttle) == 0


def test_a_lost_probe_does_not_block_for_ever() -> None:
    throttle, clock = make_limiter(random=0.0)
    opened(throttle)
    clock.now += 1
    assert ask_limiter(throttle, caller="dies") == 0
    clock.now += POLICY.probe_patience - 0.001
    assert ask_limiter(throttle) > 0
    clock.now += 0.001
    assert ask_limiter(throttle) == 0
    assert ask_limiter(throttle, caller="third") > 0


def test_a_probe_waits_for_the_rate_and_is_not_used_up_by_it() -> None:
    throttle, clock = make_limiter(rpm=1)
    assert ask_limiter(throttle) == 0
    opened(throttle)
    clock.now += 30
    assert ask_limiter(throttle) > 28
    clock.now += 30
    assert ask_limiter(throttle) == 0


def test_how_long_no_provider_has_answered() -> None:
    throttle, clock = make_limiter()
    both = ["p", "q"]
    assert throttle.unanswered_for(both) == 0
    assert throttle.unanswered_for([]) == 0
    throttle.note_failure("p")
    clock.now += 100
    # A failure alone says nothing, but it counts once others have followed.
    assert throttle.unanswered_for(["p"]) == 0
    opened(throttle, "p")
    clock.now += 10
    assert throttle.unanswered_for(["p"]) == 110
    assert throttle.unanswered_for(both) == 110, "the other was not asked"
    throttle.note_success("q")
    clock.now += 7
    assert throttle.unanswered_for(["p"]) == 117
    assert throttle.unanswered_for(both) == 7
    opened(throttle, "q")
    clock.now += 500
    assert throttle.unanswered_for(both) == 507
    throttle.note_success("p")
    throttle.note_success("q")
    assert throttle.unanswered_for(both) == 0


def test_calls_that_were_refused_a_connection_are_unanswered() -> None:
    throttle, clock = make_limiter()
    refused = Failed("cannot connect: port 8080", reached=False)
    for _ in range(POLICY.failures):
        assert throttle.note_outcome("p", refused), "it uses up a try"
        clock.now += 10
    assert not is_open(throttle, "p"), "a pause does not help"
    assert throttle.unanswered_for(["p"]) == 10 * POLICY.failures
    described = throttle.describe_failures(["p", "q"])
    assert described == "p: 3 calls, the last: cannot connect: port 8080"


def test_a_probe_that_is_being_answered_is_not_lost() -> None:
    throttle, clock = make_limiter(random=0.0)
    opened(throttle)
    clock.now += 1
    assert ask_limiter(throttle, caller="a") == 0
    for _ in range(9):
        clock.now += POLICY.probe_patience - 1
        throttle.note_arrival("p")
        assert ask_limiter(throttle, caller="b") > 0
    clock.now += POLICY.probe_patience
    assert ask_limiter(throttle, caller="b") == 0, "it is silent"


def test_what_says_nothing_of_the_provider_leaves_its_circuit_open() -> None:
    throttle, clock = make_limiter(random=0.0)
    opened(throttle)
    for death in ("the worker died", "no such package"):
        clock.now += 60
        assert ask_limiter(throttle, caller="a") == 0, "the probe"
        outcome = Failed(death, transient=False, reached=False)
        assert throttle.note_outcome("p", outcome)
        assert is_open(throttle, "p")
        assert ask_limiter(throttle, caller="b") == 0, "another probe, at once"
        assert ask_limiter(throttle, caller="c") > 0
        throttle.note_failure("p")
    clock.now += 60
    assert ask_limiter(throttle) == 0
    throttle.note_outcome("p", Failed("HTTP 401", transient=False))
    assert not is_open(throttle, "p")
