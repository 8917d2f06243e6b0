"""Each file of a run is read as a model, and the model writes it again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from swe_retry.llm.chat import Message, Reply, Usage
from swe_retry.record.description import Run
from swe_retry.record.evidence import Evidence
from swe_retry.record.records import Attempt, AttemptStatus, Totals
from swe_retry.record.result import InstanceResult, InstanceStatus
from swe_retry.record.status_rule import status_by
from tests.support import TOP, read_json
from tests.support.runner import PATCH

OLDER = TOP / "tests/data/run-0.12/predictions"
RUNS = (
    "demo",
    "full-suite",
    "evidence",
    "history",
    "feedback",
    "own",
    "packaged",
)


def predictions() -> list[Path]:
    paths: list[Path] = []
    for run in RUNS:
        paths += sorted((OLDER / run).glob("*__*.json"))
    assert len(paths) > 20
    return paths


def conversation(path: Path) -> InstanceResult:
    raw = read_json(path.parent / "trajectories" / path.name)
    return InstanceResult.of_trajectory(raw)


def as_read(content: dict[str, Any]) -> dict[str, Any]:
    """Return what is read of a JSON file with this content."""
    text = json.dumps(content)
    read: dict[str, Any] = json.loads(text)
    return read


def of_attempts(*attempts: dict[str, Any]) -> InstanceResult:
    """Return the result that a trajectory with these attempts holds."""
    first = {"attempt": 1, "model": "m"}
    numbered = [{**first, **attempt} for attempt in attempts]
    return InstanceResult.of_trajectory({"instance_id": "a", "attempts": numbered})


def test_predictions_of_earlier_versions_come_back_byte_for_byte() -> None:
    for path in predictions():
        raw = read_json(path)
        text = json.dumps(raw)
        for trajectory in (None, conversation(path)):
            result = InstanceResult.of_prediction(raw, trajectory)
            assert json.dumps(result.prediction()) == text, path


def test_what_a_trajectory_says_survives_writing_and_reading() -> None:
    for path in predictions():
        result = conversation(path)
        again = InstanceResult.of_trajectory(as_read(result.trajectory()))
        assert again == result, path
        assert again.trajectory() == result.trajectory(), path


def test_the_description_of_a_run_comes_back_equal() -> None:
    for name in (*RUNS, "combined", "exercism"):
        raw = read_json(OLDER / name / "run.json")
        assert Run.model_validate(raw).as_json() == raw, name


def of_may(**changes: Any) -> dict[str, Any]:
    """Return a prediction, or an attempt of one, as the version of May 2024 wrote it."""
    return {
        "instance_id": "a__b-1",
        "model_patch": PATCH,
        "edit_outcome": True,
        "lint_outcome": True,
        "test_outcome": True,
        **changes,
    }


def read_of_may(models: Sequence[str] = (), **changes: Any) -> InstanceResult:
    return InstanceResult.of_prediction(of_may(**changes), models=models)


def test_an_unknown_outcome_of_may_2024_is_a_failed_one_for_everybody() -> None:
    untested = of_may(test_outcome=None)
    result = read_of_may(test_outcome=None, all_results=[untested])
    assert result.status is InstanceStatus.FALLBACK
    (attempt,) = result.attempts
    assert attempt.status is AttemptStatus.TESTS_FAILED
    assert not attempt.plausible
    assert not result.plausible
    clean = read_of_may(all_results=[of_may()])
    assert clean.status is InstanceStatus.PLAUSIBLE
    assert clean.attempts[0].plausible


def test_attempts_of_may_2024_get_their_numbers_by_the_models() -> None:
    results = []
    for number in (1, 2):
        for model in ("b", "a"):
            names = {"model": model, "try": number}
            results.append(of_may(**names))
    names = {"model": "a", "try": 2}
    result = read_of_may(("a", "b"), **names, all_results=results)
    numbers = [(each.attempt, each.model, each.try_) for each in result.attempts]
    assert numbers == [
        (1, "a", 1),
        (2, "b", 1),
        (3, "a", 2),
        (4, "b", 2),
    ]
    assert result.attempt == 3
    nameless = read_of_may(all_results=[of_may()] * 3)
    assert [attempt.attempt for attempt in nameless.attempts] == [1, 2, 3]


def test_the_chosen_attempt_of_may_2024_is_that_of_the_predicted_patch() -> None:
    other = PATCH.replace("+2", "+3")
    assert other != PATCH
    attempts: list[dict[str, Any]] = [
        {"model": "a", "try": 1, "model_patch": other},
        {"model": "b", "try": 1, "model_patch": PATCH},
        {"model": "a", "try": 2, "model_patch": PATCH},
        {"model": "b", "try": 2, "model_patch": other},
    ]
    results = []
    for number, attempt in enumerate(attempts, 1):
        results.append(of_may(**attempt, added_files=[f"{number}.py"]))
    for values, chosen in (
        # Its model and try name another attempt.
        ({"model": "a", "try": 1}, 2),
        ({}, 2),
        # Of equal patches the named one.
        ({"model": "a", "try": 2}, 3),
        ({"model": "b", "try": 1}, 2),
        # No attempt has this patch: what is named counts.
        ({"model": "b", "try": 2, "model_patch": "diff"}, 4),
        # Files with numbers of attempts name theirs.
        ({"attempt": 1}, 1),
    ):
        result = read_of_may(("a", "b"), **values, all_results=results)
        assert result.attempt == chosen, values
        assert result.chosen is not None
        assert result.chosen.added_files == (f"{chosen}.py",)


def test_a_prediction_alone_is_one_attempt() -> None:
    result = read_of_may(status="fallback")
    (attempt,) = result.attempts
    assert attempt.attempt == 1
    assert attempt.edit_format is None
    assert attempt.calls is None
    assert attempt.status is AttemptStatus.PLAUSIBLE


ODD: dict[str, list[Any]] = {
    "cost": [True, "5", -1, float("inf"), {}],
    "edited_files": [5, None, "a"],
    "edit_outcome": ["yes", 1],
    "status": [5, None, []],
    "test_note": [5, None],
    "told_of": [()],
    "model": [5, None],
    "try": [0.5, None, "x", True],
    "evidence": [5, {"classes": 3}],
    "reason": [5],
}


def test_a_value_of_another_kind_is_unknown() -> None:
    for key, values in ODD.items():
        name = "try_" if key == "try" else key
        for value in values:
            odd = {key: value}
            attempt = of_may(**odd)
            result = read_of_may(all_results=[attempt], **odd)
            for record in (result, result.attempts[0]):
                read = getattr(record, name, None)
                assert read in (None, "", (), False, 1), odd


@pytest.mark.parametrize(
    ("changes", "location"),
    [
        ({"instance_id": 5}, ("instance_id",)),
        ({"model_patch": 5}, ("model_patch",)),
        ({"model_patch": "\ud800"}, ("model_patch",)),
        ({"model_name_or_path": 5}, ("model_name_or_path",)),
        ({"all_results": 5}, ("all_results",)),
        ({"all_results": [5]}, ("all_results", 0)),
        (
            {"all_results": [{"model_patch": 5}]},
            ("all_results", 0, "model_patch"),
        ),
    ],
)
def test_a_prediction_that_is_none_is_an_error_with_its_place(
    changes: dict[str, Any], location: tuple[object, ...]
) -> None:
    with pytest.raises(ValidationError) as error:
        InstanceResult.of_prediction(of_may(**changes))
    problem = error.value.errors()[0]
    assert problem["loc"] == location


@pytest.mark.parametrize(
    "changes",
    [
        {"calls": 3},
        {"calls": [{}]},
        {"calls": [{"content": 5}]},
        {"messages": [{"content": ""}]},
        {"traits": {"context": True}},
        {"attempt": "1"},
        {"applies": 1},
    ],
)
def test_conversations_are_strict(changes: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        of_attempts(changes)


def test_counts_that_one_call_lacks_are_unknown() -> None:
    usage = Usage(prompt_tokens=5, completion_tokens=3, cached_tokens=1)
    without_cache = Usage(prompt_tokens=2, completion_tokens=2)
    calls = [Reply("a", usage=usage), Reply("b", usage=without_cache)]
    assert Totals.of(calls).counts() == {
        "prompt_tokens": 7,
        "completion_tokens": 5,
        "cached_tokens": None,
        "calls": 2,
    }
    odd = {"prompt_tokens": "many", "completion_tokens": 1}
    call = {"content": "a", "usage": odd}
    (attempt,) = of_attempts({"calls": [call]}).attempts
    sums = attempt.sums
    assert sums.prompt_tokens is None
    assert sums.completion_tokens is None


def test_a_copy_derives_its_patch_again() -> None:
    first = Attempt(model_patch=PATCH)
    assert first.patch == PATCH
    assert first.but(model_patch="").patch == ""
    with pytest.raises(AssertionError):
        first.but(patch="")


def test_lone_surrogates_are_kept() -> None:
    message = Message("user", "\ud800")
    attempt = Attempt(messages=(message,), error="\ud800")
    result = InstanceResult(instance_id="a", attempts=(attempt,))
    read = InstanceResult.of_trajectory(as_read(result.trajectory()))
    assert read.attempts == (attempt,)


def test_a_patch_that_does_not_apply_is_read_from_older_trajectories() -> None:
    for error, applies in {"": False, "it raised": True}.items():
        older = {
            "status": "error",
            "error": error,
            "recorded": {"model_patch": PATCH},
        }
        (attempt,) = of_attempts(older).attempts
        assert attempt.applies is applies
        assert ("applies" in attempt.model_fields_set) is not applies


def test_a_read_attempt_is_suspect_where_it_was() -> None:
    attempt = Attempt(
        model_patch=PATCH,
        edit_outcome=True,
        lint_outcome=True,
        edits_test_configuration=True,
        untested="the baseline is broken",
    )
    assert attempt.suspect
    result = InstanceResult(instance_id="a", attempts=(attempt,))
    read = InstanceResult.of_trajectory(result.trajectory())
    again = InstanceResult.of_prediction(result.prediction(), read)
    assert again.attempts[0].suspect


def test_the_doubt_about_tests_is_in_files_only_where_there_is_one() -> None:
    attempt = Attempt(model_patch=PATCH, status="plausible_untested")
    for doubted in (True, False):
        marked = attempt.but(tests_doubted=doubted)
        result = InstanceResult(
            instance_id="a", model_patch=PATCH, attempts=(marked,), status="fallback"
        )
        prediction = result.prediction()
        assert prediction["edits_test_configuration"] is False
        assert ("tests_doubted" in prediction) is doubted
        read = InstanceResult.of_prediction(prediction)
        assert read.tests_doubted is doubted
        assert read.attempts[0].suspect is doubted
        empty = result.but(model_patch="").prediction()
        assert "tests_doubted" not in empty


def test_the_status_follows_from_the_outcomes() -> None:
    clean = Attempt(model_patch=PATCH, edit_outcome=True, lint_outcome=True)
    assert status_by(clean) is AttemptStatus.PLAUSIBLE_UNTESTED
    assert status_by(clean, AttemptStatus.BUDGET) is AttemptStatus.PLAUSIBLE_UNTESTED
    assert status_by(clean, AttemptStatus.TREE_DIFFERS) is AttemptStatus.TREE_DIFFERS
    failing = clean.but(test_outcome=False)
    assert status_by(failing, AttemptStatus.BUDGET) is AttemptStatus.BUDGET
    assert status_by(clean.but(applies=False)) is AttemptStatus.ERROR


def test_evidence_is_of_the_model_that_it_is_written_by() -> None:
    paths = sorted((OLDER / "evidence").glob("*__*.json"))
    raw = read_json(paths[0])
    evidence = InstanceResult.of_prediction(raw).evidence
    assert isinstance(evidence, Evidence)
    assert evidence.classes
