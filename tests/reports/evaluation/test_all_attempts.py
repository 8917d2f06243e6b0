"""Verdicts on the patches of all attempts, not only on the predicted ones."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from reports.combine.combine import combine
from reports.data.rundata import read_run, rounds
from reports.data.verdicts import VerdictStatus, eval_log, verdict_path
from reports.evaluation.settings import EvaluatorKind
from reports.report import report_command
from reports.verify import verify_command
from runs.storage.store import RunStore
from tests.support import read_json
from tests.support.evaluated import (
    replay_demo,
    report_settings,
    write_other_verdicts,
    write_verdicts,
)

SIX = "demo__units-1"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Path:
    """A run of six attempts on each of the demo's instances, and official verdicts on winners."""
    folder = replay_demo(tmp_path_factory.mktemp("all"), cache)
    write_verdicts(folder, {SIX})
    return folder


@pytest.fixture
def alone(made: Path, tmp_path: Path) -> Path:
    """The one instance of that run on which all six attempts are recorded, without a verdict."""
    folder = tmp_path / "alone" / "predictions" / "r"
    (folder / "trajectories").mkdir(parents=True)
    for path in (f"{SIX}.json", f"trajectories/{SIX}.json", "run.json"):
        shutil.copy(made / path, folder / path)
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made.parent.parent, tmp_path / "out")
    return tmp_path / "out" / "predictions" / "r"


def report(folder: Path, cache: Path, **changes: Any) -> tuple[int, list[str]]:
    said: list[str] = []
    return report_command(
        [folder], report_settings(cache, **changes), said.append
    ), said


def verify(folder: Path, cache: Path) -> tuple[int, list[str]]:
    said: list[str] = []
    return verify_command([folder], said.append), said


def ids(predictions: Sequence[Any]) -> list[str]:
    return [prediction.instance_id for prediction in predictions]


def test_each_patch_is_evaluated_once(folder: Path) -> None:
    run = read_run(RunStore.of_folder(folder))
    every = rounds(run)
    for found in every:
        assert len(set(ids(found))) == len(found)
    for instance in run.instances:
        own = [
            p.patch
            for found in every
            for p in found
            if p.instance_id == instance.instance_id
        ]
        wanted = {a.patch for a in instance.attempts if a.patch.strip()}
        assert len(own) == len(set(own))
        assert set(own) == wanted - {instance.patch}


def test_pass_at_k_by_verdict_needs_them_all(alone: Path, cache: Path) -> None:
    folder = alone
    store = RunStore.of_folder(alone)
    write_verdicts(folder, ())
    report(folder, cache)
    assert {
        row["resolved"] for row in read_json(folder / "stats.json")["pass_at_k"]
    } == {None}
    assert any(row["lower_bound"] for row in read_json(folder / "stats.json")["bought"])
    write_other_verdicts(store)
    report(folder, cache)
    shares = [row["resolved"] for row in read_json(folder / "stats.json")["pass_at_k"]]
    assert len(shares) == 6
    assert None not in shares
    assert shares == sorted(shares)
    assert not any(
        row["lower_bound"] for row in read_json(folder / "stats.json")["bought"]
    )
    counts = read_json(folder / "stats.json")["counts"]
    assert (counts["resolved"], counts["unresolved"]) == (0, 1), (
        "of the prediction alone"
    )


def test_all_attempts_are_evaluated_when_asked_for(alone: Path, cache: Path) -> None:
    folder = alone
    code, said = report(folder, cache, evaluator=EvaluatorKind.LOCAL, all_attempts=True)
    assert code == 0, said
    store = RunStore.of_folder(folder)
    every = [prediction for found in rounds(read_run(store)) for prediction in found]
    assert every
    assert all(verdict_path(store, prediction).is_file() for prediction in every)
    assert all(
        "test_" in eval_log(store, prediction).read_text() for prediction in every
    )
    assert None not in [
        row["resolved"] for row in read_json(folder / "stats.json")["pass_at_k"]
    ]
    before = {path: path.read_bytes() for path in (folder / "verdicts").rglob("*.json")}
    assert len(before) == 1 + len(every)
    code, said = report(folder, cache, evaluator=EvaluatorKind.LOCAL, all_attempts=True)
    assert not [line for line in said if line.startswith("evaluating")]
    assert {p: p.read_bytes() for p in (folder / "verdicts").rglob("*.json")} == before


def test_what_is_not_evaluated_makes_the_exit_code_1(
    folder: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere.sock")
    assert report(folder, cache, evaluator=EvaluatorKind.DOCKER)[0] == 0
    code, said = report(
        folder, cache, evaluator=EvaluatorKind.DOCKER, all_attempts=True
    )
    assert code == 1
    count = sum(map(len, rounds(read_run(RunStore.of_folder(folder)))))
    assert f"attempts that are not predicted, not evaluated: {count} patches" in said


def test_verdicts_on_patches_that_are_gone_are_found_and_deleted(
    folder: Path, cache: Path
) -> None:
    store = RunStore.of_folder(folder)
    write_other_verdicts(store)
    report(folder, cache)
    assert verify(folder, cache)[0] == 0
    [prediction, *_] = rounds(read_run(store))[0]
    path = verdict_path(store, prediction)
    log = eval_log(store, prediction)
    stale = path.with_name(f"{SIX}.0123456789abcdef.json")
    shutil.copy(path, stale)
    shutil.copy(log, log.with_name(f"{SIX}.0123456789abcdef.eval.log"))
    code, said = verify(folder, cache)
    assert code == 1
    assert any(stale.name in line and "was not there" in line for line in said)
    report(folder, cache, all_attempts=True)
    assert not stale.exists()
    assert not log.with_name(f"{SIX}.0123456789abcdef.eval.log").exists()
    assert path.exists()
    assert log.exists()
    assert verify(folder, cache)[0] == 0


def test_the_page_shows_the_verdict_of_each_attempt(folder: Path, cache: Path) -> None:
    write_other_verdicts(RunStore.of_folder(folder))
    report(folder, cache, page=True)
    [instance] = [
        i
        for i in read_run(RunStore.of_folder(folder)).instances
        if i.instance_id == SIX
    ]
    page = (folder / "report" / "instances" / f"{SIX}.html").read_text()
    judged = sum(
        instance.resolved_by(attempt) is not None for attempt in instance.attempts
    )
    assert judged == 6
    assert page.count("<dt>verdict</dt>") == 1 + judged


def test_a_combination_takes_what_is_known_of_attempts(
    folder: Path, tmp_path: Path, cache: Path
) -> None:
    other = tmp_path / "out" / "predictions" / "other"
    shutil.copytree(folder, other)
    write_other_verdicts(RunStore.of_folder(folder), VerdictStatus.UNRESOLVED)
    target = combine(
        [RunStore.of_folder(folder), RunStore.of_folder(other)], "both", print
    )
    run = read_run(target)
    verdicts = [
        instance.resolved_by(a) for instance in run.instances for a in instance.attempts
    ]
    assert len(verdicts) == 72
    assert None not in verdicts
    report(target.folder, cache)
    assert verify(target.folder, cache)[0] == 0
