"""The lab says what a recording tells: ties, bounds, orders, costs, and weights."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean

import pytest

from bench.attempts import choose_by_evidence, class_weights
from core.errors import UserError
from reports.lab.command import lab_text
from reports.lab.picture import write_pictures
from reports.lab.recorded import lab_data
from tests.reports.lab.test_replay import WORLD, attempts_of, evidence_of
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
        patches = {1: "+1\n", 2: "+2\n", 3: "+3\n"}
        classes = {patches[n]: [n] for n in patches}
        evidence = evidence_of(classes, dict.fromkeys(classes, 2), [2, 2])
        attempts = attempts_of(*patches.values())
        verdict = a_verdict(instance.instance_id, resolved=False)
        verdicts = dict(instance.verdicts) | {3: verdict}
        changes = {"attempts": attempts, "evidence": evidence, "verdicts": verdicts}
        instances.append(instance.but(**changes))
    for row in lab([a_run(*instances)], "first")["best"]:
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
    fit = stated.fit.model_copy(
        update={
            "strengths": {
                "a": 0.02,
                "b": 50.0,
            }
        }
    )
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
            resolved = attempt.attempt == number
            verdicts[attempt.attempt] = a_verdict(
                instance.instance_id, resolved=resolved
            )
        changes = {"verdicts": verdicts, "attempt": number}
        patch = choice.winner.model_patch
        changes |= {"belief": choice.belief, "model_patch": patch}
        changes |= {"verdict": verdicts[number]}
        instances.append(instance.but(**changes))
    assert limits(results(a_run(*instances), "evidence")["evidence"]["resolved"]) == (
        1,
        1,
    )
    assert "b" in chosen


def test_bounds_and_no_test_while_an_outcome_is_unknown() -> None:
    """A run that stopped says nothing of other orders but bounds, and these hold the truth."""
    world = World(lambda model, _: {"a": 0.1, "b": 0.6}[model], tries=1)
    full = world.run(60)
    instances = []
    for instance in full.instances:
        keeps_all = instance.resolved or instance.instance_id.endswith("7")
        attempts = instance.attempts if keeps_all else instance.attempts[:1]
        instances.append(instance.but(attempts=attempts))
    truth = results(full, "reversed")["reversed"]
    assert truth["p_value"] < 0.001
    row = results(a_run(*instances), "reversed")["reversed"]
    assert row["p_value"] is row["p_corrected"] is row["difference"]["interval"] is None
    bounds = row["difference"]
    assert bounds["low"] < truth["difference"]["low"] < bounds["high"]
    report = lab([a_run(*instances)], "reversed")
    text = lab_text(report, lab_data([a_run(*instances)], 10))
    assert " points, unknown |" in text
    assert "ignificant" not in text


def test_what_is_not_recorded_does_not_change_the_choice_of_all() -> None:
    """A run that stopped at the first plausible attempt tells what ``all`` predicts."""
    stopped = []
    for instance in WORLD.run(40).instances:
        last = instance.attempt if instance.chosen.plausible else 6
        stopped.append(instance.but(attempts=instance.attempts[:last]))
    rows = results(a_run(*stopped), "all", "plausible", "evidence")
    assert rows["all"]["unknown"] == 0
    assert rows["all"]["resolved"] == rows["plausible"]["resolved"]
    assert not rows["all"]["dollars"]["complete"]
    assert rows["all"]["p_value"] == 1
    assert rows["evidence"]["unknown"] > 0


def test_attempts_that_were_told_of_earlier_ones_are_not_reordered() -> None:
    instances = []
    for instance in World(lambda *_: 0.4, accepted=0.4).run(10).instances:
        attempts = []
        for attempt in instance.attempts:
            earlier = tuple(range(1, attempt.attempt))
            attempts.append(attempt.but(told_of=earlier))
        instances.append(instance.but(attempts=tuple(attempts)))
    report = lab([a_run(*instances)])
    names = {row["name"] for row in report["policies"]}
    assert {"only-b", "random", "reversed"} == set(report["left_out"]) - {"only-a"}
    assert {"first", "plausible-2", "plausible", "all"} < names
    assert not names & set(report["left_out"])
    assert report["best"] == []
    text = lab_text(report, lab_data([a_run(*instances)], 10))
    line = "Attempts were told of earlier ones, so policies that reorder them are left out: "
    assert f"\n{line}" in text
    assert "best@k" not in text


def test_lower_bounds_of_costs_do_not_stand_among_exact_ones() -> None:
    stopped = []
    for instance in WORLD.run(20).instances:
        last = 6 if instance.instance_id.endswith("7") else 2
        stopped.append(instance.but(attempts=instance.attempts[:last]))
    data = lab_data([a_run(*stopped)], 10)
    lines = lab_text(lab([a_run(*stopped)]), data).splitlines()
    table = [line for line in lines if line.startswith("| ") and "$" in line]
    bounds = ["≥ $" in line for line in table]
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
        report = lab([world.run(20, seed)], *names, samples=1)
        rows = {row["name"]: row for row in report["policies"]}
        best.append(max(rows[name]["resolved"]["low"] for name in names))
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
        for equal, weight in zip(
            instance.evidence.classes, weights.classes, strict=True
        ):
            expected.append((weight - (equal.id == RIGHT)) ** 2)
    report = lab([a_run(*instances)], "first")
    weights = report["weights"]
    assert weights["classes"] == len(expected)
    assert weights["brier"] == pytest.approx(fmean(expected))
    assert sum(row["classes"] for row in weights["bins"]) == len(expected)
    shares = [row["right"] for row in weights["bins"]]
    assert shares[0] < 0.3 < shares[-1]
    text = lab_text(report, lab_data([a_run(*instances)], 10))
    assert "\nBrier's score 0." in text
    paths = write_pictures(report, tmp_path)
    assert paths == [tmp_path / "pareto.svg", tmp_path / "weights.svg"]
    assert "Brier" in paths[1].read_text()
