"""In a generated world, policies give what theory says, also where everything misleads."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.labworld import World, lab, limits, results

pytestmark = pytest.mark.run

MANY = 250
FEW = 150


def assert_near(share: dict[str, Any], expected: float) -> None:
    assert share["low"] == share["high"]
    interval = share["interval"]
    assert interval["low"] <= expected <= interval["high"]


def constant(chance: float) -> World:
    return World(lambda model, number: chance)


def test_pass_at_k_and_a_choice_without_knowledge() -> None:
    """All attempts are accepted, so that best@k is pass@1 for each k."""
    run = constant(0.4).run(MANY)
    best = lab([run], "first")["best"]
    numbers = [row["k"] for row in best]
    assert numbers == [1, 2, 3, 4, 5, 6]
    for row in best:
        pass_at_k = 1 - 0.6 ** row["k"]
        assert row["oracle"]["low"] == pytest.approx(pass_at_k, abs=0.04)
        assert row["least_bad"]["low"] == pytest.approx(0.4, abs=0.04)
    first = best[0]
    assert first["oracle"]["low"] == first["least_bad"]["low"]


def test_intervals_and_tests_are_right_as_often_as_they_say() -> None:
    """95 % of the intervals hold the truth, and 5 % of equal policies seem to differ."""
    worlds = 30
    hits = 0
    wrong = 0
    for seed in range(worlds):
        world = World(lambda *_: 0.4, tries=1, cost=None)
        run = world.run(60, seed)
        report = lab([run], "reversed")
        interval = report["best"][1]["oracle"]["interval"]
        hits += interval["low"] <= 0.64 <= interval["high"]
        p_values = [row["p_corrected"] or 1 for row in report["policies"]]
        wrong += min(p_values) < 0.05
    assert 0.87 <= hits / worlds < 1
    assert wrong / worlds <= 0.12


def test_stopping_at_the_first_accepted_attempt() -> None:
    """Attempts are rejected with chance r; the work ends as a geometric series cut at n."""
    right = 0.3
    accepted = 0.25
    world = World(lambda model, number: right, accepted=accepted)
    lengths = {
        "plausible": 6,
        "random": 6,
        "reversed": 6,
        "plausible-4": 4,
        "first": 1,
    }
    r = (1 - right) * (1 - accepted)
    rows = results(world.run(MANY), *lengths)
    for policy, n in lengths.items():
        row = rows[policy]
        attempts = (1 - r**n) / (1 - r)
        assert_near(row["resolved"], right * attempts)
        made = row["attempts"]["value"]
        assert made / MANY == pytest.approx(attempts, rel=0.06)
        assert row["dollars"] == row["attempts"]
        assert row["hours"]["value"] == pytest.approx(made / 60)


def test_each_model_alone_and_their_order() -> None:
    solves = {"a": 0.2, "b": 0.6}
    world = World(lambda model, number: solves[model])
    chances = {
        "only-a": 0.2,
        "only-b": 0.6,
        "first": 0.2,
        "reversed": 0.6,
    }
    rows = results(world.run(FEW), *chances)
    for policy, chance in chances.items():
        assert_near(rows[policy]["resolved"], chance)


@pytest.mark.parametrize("chance", [0.7, 0.5, 0.2])
def test_scripts_decide_by_their_majority(chance: float) -> None:
    """One of two patches is right, and each of three scripts takes its side with ``chance``."""
    solves = {"a": 0.0, "b": 1.0}
    scripts = (chance, chance, chance)
    world = World(
        lambda model, _: solves[model],
        tries=1,
        shared=1.0,
        scripts=scripts,
    )
    rows = results(world.run(FEW), "evidence", "all")
    all_three = chance**3
    two_of_three = 3 * chance**2 * (1 - chance)
    assert_near(rows["evidence"]["resolved"], all_three + two_of_three)
    # The first plausible attempt is the wrong one.
    assert rows["all"]["resolved"]["high"] == 0


def test_all_candidates_and_all_scripts_may_be_wrong() -> None:
    """The honest failure: nothing that the harness sees differs from a success."""
    world = World(lambda *_: 0.0, shared=1.0, scripts=(0.0, 0.0))
    rows = results(world.run(60), "evidence", "all", "plausible")
    for each in rows.values():
        assert limits(each["resolved"]) == (0, 0)


def test_a_shared_mistake_outvotes_a_right_patch() -> None:
    """Where models err together, the largest class is worse than any attempt."""
    together = World(lambda *_: 0.3, shared=1.0)
    apart = World(lambda *_: 0.3, shared=0.0)
    report = lab([together.run(FEW)], "first")
    best = report["best"][-1]
    assert best["most_agreed"]["high"] < best["least_bad"]["low"]
    report = lab([apart.run(FEW)], "first")
    best = report["best"][-1]
    assert best["most_agreed"]["low"] > best["least_bad"]["high"]


def test_dollars_in_all_end_the_work() -> None:
    """Every instance costs $1 and is resolved, so half of the dollars resolve half of them."""
    run = constant(1.0).run(100)
    rows = results(run, "total-50", "total-1000", "total-0")
    half = rows["total-50"]
    assert half["resolved"]["low"] == pytest.approx(0.5)
    assert half["dollars"]["value"] == pytest.approx(50)
    assert rows["total-1000"]["resolved"]["low"] == 1
    assert rows["total-0"]["resolved"]["high"] == 0
    assert rows["total-0"]["dollars"]["value"] == 0


def test_a_budget_of_an_instance_ends_its_work() -> None:
    accepting = constant(0.0).run(10)
    rows = results(accepting, "all", "budget-2", "plausible")
    assert rows["all"]["dollars"]["value"] == 60
    rejecting = World(lambda *_: 0.0, accepted=0.0)
    rows = results(rejecting.run(10), "budget-2.5", "budget-2")
    assert rows["budget-2.5"]["dollars"]["value"] == 30
    assert rows["budget-2"]["dollars"]["value"] == 20
