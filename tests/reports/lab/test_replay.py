"""What policies are shown, and what is said where the recording cannot tell."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from random import Random
from typing import Any

import pytest

from bench.attempts import choose
from reports.data.rundata import RunData
from reports.data.verdicts import VerdictStatus
from reports.lab.policies import Chosen, Decision, Policy, Seen, least_bad, policies_of
from reports.lab.recorded import LabData, ModelTurn, Tried, lab_data
from reports.lab.replay import Front, replays, run_lab
from runs.evidence import Evidence
from runs.records import AttemptStatus
from tests.support.attempts import make_candidate
from tests.support.labworld import SAMPLES, World, results
from tests.support.rundata import a_run, an_attempt, an_instance

WORLD = World(lambda *_: 0.4, shared=0.5, accepted=0.4, scripts=(0.8, 0.6))
EVERY = (
    "first", "only-a", "plausible-3", "plausible", "random", "all", "reversed", "evidence",
    "budget-2", "total-20",
)  # fmt: skip


def without_verdicts(run: RunData, change: Callable[[Any], Any]) -> RunData:
    """Return the run with each verdict replaced by what ``change`` makes of it."""
    instances = []
    for one in run.instances:
        verdicts = {}
        for number, verdict in one.verdicts.items():
            if changed := change(verdict):
                verdicts[number] = changed
        instances.append(one.but(verdicts=verdicts, verdict=change(one.verdict)))
    return replace(run, instances=tuple(instances))


def test_no_policy_is_shown_a_verdict() -> None:
    """All verdicts are turned round, and every policy sees the same and decides the same."""

    def turned(verdict: Any) -> Any:
        resolved = verdict.status is VerdictStatus.RESOLVED
        status = VerdictStatus.UNRESOLVED if resolved else VerdictStatus.RESOLVED
        return verdict.but(status=status)

    def watched(data: LabData) -> list[tuple[Seen, Decision]]:
        shown: list[tuple[Seen, Decision]] = []

        def watching(policy: Policy) -> Policy:
            def decide(seen: Seen) -> Decision:
                shown.append((seen, policy.decide(seen)))
                return shown[-1][1]

            return replace(policy, decide=decide)

        for policy in map(watching, policies_of(data, EVERY)):
            replays(data, policy, 1)
        return shown

    run = WORLD.run(20)
    plain, other = lab_data([run]), lab_data([without_verdicts(run, turned)])
    assert watched(plain) == watched(other)
    assert len(watched(plain)) > 20 * len(EVERY)
    shares = [
        run_lab(data, policies_of(data, ["first"]), 1).policies
        for data in (plain, other)
    ]
    assert shares[0][2].resolved != shares[1][2].resolved


@pytest.mark.parametrize("lost", ["attempts", "verdicts"])
def test_the_range_holds_the_truth(lost: str) -> None:
    """Attempts or verdicts are taken out of a complete recording, at random."""
    run, dice = WORLD.run(40), Random(5)
    whole = results(run, *EVERY)
    instances = []
    for one in run.instances:
        attempts, verdicts = one.attempts, dict(one.verdicts)
        if lost == "attempts":
            attempts = attempts[: dice.randint(1, 6)]
        else:
            for number in one.verdicts:
                if dice.random() < 0.4:
                    del verdicts[number]
        instances.append(one.but(attempts=attempts, verdicts=verdicts))
    part = results(replace(run, instances=tuple(instances)), *EVERY)
    ranges = 0
    for name in EVERY:
        true, seen = whole[name], part[name]
        assert seen.resolved.low <= true.resolved.low <= seen.resolved.high, name
        assert seen.dollars.value <= true.dollars.value
        assert seen.dollars.complete is (seen.dollars == true.dollars)
        ranges += seen.unknown > 0
        assert seen.front is not Front.YES or not seen.unknown
    assert ranges > 4
    assert part["oracle"].resolved.high >= whole["oracle"].resolved.low


def test_an_attempt_that_was_never_made_is_not_guessed() -> None:
    rejected = an_attempt(1, status="tests_failed", test_outcome=False)
    run = a_run(
        an_instance("own__thing-1", attempts=(an_attempt(1), an_attempt(2, try_=2))),
        an_instance("own__thing-2", attempts=(rejected,), resolved=False),
    )
    found = results(run, "plausible", "first", "all")
    assert (found["plausible"].resolved.low, found["plausible"].resolved.high) == (
        0.5,
        1,
    )
    assert (found["plausible"].dollars.value, found["plausible"].dollars.complete) == (
        2,
        False,
    )
    assert (found["first"].resolved.low, found["first"].unknown) == (0.5, 0)
    assert found["all"].unknown == 1
    best = run_lab(lab_data([run]), (), SAMPLES).best
    assert [(row.oracle.low, row.oracle.high) for row in best] == [
        (0.5, 0.75),
        (0.5, 1),
    ]
    assert [(row.least_bad.low, row.least_bad.high) for row in best] == [
        (0.5, 0.75),
        (0.5, 1),
    ]


def test_costs_are_a_bound_where_only_some_orders_ask_for_a_missing_attempt() -> None:
    run = a_run(
        an_instance("own__thing-1", attempts=(an_attempt(1), an_attempt(2, try_=2))),
        an_instance("own__thing-2", attempts=(an_attempt(1),)),
    )
    found = results(run, "random", "total-99")
    assert found["random"].unknown == 1 and not found["random"].dollars.complete
    assert 0.5 < found["random"].resolved.low < 1 == found["random"].resolved.high
    assert found["total-99"].dollars.complete


def test_unknown_dollars_may_end_the_work_before_any_instance() -> None:
    free = [
        an_instance(f"own__thing-{n}", attempts=(an_attempt(cost=None),))
        for n in (1, 2)
    ]
    found = results(a_run(*free), "total-5", "first")
    assert (found["total-5"].resolved.low, found["total-5"].resolved.high) == (0, 1)
    assert found["first"].resolved.low == 1
    assert not found["first"].dollars.complete


def test_an_attempt_that_infrastructure_ended_counts_as_never_made() -> None:
    ended = an_attempt(2, try_=2, status=AttemptStatus.INFRA_ERROR.value)
    data = lab_data([a_run(an_instance(attempts=(an_attempt(1), ended)))])
    assert (data.turns, len(data.attempts)) == ((ModelTurn("m", 1),), 1)


def test_a_selected_instance_without_a_prediction_is_unknown() -> None:
    run = a_run(an_instance("own__thing-1"), selected=("own__thing-1", "own__thing-2"))
    found = results(run, "first")
    assert [(each.resolved.low, each.resolved.high) for each in found.values()] == [
        (0.5, 1)
    ] * 3
    assert not any(each.dollars.complete for each in found.values())


def test_runs_together() -> None:
    """Attempts of a second run follow; its other instances share their turns with the first."""
    one = a_run(
        an_instance("own__thing-1", attempts=(an_attempt(1), an_attempt(2, try_=2)))
    )
    again = an_instance(
        "own__thing-1", attempts=(an_attempt(1), an_attempt(2, model="n"))
    )
    two = a_run(again, an_instance("own__thing-2"), name="s")
    data = lab_data([one, two])
    assert data.turns == (
        ModelTurn("m", 1),
        ModelTurn("m", 2),
        ModelTurn("m", 3),
        ModelTurn("n", 1),
    )
    assert [len(each.made) for each in data.instances] == [4, 1]
    assert [len(each.own) for each in data.instances] == [2, 0]
    numbers = [tried.attempt.attempt for tried in data.instances[0].made.values()]
    assert sorted(numbers) == [1, 2, 3, 4]
    assert data.name == "r + s"


def test_equal_patches_are_those_with_the_same_lines() -> None:
    text = (
        "diff --git a/a b/a\nindex 1..2 100644\n--- a/a\n+++ b/a\n@@ -1 +1 @@\n-1\n+2\n"
    )
    moved = text.replace("1..2", "3..4").replace(
        "@@ -1 +1 @@", "@@ -9,2 +9,2 @@ def f():"
    )
    other = text.replace("+2", "+ 2")
    attempts = tuple(
        an_attempt(n, try_=n, model_patch=patch)
        for n, patch in enumerate((text, moved, other, ""), 1)
    )
    (found,) = lab_data([a_run(an_instance(attempts=attempts))]).instances
    keys = [made.equals for made in found.made.values()]
    assert keys[0] == keys[1] != keys[2] and keys[3] == ""


def test_classes_and_scripts_are_those_of_recorded_evidence() -> None:
    known = Evidence.model_validate(
        {
            "classes": [
                {"id": "a", "attempts": [1, 3], "models": ["m"]},
                {"id": "b", "attempts": [2], "models": ["m"]},
            ],
            "scripts": [
                {"id": "s1", "source": "issue", "base": [2, 2]},
                {"id": "s2", "source": "issue", "base": [0, 0]},
            ],
            "outcomes": {"s1": {"a": 0, "b": 2}},
        }
    )
    attempts = tuple(an_attempt(n, try_=n, model_patch=f"p{n}") for n in (1, 2, 3))
    (found,) = lab_data(
        [a_run(an_instance(attempts=attempts, evidence=known))]
    ).instances
    made = list(found.made.values())
    assert [one.equals for one in made] == ["a", "b", "a"]
    assert [one.passed for one in made] == [{"s1"}, frozenset(), {"s1"}]
    assert found.valid_scripts == {"s1"}


@pytest.mark.parametrize("require_tests", [False, True])
def test_the_lab_selects_as_the_harness_does(require_tests: bool) -> None:
    outcomes: tuple[bool | None, ...] = (True, None, False)
    every = [
        make_candidate(
            1, *values, patch=patch, edits_test_configuration=marked, untested=why
        )
        for patch in ("p", "")
        for marked in (False, True)
        for why in ("", "no test could tell")
        for values in product(outcomes, repeat=3)
    ]
    dice = Random(2)
    for _ in range(500):
        drawn = [dice.choice(every).at(n) for n in range(1, 6)]
        tried = [Tried(one) for one in drawn]
        winner = choose(drawn, require_tests=require_tests).winner
        best = [one.attempt for one in least_bad(tried, require_tests)]
        assert best[:1] == ([winner] if winner else [])


def test_cheaper_and_as_good_is_the_front() -> None:
    names = ("first", "plausible", "plausible-6", "all")
    found = results(World(lambda *_: 0.5, accepted=0.0).run(50), *names)
    assert found["first"].front is found["plausible"].front is Front.YES
    assert found["plausible-6"].front is Front.YES, "equal ones share their place"
    assert found["all"].front is Front.NO, "as good as plausible, and dearer"
    assert found["oracle"].front is Front.NO
    assert found["recorded"].front is Front.NO


def test_the_same_seed_gives_the_same_report() -> None:
    def report() -> object:
        data = lab_data([WORLD.run(10)])
        return run_lab(data, policies_of(data), 50)

    assert report() == report()


def test_a_choice_of_nothing_is_unresolved() -> None:
    data = lab_data([WORLD.run(3)])
    policy = Policy("none", lambda seen: Chosen())
    walks = replays(data, policy, 1)
    assert walks[:, :3].tolist() == [[0, 0, 0]] * 3
