"""The ranking, over every combination of outcomes."""

from __future__ import annotations

from itertools import product
from typing import Any

from swe_retry.attempts.choose import choose, finish_choice, rank, tier
from swe_retry.record.records import Attempt, AttemptStatus
from swe_retry.record.result import InstanceResult, InstanceStatus
from tests.support.attempts import make_candidate as candidate

OUTCOMES: tuple[bool | None, ...] = (True, None, False)


def expected_tier(edit: bool | None, lint: bool | None, test: bool | None) -> int:
    if edit and lint and test:
        return 0
    if edit and lint:
        return 1
    if lint:
        return 2
    if edit:
        return 3
    return 4


def test_tiers_and_plausibility() -> None:
    for edit, lint, test in product(OUTCOMES, repeat=3):
        attempt = candidate(edit=edit, lint=lint, test=test)
        assert tier(attempt) == expected_tier(edit, lint, test)
        plausible = bool(edit and lint and test is not False)
        assert attempt.plausible is plausible
        choice = choose([attempt])
        assert choice.winner == attempt
        assert (choice.status is InstanceStatus.PLAUSIBLE) is plausible
        assert str(attempt.attempt) in choice.reason


def test_unknown_goes_before_false_and_earlier_before_later() -> None:
    # The attempt, then whether its edit, its lint and its tests are clean.
    order = [
        candidate(9, True, True, False),
        candidate(2, None, True, True),
        candidate(3, False, True, True),
        candidate(1, False, True, None),
        candidate(4, False, True, None),
        candidate(5, False, True, False),
        candidate(6, True, None, None),
        candidate(7, True, False, None),
        candidate(8, None, None, None),
    ]
    shuffled = order[5:] + order[:5]
    assert sorted(shuffled, key=rank) == order


def test_the_first_plausible_wins_even_against_a_tested_one() -> None:
    untested = candidate(1, test=None)
    tested = candidate(2)
    both = [untested, tested]
    assert choose(both).winner == untested
    assert choose(both, require_tests=True).winner == tested
    assert choose([untested], require_tests=True).winner == untested


def test_empty_and_unapplicable_patches_never_win() -> None:
    empty = candidate(1, patch=" \n")
    broken = candidate(2, applies=False)
    bad = candidate(3, False, False, False)
    assert choose([empty, broken, bad]).winner == bad
    choice = choose([empty, broken])
    assert choice.winner is None
    assert choice.status == InstanceStatus.EMPTY


def test_the_reason_is_in_words() -> None:
    candidates = [
        candidate(1, False, True, None),
        candidate(2, True, True, False),
    ]
    assert choose(candidates).reason == (
        "no attempt is plausible (2 attempts); attempt 2 is the least bad: edit and lint are clean "
        "(edit clean, lint clean, tests failed); next is attempt 1, where lint is clean"
    )


def test_attempt_statuses() -> None:
    no_recording = AttemptStatus.NOT_RECORDED
    not_recorded = candidate(patch="", ended=no_recording)
    assert candidate().status is AttemptStatus.PLAUSIBLE
    assert candidate(test=None).status is AttemptStatus.PLAUSIBLE_UNTESTED
    assert candidate(edit=False).status is AttemptStatus.EDIT_FAILED
    assert candidate(lint=False).status is AttemptStatus.LINT_FAILED
    assert candidate(test=False).status is AttemptStatus.TESTS_FAILED
    assert candidate(patch="").status is AttemptStatus.EMPTY
    assert candidate(applies=False).status is AttemptStatus.ERROR
    assert not_recorded.status is no_recording


def configuration_candidate(attempt: int, test: bool | None = True) -> Attempt:
    return candidate(attempt, test=test, edits_test_configuration=True)


def test_edits_of_test_configuration_go_below_candidates_without() -> None:
    configures = configuration_candidate(1)
    fails = configuration_candidate(1, test=False)
    untested = candidate(2, test=None)
    poor = candidate(2, False, False, False)
    assert choose([configures, untested]).winner == untested
    assert choose([configures, poor]).winner == configures
    assert choose([fails, poor]).winner == poor
    reason = choose([configures]).reason
    assert reason.endswith("; it edits test configuration")


def test_candidates_whose_tests_are_doubted_rank_as_those_that_edit_configuration() -> (
    None
):
    doubted = candidate(1, test=None, tests_doubted=True, untested="2 tests are gone")
    poor = candidate(2, False, False, False)
    assert choose([doubted]).status is InstanceStatus.FALLBACK
    assert choose([doubted]).reason.endswith("; the run of its tests is doubted")
    assert choose([doubted, poor]).winner == poor
    assert choose([doubted, candidate(2, test=None)]).winner == candidate(2, test=None)
    # All tests, which ran later, could tell.
    assert choose([doubted.but(test_outcome=True)]).status is InstanceStatus.PLAUSIBLE


def test_outcomes_that_say_nothing_make_nothing_plausible() -> None:
    for status in (AttemptStatus.ONLY_TEST_CONFIGURATION, AttemptStatus.TREE_DIFFERS):
        attempt = candidate(ended=status)
        assert not attempt.plausible
        assert attempt.status is status


def test_an_untested_candidate_that_changes_how_tests_run_is_a_fallback() -> None:
    configures = configuration_candidate(1, test=None)
    suspect = configures.but(untested="a plugin is new")
    untested = candidate(2, test=None)
    assert choose([suspect]).status is InstanceStatus.FALLBACK
    assert choose([suspect, untested]).winner == untested
    assert choose([configures]).status is InstanceStatus.PLAUSIBLE


def test_without_a_patch_the_reason_names_attempts_that_outgrew_the_window() -> None:
    def reason(*statuses: AttemptStatus, patch: str = "") -> str:
        attempts = []
        for number, status in enumerate(statuses, 1):
            attempt = candidate(number, edit=False, patch=patch)
            attempts.append(attempt.but(status=status))
        choice = finish_choice(choose(attempts), attempts)
        return choice.reason

    full = AttemptStatus.CONTEXT
    empty = AttemptStatus.EMPTY
    window = "did not fit into the model's window"
    assert reason(empty, full).endswith(f"(2 attempts); attempt 2 {window}")
    of_many = reason(full, full, empty, full, full, full)
    assert of_many.endswith(f"; attempts 1, 2, 4 and 2 more {window}")
    over_budget = reason(full, AttemptStatus.BUDGET)
    assert over_budget.endswith(f"{window}; the budget ended attempt 2")
    assert "window" not in reason(empty)
    assert "window" not in reason(full, patch="+1"), "it has a patch"


def test_without_a_patch_the_reason_has_why_the_last_agent_gave_up() -> None:
    attempts = [
        candidate(1, patch="").but(error="the first gave up"),
        candidate(2, patch=""),
    ]
    attempts = [attempt.but(status=AttemptStatus.EMPTY) for attempt in attempts]
    assert "gave up" not in finish_choice(choose(attempts), attempts).reason
    attempts.append(attempts[0].but(attempt=3))
    choice = finish_choice(choose(attempts), attempts)
    assert choice.reason.endswith("; the last: the first gave up")
    with_patch = candidate(4)
    choice = finish_choice(choose([*attempts, with_patch]), [with_patch, *attempts])
    assert "gave up" not in choice.reason


PATCH = "diff --git a/m.py b/m.py\n--- a/m.py\n+++ b/m.py\n@@ -1 +1 @@\n-a\n+b\n"
CLEAN = dict.fromkeys(["edit_outcome", "lint_outcome", "test_outcome"], True)


def test_the_status_decides_and_without_one_the_outcomes() -> None:
    plausible: list[dict[str, Any]] = [
        {},
        {"status": "plausible", "test_outcome": False},
        {"status": "plausible_untested"},
    ]
    others: list[dict[str, Any]] = [
        {"status": "fallback"},
        {"status": ["plausible"]},
        {"test_outcome": None},
        {"lint_outcome": False},
        {"model_patch": ""},
        {"model_patch": None},
        {"model_patch": PATCH.replace("m.py", "tests/test_m.py")},
    ]
    usual = {"instance_id": "a", "model_patch": PATCH, **CLEAN}
    for changes in plausible:
        result = InstanceResult.of_prediction({**usual, **changes})
        assert result.plausible, changes
    for changes in others:
        result = InstanceResult.of_prediction({**usual, **changes})
        assert not result.plausible, changes
