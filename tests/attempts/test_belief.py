"""The belief about classes of candidates: properties that hold for all evidence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, product
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swe_retry.attempts.evidence.belief import (
    RunArrays,
    best_class,
    expected_gain,
    hypothesis_weights,
    weigh,
)
from swe_retry.attempts.evidence.facts import (
    BELIEVED,
    ClassFacts,
    InstanceFacts,
    ScriptFacts,
    stated_fit,
)
from swe_retry.attempts.evidence.fit import fit_run

FIT = stated_fit()
MODELS = ("a", "b", "c")


@st.composite
def instances(draw: st.DrawFn, *, smallest: int = 2) -> InstanceFacts:
    size = draw(st.integers(smallest, 5))
    numbers = st.integers(0, size - 1)
    classes = []
    for _ in range(size):
        models = draw(st.sets(st.sampled_from(MODELS), min_size=1))
        witnesses = {}
        for model in sorted(models):
            witnesses[model] = draw(st.integers(1, 4))
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
    numbers = range(len(instance.classes))
    return best_class(instance, weights, FIT, numbers)


def one_model(model: str, failing: int | None = 0, attempts: int = 1) -> ClassFacts:
    """Return a class of attempts of one model."""
    return ClassFacts({model: attempts}, failing)


def two_models(failing: int | None = 0, attempts: int = 1) -> ClassFacts:
    """Return a class of attempts of two models."""
    return ClassFacts({"a": attempts, "b": attempts}, failing)


def change_class(
    instance: InstanceFacts, number: int, facts: ClassFacts
) -> InstanceFacts:
    classes = list(instance.classes)
    classes[number] = facts
    return replace(instance, classes=tuple(classes))


def scripts_passed_alike(
    instance: InstanceFacts, number: int, other: int
) -> list[ScriptFacts]:
    """Return the scripts so that the class ``other`` passes those that ``number`` passes."""
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
    scripts = scripts_passed_alike(instance, 0, 1)
    return replace(instance, scripts=tuple(scripts))


@given(instances())
def test_all_hypotheses_and_none_sum_to_one(instance: InstanceFacts) -> None:
    ((_, weights, sets),) = hypothesis_weights([instance], FIT)
    assert weights.sum() == pytest.approx(1)
    assert not sets[0].any()
    (belief,) = weigh([instance], FIT)
    assert belief.none == pytest.approx(weights[0])
    assert belief.none + max(belief.classes) <= 1 + 1e-9


@given(instances(), st.integers(0, 3), st.integers(1, 3))
def test_more_failing_tests_never_win(
    instance: InstanceFacts, fewer: int, difference: int
) -> None:
    first = instance.classes[0]
    better = replace(first, failing=fewer)
    worse = replace(first, failing=fewer + difference)
    instance = twins(change_class(instance, 0, better))
    changed = change_class(instance, 0, worse)
    assert choose(changed) != 0


@given(instances(), st.integers(0, 4))
def test_passing_more_scripts_never_loses(
    instance: InstanceFacts, changed_script: int
) -> None:
    instance = twins(instance)
    scripts = []
    for position, script in enumerate(instance.scripts):
        if position == changed_script:
            passed = script.passed | {0}
            script = replace(script, passed=passed - {1})
        scripts.append(script)
    changed = replace(instance, scripts=tuple(scripts))
    if changed.passed_by(0) > changed.passed_by(1):
        assert choose(changed) != 1


@given(instances(), st.sampled_from(MODELS))
def test_a_copy_lifts_no_class_above_one_of_more_models(
    instance: InstanceFacts, model: str
) -> None:
    failing = instance.classes[0].failing
    instance = change_class(instance, 0, one_model(model, failing))
    of_more = two_models(instance.classes[1].failing)
    instance = change_class(instance, 1, of_more)
    copied = change_class(instance, 0, one_model(model, failing, attempts=4))
    (before,) = weigh([instance], FIT)
    (after,) = weigh([copied], FIT)
    if before.classes[0] < before.classes[1]:
        assert after.classes[0] < after.classes[1]


@given(instances(), st.booleans())
def test_a_script_of_all_or_none_changes_no_order(
    instance: InstanceFacts, passed_by_all: bool
) -> None:
    numbers = range(len(instance.classes))
    passed = frozenset(numbers) if passed_by_all else frozenset()
    scripts = (*instance.scripts, ScriptFacts(passed))
    changed = replace(instance, scripts=scripts)
    (before,) = weigh([instance], FIT)
    (after,) = weigh([changed], FIT)
    for number, other in product(numbers, repeat=2):
        gap = before.classes[number] - before.classes[other]
        gap_after = after.classes[number] - after.classes[other]
        assert not (gap > 1e-6 and gap_after < -1e-6)


@given(instances(), st.randoms(use_true_random=False))
def test_names_and_order_change_nothing(
    instance: InstanceFacts, random: Random
) -> None:
    order = list(range(len(instance.classes)))
    random.shuffle(order)
    scripts = []
    for script in instance.scripts:
        passed = frozenset(map(order.index, script.passed))
        author = script.author
        if author is not None:
            author = order.index(author)
        scripts.append(ScriptFacts(passed, author))
    random.shuffle(scripts)
    classes = []
    for number in order:
        facts = instance.classes[number]
        witnesses = {f"x{model}": count for model, count in facts.witnesses.items()}
        classes.append(replace(facts, witnesses=witnesses))
    renamed = InstanceFacts(classes, scripts)
    (before,) = weigh([instance], FIT)
    (after,) = weigh([renamed], FIT)
    assert after.none == pytest.approx(before.none)
    for position, number in enumerate(order):
        assert after.classes[position] == pytest.approx(before.classes[number])


@given(instances(smallest=1))
def test_one_candidate_wins_with_any_evidence(instance: InstanceFacts) -> None:
    failed_script = ScriptFacts(frozenset())
    alone = InstanceFacts(instance.classes[:1], [failed_script])
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
        one_model("a", attempts=2),
        one_model("b", failing=1),
        one_model("a"),
    ]
    numbers = range(len(classes))
    scripts = []
    for size in range(len(classes) + 1):
        for passed in combinations(numbers, size):
            scripts.append(ScriptFacts(frozenset(passed)))
    instance = InstanceFacts(classes, scripts)
    fit = FIT.model_copy(update={"shares": {kind: 1.0}})
    (batch,) = RunArrays.of([instance]).batches
    likelihoods = batch.likelihoods(fit).by_kind[kind]
    assert likelihoods.sum(axis=1) == pytest.approx(1.0)


def test_a_script_does_not_speak_for_its_author() -> None:
    """A script that only its author's class passes leaves the weights as they are."""
    classes = [one_model("a"), one_model("b")]
    own_script = ScriptFacts(frozenset({0}), author=0)
    with_script = InstanceFacts(classes, [own_script])
    without_script = InstanceFacts(classes)
    assert weigh([with_script], FIT) == weigh([without_script], FIT)


def test_noise_is_not_believed() -> None:
    """Scripts that pass and fail regardless of all else are taken as noise."""
    source = Random(1)
    classes = [
        two_models(),
        one_model("a"),
        one_model("a", failing=1),
        one_model("a", failing=2),
    ]
    run = []
    for _ in range(400):
        scripts = []
        for _ in range(6):
            passed = [number for number in range(4) if source.random() < 0.5]
            scripts.append(ScriptFacts(frozenset(passed)))
        run.append(InstanceFacts(classes, scripts))
    assert fit_run(run).shares["faithful"] < 0.1


def test_mistakes_that_attempts_share_count_less_in_the_run_that_has_them() -> None:
    """Attempts that newly fail tests are wrong: whether they are equal is fitted."""
    shared = InstanceFacts(
        [two_models(failing=3, attempts=2), one_model("a", failing=1)]
    )
    unlike = InstanceFacts([one_model(model, failing=3) for model in "abcab"])
    unlike_fit = fit_run([unlike] * 40)
    short_fit = fit_run([shared] * 2)
    shared_fit = fit_run([shared] * 40)
    assert (
        unlike_fit.wrong_concentration
        > FIT.wrong_concentration
        >= short_fit.wrong_concentration
        > shared_fit.wrong_concentration
    )
    agreeing = InstanceFacts([two_models(), one_model("a")])
    (believed,) = weigh([agreeing], unlike_fit)
    (doubted,) = weigh([agreeing], shared_fit)
    assert believed.classes[0] > doubted.classes[0]


def test_a_strength_counts_at_the_difficulty_of_its_instances() -> None:
    """Of 100 instances all solve 30 and none solves 30: the 40 others tell the models apart."""
    solved = InstanceFacts([two_models(attempts=2)])
    unsolved = InstanceFacts([one_model(model, failing=3) for model in "abab"])
    telling = InstanceFacts(
        [
            one_model("a", attempts=2),
            one_model("b", failing=3),
            one_model("b", failing=2),
        ]
    )
    run = [solved] * 30
    run += [unsolved] * 30
    run += [telling] * 40
    fit = fit_run(run)
    # By their shares of right attempts, which all instances make alike, the factor is 3.
    assert fit.strengths["a"] / fit.strengths["b"] > 5


def test_scripts_say_whether_equal_attempts_are_a_shared_mistake() -> None:
    def concentration(passed: int) -> float:
        script = ScriptFacts(frozenset({passed}))
        instance = InstanceFacts(classes, [script] * 6)
        return fit_run([instance] * 40).wrong_concentration

    classes = [
        two_models(failing=None),
        one_model("a", failing=None),
        one_model("b", failing=None),
    ]
    agreeing_passes = concentration(passed=0)
    another_passes = concentration(passed=1)
    assert agreeing_passes >= FIT.wrong_concentration > another_passes


@given(instances())
def test_a_script_is_expected_to_do_no_harm(instance: InstanceFacts) -> None:
    assert expected_gain(instance, FIT, 0, 1) > -1e-9


def test_a_script_is_worth_most_where_nothing_is_sure() -> None:
    unsure = InstanceFacts([one_model("a"), one_model("a")])
    likely = ClassFacts({"a": 2, "b": 2, "c": 2}, 0)
    unlikely = one_model("a", failing=4)
    sure = InstanceFacts([likely, unlikely])
    gain_if_unsure = expected_gain(unsure, FIT, 0, 1)
    gain_if_sure = expected_gain(sure, FIT, 0, 1)
    assert gain_if_unsure > gain_if_sure
