"""When no further attempt is made, and the sentence that says why."""

from __future__ import annotations

from swe_retry.attempts.policy import StopRule
from swe_retry.attempts.stop import stop_reason
from swe_retry.record.records import Attempt
from tests.support.attempts import make_candidate


def reason(*candidates: Attempt, rule: StopRule = StopRule.PLAUSIBLE) -> str:
    return stop_reason(candidates, rule)


def test_the_first_plausible_attempt_ends_the_work() -> None:
    bad = make_candidate(1, test=False)
    good = make_candidate(2)
    assert reason() == ""
    assert reason(bad) == ""
    assert reason(bad, good) == "attempt 2 is plausible"
    assert reason(bad, good, rule=StopRule.ALL) == ""
    doubtful = make_candidate(1, edits_test_configuration=True)
    assert reason(doubtful) == ""
    assert reason(make_candidate(1, tests_doubted=True)) == ""


def test_untested_attempts_are_not_enough_where_tests_are_required() -> None:
    untested = make_candidate(1, test=None)
    assert reason(untested)
    assert stop_reason([untested], StopRule.PLAUSIBLE, require_tests=True) == ""
