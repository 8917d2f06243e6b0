"""Attempts end when a class is sure, by what the instances before tell about those that start."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from swe_retry.attempts import run_fit
from swe_retry.attempts.config import RunConfig
from swe_retry.attempts.evidence.facts import (
    ClassFacts,
    InstanceFacts,
    ScriptFacts,
    stated_fit,
)
from swe_retry.attempts.evidence.fit import fit_run
from swe_retry.attempts.policy import StopRule
from swe_retry.attempts.run_fit import RunFit
from swe_retry.attempts.solve import InstanceJob
from swe_retry.instances.dataset import load_dataset
from swe_retry.record.evidence import BeliefFit
from swe_retry.record.result import InstanceResult
from tests.support.evidence import (
    LOCAL,
    NAME,
    TEMPERATURES,
    ScriptProvider,
    by_evidence,
    recording,
)
from tests.support.harness import Harness
from tests.support.runs import live, read

SECOND = "demo__textkit-2"
FACTS = InstanceFacts(
    [
        ClassFacts({"a": 2}, 0),
        ClassFacts({"b": 1}, 0),
    ],
    [ScriptFacts(frozenset({0}))] * 4,
)


@pytest.fixture
def scripts() -> Iterator[ScriptProvider]:
    with ScriptProvider() as provider:
        yield provider


def when_sure(provider: ScriptProvider, sure: float, **changes: Any) -> RunConfig:
    return live(
        provider,
        **LOCAL,
        select="evidence",
        temperatures=TEMPERATURES,
        stop=StopRule.SURE,
        sure=sure,
        **changes,
    )


def stop_fit_of(folder: Path, name: str) -> dict[str, Any] | None:
    """Return the fit that the attempts of a trajectory name."""
    attempts = read(folder, name, "trajectories")["attempts"]
    fits = [attempt.get("stop_fit") for attempt in attempts]
    assert fits == [fits[0]] * len(fits)
    fit: dict[str, Any] | None = fits[0]
    return fit


def test_a_run_is_fitted_when_25_50_and_100_instances_ended() -> None:
    run_fit = RunFit(0.3)
    fits: list[BeliefFit | None] = []
    for count in range(1, 101):
        run_fit.add(f"one-{count}", FACTS)
        # An instance that is done again counts once.
        run_fit.add("one-1", FACTS)
        if run_fit.current not in fits:
            fits.append(run_fit.current)
            if count == 1:
                assert run_fit.current is None
            else:
                assert run_fit.current == fit_run([FACTS] * count, 0.3)
    assert len(fits) == 4
    assert fits[1] == fit_run([FACTS] * 25, 0.3)


def test_one_class_ends_no_attempts_before_scripts_ran_on_it(
    harness: Harness, scripts: ScriptProvider
) -> None:
    """The first candidate would be enough by its tests, but fails scripts; the second passes."""
    run = when_sure(scripts, 0.53)
    prediction = harness.solve(run, NAME)
    classes = prediction["evidence"]["classes"]
    assert [equal["attempts"] for equal in classes] == [[1], [2]]
    assert prediction["attempt"] == 2
    harness.assert_replays(run, NAME)


def test_a_replay_ends_attempts_by_the_recorded_fit(
    harness: Harness, tmp_path: Path
) -> None:
    hopeful = stated_fit(0.999).model_dump(mode="json")

    def record_fit(raw: dict[str, Any]) -> None:
        for attempt in raw["attempts"]:
            attempt["stop_fit"] = hopeful

    replies = recording(tmp_path / "replies", record_fit)
    run = by_evidence(replay=replies, stop=StopRule.SURE, sure=0.95)
    prediction = harness.solve(run, NAME)
    assert len(prediction["all_results"]) < 4
    assert stop_fit_of(harness.folder, NAME) == hopeful


def test_a_job_takes_what_the_run_has_learned_to_another_machine() -> None:
    instance = load_dataset("demo", "test").instances()[0]
    run_fit = RunFit(0.4)
    job = InstanceJob(instance, run_fit=run_fit)
    unfitted = pickle.dumps(job.portable())
    assert pickle.loads(unfitted).current_fit() is None
    run_fit.current = stated_fit(0.3)
    fitted = pickle.dumps(job.portable())
    assert pickle.loads(fitted).current_fit() == stated_fit(0.3)


def test_instances_that_start_later_use_what_the_run_has_learned(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_fit, "FIRST_FIT", 1)
    with ScriptProvider() as provider:
        run = when_sure(provider, 0.999)
        prediction = harness.solve(run, NAME)
        assert len(prediction["all_results"]) == 4
        assert stop_fit_of(harness.folder, NAME) is None
        earlier = read(harness.folder, NAME, "trajectories")
        expected = RunFit(0.4)
        expected.add_result(InstanceResult.of_trajectory(earlier))
        # A prediction that cannot be read tells nothing, and stays as it is.
        harness.file("gone__gone-1.json").write_text("{")
        harness.run(run, NAME, SECOND)
    assert expected.current is not None
    fit = expected.current.model_dump(mode="json")
    assert stop_fit_of(harness.folder, SECOND) == fit


def test_a_killed_run_asks_for_the_same_scripts_at_the_same_time(
    harness: Harness, scripts: ScriptProvider
) -> None:
    # The last scripts are asked for with another candidate if there are more.
    run = when_sure(scripts, 0.999, scripts=12)
    prediction = harness.solve(run, NAME)
    requests = len(scripts.requests)
    # As if it was killed after its last attempt.
    harness.file(f"{NAME}.json").unlink()
    assert harness.solve(run, NAME) == prediction
    assert len(scripts.requests) == requests
