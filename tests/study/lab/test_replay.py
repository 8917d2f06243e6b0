"""What policies are shown, and what is said where the recording cannot tell."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import pytest

from swe_retry.attempts.choose import choose
from swe_retry.llm.chat import Reply
from swe_retry.record.evidence import Evidence
from swe_retry.record.records import Attempt, AttemptStatus
from swe_retry.results.rundata import RunData
from swe_retry.results.verdicts import VerdictStatus
from tests.support.attempts import make_candidate
from tests.support.labworld import World, lab, limits, results
from tests.support.rundata import a_run, a_verdict, an_attempt, an_instance

WORLD = World(
    lambda *_: 0.4,
    shared=0.5,
    accepted=0.4,
    scripts=(0.8, 0.6),
)
EVERY = (
    "first", "only-a", "plausible-3", "plausible", "random", "all", "reversed", "evidence",
    "budget-2", "total-20",
)  # fmt: skip
WATCH = """
from pathlib import Path
from swe_retry.study.lab.policies import Chosen
LOG = Path(__file__).with_name("log")

def watch(seen):
    scripts = [sorted(t.passed or ()) for t in seen.tried]
    with LOG.open("a") as stream:
        print(seen.turns, seen.made, seen.left, seen.require_tests, file=stream, end=" ")
        print([t.attempt for t in seen.tried], scripts, file=stream)
    return seen.left[0] if seen.left else Chosen()

def classes(seen):
    if seen.left:
        return seen.left[0]
    scripts = [t.passed if t.passed is None else sorted(t.passed) for t in seen.tried]
    LOG.write_text(str([*zip([t.equals for t in seen.tried], scripts)]))
    return Chosen()
"""


TWO = (an_attempt(1), an_attempt(2, try_=2))


def attempts_of(*patches: str, **changes: Any) -> tuple[Attempt, ...]:
    """Return an attempt of each try, with these patches."""
    attempts = []
    for number, patch in enumerate(patches, 1):
        attempt = an_attempt(
            number,
            try_=number,
            model_patch=patch,
            **changes,
        )
        attempts.append(attempt)
    return tuple(attempts)


def evidence_of(
    classes: dict[str, list[int]],
    outcomes: dict[str, int],
    *bases: list[int],
) -> Evidence:
    """Return evidence whose first script has ``outcomes``; each has results on the base."""
    scripts = []
    for number, base in enumerate(bases, 1):
        scripts.append(
            {
                "id": f"s{number}",
                "source": "issue",
                "base": base,
            }
        )
    content = []
    for name, numbers in classes.items():
        content.append(
            {
                "id": name,
                "attempts": numbers,
                "models": ["m"],
            }
        )
    return Evidence.model_validate(
        {
            "classes": content,
            "scripts": scripts,
            "outcomes": {"s1": outcomes},
        }
    )


@pytest.fixture
def watch(tmp_path: Path) -> Callable[..., str]:
    """Return a function that runs a policy of a file and returns what it was shown."""
    path = tmp_path / "watch.py"
    path.write_text(WATCH)

    def run_policy(run: RunData, name: str = "watch") -> str:
        path.with_name("log").unlink(missing_ok=True)
        lab([run], f"{path}:{name}", samples=1)
        return path.with_name("log").read_text()

    return run_policy


def with_verdicts(run: RunData, change: Callable[[Any], Any]) -> RunData:
    """Return the run with each verdict replaced by what ``change`` makes of it."""
    instances = []
    for instance in run.instances:
        verdict = change(instance.verdict)
        verdicts = {}
        for number, recorded in instance.verdicts.items():
            verdicts[number] = change(recorded)
        instances.append(instance.but(verdicts=verdicts, verdict=verdict))
    return replace(run, instances=tuple(instances))


def test_no_policy_is_shown_a_verdict(watch: Callable[..., str]) -> None:
    """All verdicts are turned round, and every policy sees the same and decides the same."""

    def opposite(verdict: Any) -> Any:
        if verdict.status is VerdictStatus.RESOLVED:
            return verdict.but(status=VerdictStatus.UNRESOLVED)
        return verdict.but(status=VerdictStatus.RESOLVED)

    run = WORLD.run(20)
    other = with_verdicts(run, opposite)
    assert watch(run) == watch(other)
    assert len(watch(run).splitlines()) == 20 * 7
    plain = results(run, *EVERY)
    changed = results(other, *EVERY)
    for name in EVERY:
        for figure in ("attempts", "calls", "dollars", "hours"):
            expected = plain[name][figure]
            assert changed[name][figure] == expected, (name, figure)
    assert plain["first"]["resolved"] != changed["first"]["resolved"]


@pytest.mark.parametrize("lost", ["attempts", "verdicts"])
def test_the_range_holds_the_truth(lost: str) -> None:
    """Attempts or verdicts are taken out of a complete recording, at random."""
    run = WORLD.run(40)
    dice = Random(5)
    complete = results(run, *EVERY)
    instances = []
    for instance in run.instances:
        attempts = instance.attempts
        verdicts = dict(instance.verdicts)
        if lost == "attempts":
            attempts = attempts[: dice.randint(1, 6)]
        else:
            for number in instance.verdicts:
                if dice.random() < 0.4:
                    del verdicts[number]
        instances.append(instance.but(attempts=attempts, verdicts=verdicts))
    incomplete = replace(run, instances=tuple(instances))
    part = results(incomplete, *EVERY)
    ranges = 0
    for name in EVERY:
        true = complete[name]
        seen = part[name]
        low, high = limits(seen["resolved"])
        assert low <= true["resolved"]["low"] <= high, name
        dollars = seen["dollars"]
        assert dollars["value"] <= true["dollars"]["value"]
        assert dollars["complete"] is (dollars == true["dollars"])
        ranges += seen["unknown"] > 0
        assert seen["front"] != "yes" or not seen["unknown"]
    assert ranges > 4
    highest = complete["oracle"]["resolved"]["low"]
    assert part["oracle"]["resolved"]["high"] >= highest


def test_an_attempt_that_was_never_made_is_not_guessed() -> None:
    rejected = an_attempt(
        1,
        status="tests_failed",
        test_outcome=False,
        model_patch="q",
    )
    run = a_run(
        an_instance("own__thing-1", attempts=TWO),
        an_instance(
            "own__thing-2",
            attempts=(rejected,),
            model_patch="q",
            resolved=False,
        ),
    )
    report = lab([run], "plausible", "first", "all")
    policies = {row["name"]: row for row in report["policies"]}
    plausible = policies["plausible"]
    assert limits(plausible["resolved"]) == (0.5, 1)
    assert plausible["dollars"] == {"value": 2, "complete": False}
    first = policies["first"]
    assert first["resolved"]["low"] == 0.5
    assert first["unknown"] == 0
    assert policies["all"]["unknown"] == 1
    for choice in ("oracle", "least_bad"):
        shares = [limits(row[choice]) for row in report["best"]]
        assert shares == [(0.5, 0.75), (0.5, 1)]


def test_costs_are_a_bound_where_only_some_orders_ask_for_a_missing_attempt() -> None:
    run = a_run(
        an_instance("own__thing-1", attempts=TWO),
        an_instance("own__thing-2", attempts=(an_attempt(1),)),
    )
    rows = results(run, "random", "total-99")
    assert rows["random"]["unknown"] == 1
    assert not rows["random"]["dollars"]["complete"]
    low, high = limits(rows["random"]["resolved"])
    assert 0.5 < low < 1 == high
    assert rows["total-99"]["dollars"]["complete"]


def test_unknown_dollars_may_end_the_work_before_any_instance() -> None:
    free = an_instance("own__thing-1", attempts=(an_attempt(cost=None),))
    run = a_run(free, free.but(instance_id="own__thing-2"))
    rows = results(run, "total-5", "first")
    assert limits(rows["total-5"]["resolved"]) == (0, 1)
    assert rows["first"]["resolved"]["low"] == 1
    assert not rows["first"]["dollars"]["complete"]


def test_an_attempt_that_infrastructure_ended_counts_as_never_made() -> None:
    ended = an_attempt(2, try_=2, status=AttemptStatus.INFRA_ERROR.value)
    instance = an_instance(attempts=(an_attempt(1), ended))
    report = lab([a_run(instance)])
    assert report["turns"] == [{"model": "m", "try": 1}]
    assert report["attempts"] == 1


def test_a_selected_instance_without_a_prediction_is_unknown() -> None:
    names = ("own__thing-1", "own__thing-2")
    run = a_run(an_instance(names[0]), selected=names)
    rows = lab([run], "first")["policies"]
    assert len(rows) == 3
    for row in rows:
        assert limits(row["resolved"]) == (0.5, 1)
        assert not row["dollars"]["complete"]


def test_runs_together() -> None:
    """Attempts of a second run follow; its other instances share their turns with the first."""
    first = a_run(an_instance("own__thing-1", attempts=TWO))
    others = (an_attempt(1), an_attempt(2, model="n"))
    again = an_instance("own__thing-1", attempts=others)
    two = a_run(again, an_instance("own__thing-2"), name="s")
    report = lab([first, two], "all")
    assert report["turns"] == [
        {"model": "m", "try": 1},
        {"model": "m", "try": 2},
        {"model": "m", "try": 3},
        {"model": "n", "try": 1},
    ]
    assert report["runs"] == "r + s"
    assert report["instances"] == 2
    assert report["attempts"] == 5
    attempts = [row["attempts"]["value"] for row in report["policies"]]
    assert attempts == [2, 5, 5]
    for row in report["policies"]:
        assert row["attempts"]["complete"] is False


def test_equal_patches_are_those_with_the_same_lines(watch: Callable[..., str]) -> None:
    text = (
        "diff --git a/a b/a\nindex 1..2 100644\n--- a/a\n+++ b/a\n@@ -1 +1 @@\n-1\n+2\n"
    )
    moved = text.replace("1..2", "3..4")
    moved = moved.replace("@@ -1 +1 @@", "@@ -9,2 +9,2 @@ def f():")
    other = text.replace("+2", "+ 2")
    attempts = attempts_of(text, moved, other, "")
    run = a_run(an_instance(attempts=attempts, model_patch=text))
    classes = "[('1', None), ('1', None), ('2', None), ('', None)]"
    assert watch(run, "classes") == classes


def test_classes_and_scripts_are_those_of_recorded_evidence(
    watch: Callable[..., str],
) -> None:
    classes = {"a": [1, 3], "b": [2]}
    outcomes = {"a": 0, "b": 2}
    instance = an_instance(
        attempts=attempts_of("p1", "p2", "p3"),
        model_patch="p1",
        evidence=evidence_of(classes, outcomes, [2, 2], [0, 0]),
    )
    run = a_run(instance)
    assert watch(run, "classes") == "[('a', ['s1']), ('b', []), ('a', ['s1'])]"
    assert "evidence" in results(run), "a policy for it is offered"


def test_scripts_are_paid_by_who_uses_them() -> None:
    """The run and ``evidence`` pay for scripts, but not where there is one candidate."""
    call = Reply("x", cost=Decimal("0.25"), seconds=3600.0)
    writer = an_attempt(0, model="w", calls=(call, call))
    classes = {"p1": [1], "p2": [2]}
    outcomes = {"p1": 2, "p2": 0}
    evidence = evidence_of(classes, outcomes, [2, 2])
    attempts = attempts_of("p1", "p2", seconds=0.0)
    written: dict[str, Any] = {
        "evidence": evidence,
        "writers": (writer,),
    }
    two = an_instance(
        attempts=attempts,
        attempt=2,
        model_patch="p2",
        **written,
    )
    rows = results(a_run(two), "evidence", "all", "first")
    for policy in ("recorded", "evidence"):
        row = rows[policy]
        assert row["dollars"]["value"] == 2.5
        assert row["calls"]["value"] == 2
        assert row["hours"]["value"] == 2
    for policy in ("all", "oracle"):
        assert rows[policy]["dollars"]["value"] == 2
    assert limits(rows["evidence"]["resolved"]) == (1, 1)
    alone = an_instance(
        attempts=attempts[:1],
        model_patch="p1",
        **written,
    )
    rows = results(a_run(alone), "evidence")
    assert rows["evidence"]["dollars"]["value"] == 1


@pytest.mark.parametrize("require_tests", [False, True])
def test_the_lab_selects_as_the_harness_does(require_tests: bool) -> None:
    """Of random attempts, that alone is resolved which the harness would predict."""
    outcomes = product((True, None, False), repeat=3)
    notes = ("", "no test could tell")
    flags = (False, True)
    kinds = product((True, False), flags, flags, notes, outcomes)
    every = list(kinds)
    dice = Random(2)
    instances = []
    chosen = 0
    for number in range(250):
        attempts = []
        for n in range(1, 6):
            has_patch, marked, doubted, why, checks = dice.choice(every)
            edit, lint, test = checks
            candidate = make_candidate(
                n,
                edit,
                lint,
                test,
                patch=f"p{n}" if has_patch else "",
                edits_test_configuration=marked,
                tests_doubted=doubted,
                untested=why,
                try_=n,
                model="m",
                edit_format="diff",
            )
            attempts.append(candidate)
        winner = choose(attempts, require_tests=require_tests).winner
        chosen += winner is not None
        name = f"own__thing-{number}"
        first = attempts[0]
        verdicts = {}
        for attempt in attempts:
            verdict = a_verdict(name, resolved=attempt is winner)
            verdicts[attempt.attempt] = verdict
        instance = an_instance(
            name,
            attempts=tuple(attempts),
            model_patch=first.model_patch,
            verdicts=verdicts,
            resolved=first is winner if first.patch else None,
        )
        instances.append(instance)
    described = {"config": {"require_tests": require_tests}}
    run = a_run(*instances, described=described)
    row = results(run, "all")["all"]
    assert row["resolved"]["low"] == chosen / 250
    assert row["resolved"]["high"] == chosen / 250
    assert 200 < chosen < 250


def test_cheaper_and_as_good_is_the_front() -> None:
    names = ("first", "plausible", "plausible-6", "all")
    world = World(lambda *_: 0.5, accepted=0.0)
    rows = results(world.run(50), *names)
    assert rows["first"]["front"] == "yes"
    assert rows["plausible"]["front"] == "yes"
    assert rows["plausible-6"]["front"] == "yes", "equal ones share their place"
    assert rows["all"]["front"] == "no", "as good as plausible, and dearer"
    assert rows["oracle"]["front"] == "no"
    assert rows["recorded"]["front"] == "no"


def test_the_same_seed_gives_the_same_report() -> None:
    run = WORLD.run(10)
    assert lab([run], samples=50) == lab([run], samples=50)


def test_a_choice_of_nothing_is_unresolved(tmp_path: Path) -> None:
    path = tmp_path / "none.py"
    path.write_text(
        "from swe_retry.study.lab.policies import Chosen\ndef none(seen): return Chosen()"
    )
    policy = f"{path}:none"
    row = results(WORLD.run(3), policy)[policy]
    assert limits(row["resolved"]) == (0, 0)
    assert row["attempts"] == {"value": 0, "complete": True}
