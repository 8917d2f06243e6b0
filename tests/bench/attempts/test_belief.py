"""The belief about classes of candidates: properties that hold for all evidence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.attempts.evidence.belief import (
    RunArrays,
    best_class,
    expected_gain,
    hypothesis_weights,
    weigh,
)
from bench.attempts.evidence.facts import (
    BELIEVED,
    ClassFacts,
    InstanceFacts,
    ScriptFacts,
    stated_fit,
)
from bench.attempts.evidence.fit import fit_run

FIT = stated_fit()
MODELS = ("a", "b", "c")


@st.composite
def instances(draw: st.DrawFn, *, smallest: int = 2) -> InstanceFacts:
    size = draw(st.integers(smallest, 5))
    numbers = st.integers(0, size - 1)
    classes = []
    for _ in range(size):
        models = draw(st.sets(st.sampled_from(MODELS), min_size=1))
        witnesses = {model: draw(st.integers(1, 4)) for model in sorted(models)}
        failing = draw(st.none() | st.integers(0, 5))
        classes.append(ClassFacts(witnesses, failing))
    scripts = []
    for _ in range(draw(st.integers(0, 5))):
        passed = frozenset(draw(st.sets(numbers)))
        author = draw(st.none() | numbers)
        scripts.append(ScriptFacts(passed, author))
    return InstanceFacts(tuple(classes), tuple(scripts))


def choose(instance: InstanceFacts) -> int:
    (weights,) = weigh([instance], FIT)
    return best_class(instance, weights, FIT, range(len(instance.classes)))


def change_class(
    instance: InstanceFacts, number: int, facts: ClassFacts
) -> InstanceFacts:
    classes = list(instance.classes)
    classes[number] = facts
    return replace(instance, classes=tuple(classes))


def passed_like(instance: InstanceFacts, number: int, other: int) -> list[ScriptFacts]:
    """Return the scripts, which the class ``other`` passes where ``number`` does."""
    scripts = []
    for script in instance.scripts:
        passed = script.passed - {other}
        if number in script.passed:
            passed |= {other}
        if script.author in (number, other):
            script = replace(script, author=None)
        scripts.append(replace(script, passed=passed))
    return scripts


def twins(instance: InstanceFacts) -> InstanceFacts:
    """Return the instance with equal evidence for its first two classes."""
    instance = change_class(instance, 1, instance.classes[0])
    return replace(instance, scripts=tuple(passed_like(instance, 0, 1)))


@given(instances())
def test_all_hypotheses_and_none_sum_to_one(instance: InstanceFacts) -> None:
    ((_, weights, sets),) = hypothesis_weights([instance], FIT)
    assert weights.sum() == pytest.approx(1)
    assert not sets[0].any()
    (beliefs,) = weigh([instance], FIT)
    assert beliefs.none == pytest.approx(weights[0])
    assert beliefs.none + max(beliefs.classes) <= 1 + 1e-9


@given(instances(), st.integers(0, 3), st.integers(1, 3))
def test_more_failing_tests_never_win(
    instance: InstanceFacts, fewer: int, difference: int
) -> None:
    first = instance.classes[0]
    instance = twins(change_class(instance, 0, replace(first, failing=fewer)))
    worse = replace(first, failing=fewer + difference)
    assert choose(change_class(instance, 0, worse)) != 0


@given(instances(), st.integers(0, 4))
def test_passing_more_scripts_never_loses(instance: InstanceFacts, more: int) -> None:
    instance = twins(instance)
    scripts = list(instance.scripts)
    for position in range(len(scripts)):
        if position == more or not scripts:
            passed = scripts[position].passed | {0}
            scripts[position] = replace(scripts[position], passed=passed - {1})
    changed = replace(instance, scripts=tuple(scripts))
    if changed.passed_by(0) > changed.passed_by(1):
        assert choose(changed) != 1


@given(instances(), st.sampled_from(MODELS))
def test_a_copy_lifts_no_class_above_one_of_more_models(
    instance: InstanceFacts, model: str
) -> None:
    first = ClassFacts({model: 1}, instance.classes[0].failing)
    second = ClassFacts({"a": 1, "b": 1}, instance.classes[1].failing)
    instance = change_class(change_class(instance, 0, first), 1, second)
    copied = change_class(instance, 0, replace(first, witnesses={model: 4}))
    (before,) = weigh([instance], FIT)
    (after,) = weigh([copied], FIT)
    if before.classes[0] < before.classes[1]:
        assert after.classes[0] < after.classes[1]


@given(instances(), st.booleans())
def test_a_script_of_all_or_none_changes_no_order(
    instance: InstanceFacts, passed_by_all: bool
) -> None:
    all_classes = frozenset(range(len(instance.classes)))
    script = ScriptFacts(all_classes if passed_by_all else frozenset())
    more = replace(instance, scripts=(*instance.scripts, script))
    (before,) = weigh([instance], FIT)
    (after,) = weigh([more], FIT)
    for number in all_classes:
        for other in all_classes:
            gap = before.classes[number] - before.classes[other]
            gap_after = after.classes[number] - after.classes[other]
            assert not (gap > 1e-6 and gap_after < -1e-6)


@given(instances(), st.randoms(use_true_random=False))
def test_names_and_order_change_nothing(
    instance: InstanceFacts, random: st.DataObject
) -> None:
    order = list(range(len(instance.classes)))
    random.shuffle(order)  # type: ignore[attr-defined]
    scripts = []
    for script in instance.scripts:
        passed = frozenset(order.index(number) for number in script.passed)
        author = script.author
        if author is not None:
            author = order.index(author)
        scripts.append(ScriptFacts(passed, author))
    random.shuffle(scripts)  # type: ignore[attr-defined]
    classes = []
    for number in order:
        facts = instance.classes[number]
        named = {f"x{model}": count for model, count in facts.witnesses.items()}
        classes.append(replace(facts, witnesses=named))
    (weights,) = weigh([instance], FIT)
    (others,) = weigh([InstanceFacts(classes, scripts)], FIT)
    assert others.none == pytest.approx(weights.none)
    for position, number in enumerate(order):
        assert others.classes[position] == pytest.approx(weights.classes[number])


@given(instances(smallest=1))
def test_one_candidate_wins_with_any_evidence(instance: InstanceFacts) -> None:
    alone = InstanceFacts(instance.classes[:1], [ScriptFacts(frozenset())])
    assert choose(alone) == 0


@given(st.lists(instances(), max_size=6))
def test_a_fit_is_within_its_bounds(run: Sequence[InstanceFacts]) -> None:
    if run:
        fit = fit_run(run)
        assert sum(fit.shares.values()) == pytest.approx(1)
        assert 0 < fit.detection < 1
        assert all(strength > 0 for strength in fit.strengths.values())


@pytest.mark.parametrize("kind", list(BELIEVED))
def test_each_kind_of_script_has_some_result_whatever_is_right(kind: str) -> None:
    """The likelihoods of all results of a script sum to one under each hypothesis."""
    classes = [
        ClassFacts({"a": 2}, 0),
        ClassFacts({"b": 1}, 1),
        ClassFacts({"a": 1}, 0),
    ]
    scripts = []
    for size in range(len(classes) + 1):
        for passed in combinations(range(len(classes)), size):
            scripts.append(ScriptFacts(frozenset(passed)))
    fit = FIT.model_copy(update={"shares": {kind: 1.0}})
    (batch,) = RunArrays.of([InstanceFacts(classes, scripts)]).batches
    sums = batch.likelihoods(fit).by_kind[kind].sum(axis=1)
    assert sums == pytest.approx(1.0)


def test_a_script_does_not_speak_for_its_author() -> None:
    """A script that only its author's class passes leaves the weights as they are."""
    classes = [ClassFacts({"a": 1}, 0), ClassFacts({"b": 1}, 0)]
    own = ScriptFacts(frozenset({0}), author=0)
    assert weigh([InstanceFacts(classes, [own])], FIT) == weigh(
        [InstanceFacts(classes)], FIT
    )


def test_noise_is_not_believed() -> None:
    """Scripts that pass and fail regardless of all else are taken as noise."""
    source = Random(1)
    run = []
    for _ in range(400):
        classes = [ClassFacts({"a": 1, "b": 1}, 0)]
        classes += [ClassFacts({"a": 1}, failing) for failing in (0, 1, 2)]
        scripts = []
        for _ in range(6):
            passed = [number for number in range(4) if source.random() < 0.5]
            scripts.append(ScriptFacts(frozenset(passed)))
        run.append(InstanceFacts(classes, scripts))
    assert fit_run(run).shares["faithful"] < 0.1


def test_mistakes_that_attempts_share_count_less_in_the_run_that_has_them() -> None:
    """Attempts that newly fail tests are wrong: whether they are equal is fitted."""
    shared = InstanceFacts([ClassFacts({"a": 2, "b": 2}, 3), ClassFacts({"a": 1}, 1)])
    unlike = InstanceFacts([ClassFacts({model: 1}, 3) for model in "abcab"])
    concentrations = [
        fit_run([unlike] * 40),
        fit_run([shared] * 2),
        fit_run([shared] * 40),
    ]
    fitted = [fit.wrong_concentration for fit in concentrations]
    assert fitted[0] > FIT.wrong_concentration >= fitted[1] > fitted[2]
    agreeing = InstanceFacts([ClassFacts({"a": 1, "b": 1}, 0), ClassFacts({"a": 1}, 0)])
    (believed,) = weigh([agreeing], concentrations[0])
    (doubted,) = weigh([agreeing], concentrations[2])
    assert believed.classes[0] > doubted.classes[0]


def test_a_strength_counts_at_the_difficulty_of_its_instances() -> None:
    """Of 100 instances all solve 30 and none solves 30: the 40 others tell the models apart."""
    solved = InstanceFacts([ClassFacts({"a": 2, "b": 2}, 0)])
    unsolved = InstanceFacts([ClassFacts({model: 1}, 3) for model in "abab"])
    telling = InstanceFacts(
        [ClassFacts({"a": 2}, 0), ClassFacts({"b": 1}, 3), ClassFacts({"b": 1}, 2)]
    )
    fit = fit_run([solved] * 30 + [unsolved] * 30 + [telling] * 40)
    # By their shares of right attempts, which all instances make alike, the factor is 3.
    assert fit.strengths["a"] / fit.strengths["b"] > 5


def test_scripts_say_whether_equal_attempts_are_a_shared_mistake() -> None:
    classes = [ClassFacts({"a": 1, "b": 1}, None)]
    classes += [ClassFacts({model: 1}, None) for model in "ab"]
    concentrations = []
    for passed in (0, 1):
        script = ScriptFacts(frozenset({passed}))
        fit = fit_run([InstanceFacts(classes, [script] * 6)] * 40)
        concentrations.append(fit.wrong_concentration)
    agreeing_passes, another_passes = concentrations
    assert agreeing_passes >= FIT.wrong_concentration > another_passes


@given(instances())
def test_a_script_is_expected_to_do_no_harm(instance: InstanceFacts) -> None:
    assert expected_gain(instance, FIT, 0, 1) > -1e-9


def test_a_script_is_worth_most_where_nothing_is_sure() -> None:
    equal = ClassFacts({"a": 1}, 0)
    unsure = InstanceFacts([equal, equal])
    sure = InstanceFacts(
        [ClassFacts({"a": 2, "b": 2, "c": 2}, 0), ClassFacts({"a": 1}, 4)]
    )
    assert expected_gain(unsure, FIT, 0, 1) > expected_gain(sure, FIT, 0, 1)
