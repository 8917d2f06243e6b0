"""Verdicts on the patches of all attempts, not only on the predicted ones."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from swe_retry.record.store import RunStore
from swe_retry.report.combine.combine import combine
from swe_retry.results.predictions import Prediction
from swe_retry.results.read import read_run
from swe_retry.results.rundata import rounds
from swe_retry.results.verdicts import VerdictStatus, eval_log, verdict_path
from tests.support import read_json
from tests.support.evaluated import (
    UNITS,
    replay_demo,
    write_other_verdicts,
    write_verdicts,
)
from tests.support.reported import differs, report_run, verify_run


@pytest.fixture(scope="module")
def demo_run(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Path:
    """A run of six attempts on each of the demo's instances, and official verdicts on winners."""
    folder = replay_demo(tmp_path_factory.mktemp("all"), cache)
    write_verdicts(folder, {UNITS})
    return folder


@pytest.fixture
def alone(demo_run: Path, tmp_path: Path) -> RunStore:
    """The one instance of that run on which all six attempts are recorded, without a verdict."""
    folder = tmp_path / "alone" / "predictions" / "r"
    (folder / "trajectories").mkdir(parents=True)
    for path in (f"{UNITS}.json", f"trajectories/{UNITS}.json", "run.json"):
        shutil.copy(demo_run / path, folder / path)
    return RunStore.of_folder(folder)


@pytest.fixture
def store(demo_run: Path, tmp_path: Path) -> RunStore:
    shutil.copytree(demo_run.parent.parent, tmp_path / "out")
    return RunStore(tmp_path / "out", "r")


def other_predictions(store: RunStore) -> Iterator[Prediction]:
    """Yield the patches that are not predicted."""
    for predictions in rounds(read_run(store)):
        yield from predictions


def test_each_patch_is_evaluated_once(store: RunStore) -> None:
    run = read_run(store)
    for predictions in rounds(run):
        ids = [prediction.instance_id for prediction in predictions]
        assert len(set(ids)) == len(ids)
    evaluated: Counter[tuple[str, str]] = Counter()
    for prediction in other_predictions(store):
        evaluated[prediction.instance_id, prediction.patch] += 1
    expected = set()
    for instance in run.instances:
        for attempt in instance.attempts:
            is_predicted = attempt.patch == instance.patch
            if attempt.patch.strip() and not is_predicted:
                expected.add((instance.instance_id, attempt.patch))
    assert evaluated == dict.fromkeys(expected, 1)


def test_pass_at_k_by_verdict_needs_them_all(alone: RunStore, cache: Path) -> None:
    write_verdicts(alone.folder, ())
    report_run(alone.folder, cache)
    stats = read_json(alone.folder / "stats.json")
    assert stats["pass_at_k"]
    for row in stats["pass_at_k"]:
        assert row["resolved"] is None
    assert any(row["lower_bound"] for row in stats["bought"])
    write_other_verdicts(alone)
    report_run(alone.folder, cache)
    stats = read_json(alone.folder / "stats.json")
    shares = [row["resolved"] for row in stats["pass_at_k"]]
    assert len(shares) == 6
    assert None not in shares
    assert shares == sorted(shares)
    assert not any(row["lower_bound"] for row in stats["bought"])
    # Counts are of the prediction alone.
    assert stats["counts"]["resolved"] == 0
    assert stats["counts"]["unresolved"] == 1


def test_all_attempts_are_evaluated_when_asked_for(
    alone: RunStore, cache: Path
) -> None:
    printed = report_run(alone.folder, cache, "local", all_attempts=True)
    assert printed.code == 0, printed.text
    predictions = list(other_predictions(alone))
    assert predictions
    for prediction in predictions:
        assert verdict_path(alone, prediction).is_file()
        assert "test_" in eval_log(alone, prediction).read_text()
    rows = read_json(alone.folder / "stats.json")["pass_at_k"]
    assert None not in [row["resolved"] for row in rows]
    before = verdict_files(alone)
    assert len(before) == 1 + len(predictions)
    printed = report_run(alone.folder, cache, "local", all_attempts=True)
    assert not printed.starting("evaluating")
    assert verdict_files(alone) == before


def verdict_files(store: RunStore) -> dict[Path, bytes]:
    paths = store.folder.glob("verdicts/**/*.json")
    return {path: path.read_bytes() for path in paths}


def test_what_is_not_evaluated_makes_the_exit_code_1(
    store: RunStore, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere.sock")
    assert report_run(store.folder, cache, "docker").code == 0
    printed = report_run(store.folder, cache, "docker", all_attempts=True)
    assert printed.code == 1
    count = len(list(other_predictions(store)))
    text = f"attempts that are not predicted, not evaluated: {count} patches"
    assert text in printed.lines


def test_verdicts_on_patches_that_are_gone_are_found_and_deleted(
    store: RunStore, cache: Path
) -> None:
    folder = store.folder
    write_other_verdicts(store)
    report_run(folder, cache)
    assert not differs(folder)
    path = verdict_path(store, next(other_predictions(store)))
    log = eval_log(store, next(other_predictions(store)))
    stale = path.with_name(f"{UNITS}.0123456789abcdef.json")
    stale_log = log.with_name(f"{UNITS}.0123456789abcdef.eval.log")
    shutil.copy(path, stale)
    shutil.copy(log, stale_log)
    printed = verify_run(folder)
    assert printed.code == 1
    assert printed.containing(stale.name, "was not there")
    report_run(folder, cache, all_attempts=True)
    assert path.exists()
    assert log.exists()
    assert not stale.exists()
    assert not stale_log.exists()
    assert not differs(folder)


def test_the_page_shows_the_verdict_of_each_attempt(
    store: RunStore, cache: Path
) -> None:
    write_other_verdicts(store)
    report_run(store.folder, cache, page=True)
    page = (store.folder / f"report/instances/{UNITS}.html").read_text()
    # Of the prediction, and of six attempts.
    assert page.count("<dt>verdict</dt>") == 7


def test_a_combination_takes_what_is_known_of_attempts(
    store: RunStore, tmp_path: Path, cache: Path
) -> None:
    other = RunStore(tmp_path / "out", "other")
    shutil.copytree(store.folder, other.folder)
    write_other_verdicts(store, VerdictStatus.UNRESOLVED)
    target = combine([store, other], "both", print)
    verdicts = []
    for instance in read_run(target).instances:
        verdicts += [instance.resolved_by(attempt) for attempt in instance.attempts]
    assert len(verdicts) == 72
    assert None not in verdicts
    report_run(target.folder, cache)
    assert not differs(target.folder)
