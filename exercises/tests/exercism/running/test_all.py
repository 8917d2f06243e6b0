"""The 133 exercises of the published runs through ``run``, where ``EXERCISM`` names them."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

import pytest

from exercises.tests.support.exercism import (
    ExerciseProvider,
    ExerciseRun,
    examples,
    late_examples,
    needs_bubblewrap,
    requests,
)
from swe_retry.agent.formats import format_names
from swe_retry.agent.formats.protocol import Notation
from swe_retry_exercises.exercism.catalog import Exercise, read_catalog

pytestmark = [
    needs_bubblewrap,
    pytest.mark.long,
    pytest.mark.skipif(
        "EXERCISM" not in os.environ, reason="EXERCISM names no exercises"
    ),
]
NOTATIONS = {"current": Notation.CURRENT, "2023": Notation.OF_2023}
CASES = [
    (profile, name)
    for profile in NOTATIONS
    for name in format_names(NOTATIONS[profile])
]


@pytest.fixture(scope="module")
def collection() -> Path:
    return Path(os.environ["EXERCISM"]).resolve()


@pytest.fixture(scope="module")
def every(collection: Path) -> tuple[Exercise, ...]:
    return read_catalog(collection).exercises


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def api_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")


@pytest.mark.parametrize(("profile", "form"), CASES)
def test_examples_as_replies_solve_all(
    tmp_path: Path,
    collection: Path,
    every: tuple[Exercise, ...],
    cache: Path,
    profile: str,
    form: str,
) -> None:
    options = ("--set", f"exercises.profile={profile}", "--formats", form)
    run = ExerciseRun(tmp_path, cache, options)
    with ExerciseProvider(every, examples, NOTATIONS[profile]) as provider:
        assert run.run(provider, exercises=collection) == 0
    record = run.records()[form]
    for key in ("pass_num_1", "pass_num_2", "total_tests"):
        assert record[key] == 133
    assert record["percent_cases_well_formed"] == 100.0
    assert len(provider.requests) == 133


@pytest.mark.parametrize(("profile", "form"), [("current", "diff"), ("2023", "whole")])
def test_stubs_first_and_examples_then(
    tmp_path: Path,
    collection: Path,
    every: tuple[Exercise, ...],
    cache: Path,
    profile: str,
    form: str,
) -> None:
    """Twice, in folders of another depth and another order of files, and replayed."""
    options = ("--set", f"exercises.profile={profile}", "--formats", form)
    deeper = tmp_path / "a" / "deeper" / "one"
    first = ExerciseRun(tmp_path / "one", cache, options)
    second = ExerciseRun(deeper, tmp_path / "b" / "cache", options)
    reordered = reordered_archive(every, tmp_path)
    sent = []
    for run, exercises in ((first, collection), (second, reordered)):
        with ExerciseProvider(every, late_examples, NOTATIONS[profile]) as provider:
            assert run.run(provider, exercises=exercises) == 0
        sent.append(requests(provider))
        record = run.records()[form]
        assert record["pass_rate_1"] == 1.5
        assert record["pass_rate_2"] == 100.0
        assert record["pass_num_1"] == 2
        assert record["pass_num_2"] == 133
    assert len(sent[0]) == 2 * 133 - 2
    assert sent[0] == sent[1]
    replayed = ExerciseRun(tmp_path / "c" / "replayed", cache, options)
    replay = ("--replay", str(first.folder))
    assert replayed.run(None, *replay, exercises=collection) == 0
    results = first.results()
    assert second.results() == results
    assert replayed.results() == results


def reordered_archive(every: tuple[Exercise, ...], folder: Path) -> Path:
    """Return an archive of the same exercises with another order of files."""
    path = folder / "reordered.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        for exercise in sorted(every, key=lambda exercise: exercise.name[::-1]):
            for name in sorted(exercise.files, reverse=True):
                member = tarfile.TarInfo(f"{exercise.name}/{name}")
                member.size = len(exercise.files[name])
                tar.addfile(member, io.BytesIO(exercise.files[name]))
    return path
