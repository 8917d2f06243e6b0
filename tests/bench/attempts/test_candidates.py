"""The ranking, over every combination of outcomes."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from bench.attempts.choose import choose, explain_choice, rank, tier
from runs.records import Attempt, AttemptStatus, InstanceResult, InstanceStatus
from tests.support.attempts import make_candidate as candidate

OUTCOMES: tuple[bool | None, ...] = (True, None, False)


@pytest.mark.parametrize(("edit", "lint", "test"), list(product(OUTCOMES, repeat=3)))
def test_tiers_and_plausibility(
    edit: bool | None,
    lint: bool | None,
    test: bool | None,
) -> None:
    one = candidate(edit=edit, lint=lint, test=test)
    if (edit, lint, test) == (True, True, True):
        expected = 0
    elif edit is True and lint is True:
        expected = 1
    elif lint is True:
        expected = 2
    elif edit is True:
        expected = 3
    else:
        expected = 4
    assert tier(one) == expected
    assert one.plausible is (edit is True and lint is True and test is not False)
    choice = choose([one])
    assert choice.winner == one
    assert (choice.status is InstanceStatus.PLAUSIBLE) is one.plausible
    assert str(one.attempt) in choice.reason


def test_unknown_goes_before_false_and_earlier_before_later() -> None:
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
    assert choose([untested, tested]).winner == untested
    assert choose([untested, tested], require_tests=True).winner == tested
    assert choose([untested], require_tests=True).winner == untested


def test_empty_and_unapplicable_patches_never_win() -> None:
    empty = candidate(1, patch=" \n")
    broken = candidate(2, applies=False)
    bad = candidate(3, False, False, False)
    assert choose([empty, broken, bad]).winner == bad
    nothing = choose([empty, broken])
    assert (nothing.winner, nothing.status) == (None, InstanceStatus.EMPTY)


def test_the_reason_is_in_words() -> None:
    reason = choose(
        [candidate(1, False, True, None), candidate(2, True, True, False)]
    ).reason
    assert reason == (
        "no attempt is plausible (2 attempts); attempt 2 is the least bad: edit and lint are clean "
        "(edit clean, lint clean, tests failed); next is attempt 1, where lint is clean"
    )


@pytest.mark.parametrize(
    ("one", "status"),
    [
        (candidate(), AttemptStatus.PLAUSIBLE),
        (candidate(test=None), AttemptStatus.PLAUSIBLE_UNTESTED),
        (candidate(edit=False), AttemptStatus.EDIT_FAILED),
        (candidate(lint=False), AttemptStatus.LINT_FAILED),
        (candidate(test=False), AttemptStatus.TESTS_FAILED),
        (candidate(patch=""), AttemptStatus.EMPTY),
        (candidate(applies=False), AttemptStatus.ERROR),
        (
            candidate(patch="", ended=AttemptStatus.NOT_RECORDED),
            AttemptStatus.NOT_RECORDED,
        ),
    ],
)
def test_attempt_statuses(one: Attempt, status: AttemptStatus) -> None:
    assert one.status is status


def marked(attempt: int, test: bool | None = True) -> Attempt:
    return candidate(attempt, test=test, edits_test_configuration=True)


def test_edits_of_test_configuration_go_below_candidates_without() -> None:
    assert choose([marked(1), candidate(2, test=None)]).winner == candidate(
        2, test=None
    )
    assert choose([marked(1), candidate(2, False, False, False)]).winner == marked(1)
    poor = candidate(2, False, False, False)
    assert choose([marked(1, test=False), poor]).winner == poor
    assert choose([marked(1)]).reason.endswith("; it edits test configuration")


@pytest.mark.parametrize(
    "status", [AttemptStatus.ONLY_TEST_CONFIGURATION, AttemptStatus.TREE_DIFFERS]
)
def test_outcomes_that_say_nothing_make_nothing_plausible(
    status: AttemptStatus,
) -> None:
    one = candidate(ended=status)
    assert not one.plausible
    assert one.status is status


def test_an_untested_candidate_that_changes_how_tests_run_is_a_fallback() -> None:
    suspect = marked(1, test=None).but(untested="a plugin is new")
    assert choose([suspect]).status is InstanceStatus.FALLBACK
    assert choose([suspect, candidate(2, test=None)]).winner == candidate(2, test=None)
    assert choose([marked(1, test=None)]).status is InstanceStatus.PLAUSIBLE


def test_without_a_patch_the_reason_names_the_attempts_that_outgrew_the_window() -> (
    None
):
    def reason(*statuses: AttemptStatus, patch: str = "") -> str:
        attempts = []
        for number, status in enumerate(statuses, 1):
            attempts.append(candidate(number, False, patch=patch).but(status=status))
        return explain_choice(choose(attempts), attempts).reason

    full = AttemptStatus.CONTEXT
    empty = AttemptStatus.EMPTY
    budget = AttemptStatus.BUDGET
    assert reason(empty, full).endswith(
        "(2 attempts); attempt 2 did not fit into the model's window"
    )
    many = reason(full, full, empty, full, full, full)
    assert many.endswith(
        "; attempts 1, 2, 4 and 2 more did not fit into the model's window"
    )
    assert reason(full, budget).endswith(
        "into the model's window; the budget ended attempt 2"
    )
    assert "window" not in reason(empty)
    assert "window" not in reason(full, patch="+1"), "it has a patch"


PATCH = "diff --git a/m.py b/m.py\n--- a/m.py\n+++ b/m.py\n@@ -1 +1 @@\n-a\n+b\n"
CLEAN = {
    "model_patch": PATCH,
    "edit_outcome": True,
    "lint_outcome": True,
    "test_outcome": True,
}


@pytest.mark.parametrize(
    ("changes", "plausible"),
    [
        ({"status": "plausible", "test_outcome": False}, True),
        ({"status": "plausible_untested"}, True),
        ({"status": "fallback"}, False),
        ({"status": ["plausible"]}, False),
        ({}, True),
        ({"test_outcome": None}, False),
        ({"lint_outcome": False}, False),
        ({"model_patch": ""}, False),
        ({"model_patch": None}, False),
        ({"model_patch": PATCH.replace("m.py", "tests/test_m.py")}, False),
    ],
)
def test_the_status_decides_and_without_one_the_outcomes(
    changes: dict[str, Any], plausible: bool
) -> None:
    raw = {"instance_id": "a", **CLEAN, **changes}
    assert InstanceResult.of_prediction(raw).plausible is plausible
