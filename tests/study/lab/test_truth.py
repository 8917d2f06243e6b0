"""The lab says what a recording tells: ties, bounds, orders, costs, and weights."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean

import pytest

from swe_retry.attempts.evidence.choice import choose_by_evidence, class_weights
from swe_retry.cli.lab import lab_text
from swe_retry.core.errors import UserError
from swe_retry.study.lab.picture import write_pictures
from swe_retry.study.lab.recorded import lab_data
from tests.study.lab.test_replay import WORLD, attempts_of, evidence_of
from tests.support.labworld import RIGHT, World, lab, limits, results
from tests.support.rundata import a_run, a_verdict


def test_equally_good_attempts_count_in_part_also_by_agreement() -> None:
    """Where all patches differ, agreement says nothing, whatever scripts say."""
    world = World(
        lambda *_: 0.4,
        accepted=1.0,
        scripts=(0.5, 0.5),
        models=("a",),
    )
    instances = []
    for instance in world.run(40).instances:
        classes = {"+1\n": [1], "+2\n": [2], "+3\n": [3]}
        outcomes = dict.fromkeys(classes, 2)
        verdict = a_verdict(instance.instance_id, resolved=False)
        different = instance.but(
            attempts=attempts_of(*classes),
            evidence=evidence_of(classes, outcomes, [2, 2]),
            verdicts={**instance.verdicts, 3: verdict},
        )
        instances.append(different)
    report = lab([a_run(*instances)], "first")
    for row in report["best"]:
        assert row["most_agreed"] == row["least_bad"]


def test_evidence_is_refused_where_no_script_was_recorded() -> None:
    run = World(lambda *_: 0.5, shared=1.0).run(3)
    assert "evidence" not in results(run)
    with pytest.raises(UserError, match="the run has recorded none"):
        results(run, "evidence")


def test_evidence_chooses_as_the_harness_with_the_fit_of_the_run() -> None:
    """That attempt alone is resolved which the harness would predict."""
    first = WORLD.run(1).instances[0]
    stated = choose_by_evidence(first.attempts, first.evidence).belief
    assert stated
    strengths = {"a": 0.02, "b": 50.0}
    fit = stated.fit.model_copy(update={"strengths": strengths})
    chosen = set()
    instances = []
    for instance in WORLD.run(30).instances:
        assert instance.evidence
        choice = choose_by_evidence(instance.attempts, instance.evidence, fit)
        assert choice.winner
        chosen.add(choice.winner.model)
        number = choice.winner.attempt
        verdicts = {}
        for attempt in instance.attempts:
            verdicts[attempt.attempt] = a_verdict(
                instance.instance_id,
                resolved=attempt.attempt == number,
            )
        predicted = instance.but(
            attempt=number,
            belief=choice.belief,
            model_patch=choice.winner.model_patch,
            verdict=verdicts[number],
            verdicts=verdicts,
        )
        instances.append(predicted)
    rows = results(a_run(*instances), "evidence")
    assert limits(rows["evidence"]["resolved"]) == (1, 1)
    assert "b" in chosen


def test_bounds_and_no_test_while_an_outcome_is_unknown() -> None:
    """A run that stopped says nothing of other orders but bounds, and these hold the truth."""
    chances = {"a": 0.1, "b": 0.6}
    world = World(lambda model, _: chances[model], tries=1)
    full = world.run(60)
    instances = []
    for instance in full.instances:
        attempts = instance.attempts
        keeps_all = instance.resolved or instance.instance_id.endswith("7")
        if not keeps_all:
            attempts = attempts[:1]
        instances.append(instance.but(attempts=attempts))
    truth = results(full, "reversed")["reversed"]
    assert truth["p_value"] < 0.001
    run = a_run(*instances)
    row = results(run, "reversed")["reversed"]
    bounds = row["difference"]
    assert row["p_value"] is None
    assert row["p_corrected"] is None
    assert bounds["interval"] is None
    difference = truth["difference"]["low"]
    assert bounds["low"] < difference < bounds["high"]
    report = lab([run], "reversed")
    text = lab_text(report, lab_data([run], 10))
    assert " points, unknown |" in text
    assert "ignificant" not in text


def test_what_is_not_recorded_does_not_change_the_choice_of_all() -> None:
    """A run that stopped at the first plausible attempt tells what ``all`` predicts."""
    stopped = []
    for instance in WORLD.run(40).instances:
        attempts = instance.attempts
        chosen = instance.chosen
        assert chosen is not None
        if chosen.plausible:
            attempts = attempts[: instance.attempt]
        stopped.append(instance.but(attempts=attempts))
    rows = results(a_run(*stopped), "all", "plausible", "evidence")
    assert rows["all"]["unknown"] == 0
    assert rows["all"]["resolved"] == rows["plausible"]["resolved"]
    assert not rows["all"]["dollars"]["complete"]
    assert rows["all"]["p_value"] == 1
    assert rows["evidence"]["unknown"] > 0


def test_attempts_that_were_told_of_earlier_ones_are_not_reordered() -> None:
    instances = []
    world = World(lambda *_: 0.4, accepted=0.4)
    for instance in world.run(10).instances:
        attempts = []
        for attempt in instance.attempts:
            earlier = tuple(range(1, attempt.attempt))
            attempts.append(attempt.but(told_of=earlier))
        instances.append(instance.but(attempts=tuple(attempts)))
    run = a_run(*instances)
    report = lab([run])
    names = {row["name"] for row in report["policies"]}
    left_out = set(report["left_out"])
    assert left_out - {"only-a"} == {"only-b", "random", "reversed"}
    assert {"first", "plausible-2", "plausible", "all"} < names
    assert not names & left_out
    assert report["best"] == []
    text = lab_text(report, lab_data([run], 10))
    line = "Attempts were told of earlier ones, so policies that reorder them are left out: "
    assert f"\n{line}" in text
    assert "best@k" not in text


def test_lower_bounds_of_costs_do_not_stand_among_exact_ones() -> None:
    stopped = []
    for instance in WORLD.run(20).instances:
        attempts = instance.attempts
        if not instance.instance_id.endswith("7"):
            attempts = attempts[:2]
        stopped.append(instance.but(attempts=attempts))
    run = a_run(*stopped)
    text = lab_text(lab([run]), lab_data([run], 10))
    bounds = []
    for line in text.splitlines():
        if line.startswith("| ") and "$" in line:
            bounds.append("≥ $" in line)
    assert bounds == sorted(bounds)
    assert True in bounds
    assert False in bounds


def test_the_best_of_equal_policies_is_not_better_by_cross_validation() -> None:
    """The best of nine equal policies looks better by chance; cross-validation does not."""
    best = []
    validated = []
    models = tuple("abcdefghi")
    names = [f"only-{model}" for model in models]
    for seed in range(12):
        world = World(lambda *_: 0.35, models=models, tries=1)
        run = world.run(20, seed)
        report = lab([run], *names, samples=1)
        shares = []
        for row in report["policies"]:
            if row["name"] in names:
                shares.append(row["resolved"]["low"])
        assert len(shares) == len(names)
        best.append(max(shares))
        validated.append(report["cross_validated"]["low"])
    assert fmean(best) > 0.45
    assert fmean(validated) == pytest.approx(0.35, abs=0.04)


def test_the_reliability_of_weights_and_briers_score(tmp_path: Path) -> None:
    """Where a class is right is known, so its weight can be compared with how often it is."""
    run = WORLD.run(60)
    assert lab([run], "first")["weights"] is None, "no weights are recorded"
    instances = []
    expected = []
    for instance in run.instances:
        assert instance.evidence
        choice = choose_by_evidence(instance.attempts, instance.evidence)
        instances.append(instance.but(belief=choice.belief))
        weights = class_weights(instances[-1])
        assert weights
        classes = instance.evidence.classes
        for equal, weight in zip(classes, weights.classes, strict=True):
            is_right = equal.id == RIGHT
            expected.append((weight - is_right) ** 2)
    run = a_run(*instances)
    report = lab([run], "first")
    weights = report["weights"]
    assert weights["classes"] == len(expected)
    assert weights["brier"] == pytest.approx(fmean(expected))
    numbers = [row["classes"] for row in weights["bins"]]
    assert sum(numbers) == len(expected)
    shares = [row["right"] for row in weights["bins"]]
    assert shares[0] < 0.3 < shares[-1]
    text = lab_text(report, lab_data([run], 10))
    assert "\nBrier's score 0." in text
    paths = write_pictures(report, tmp_path)
    assert paths == [tmp_path / "pareto.svg", tmp_path / "weights.svg"]
    assert "Brier" in paths[1].read_text()
