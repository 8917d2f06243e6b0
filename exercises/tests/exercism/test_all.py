"""The 133 exercises of the published runs, where ``EXERCISM`` names them (a folder or archive)."""

from __future__ import annotations

from pathlib import Path

import pytest

from exercises.tests.support.exercism import run_tests
from swe_retry_exercises.exercism.catalog import read_catalog
from swe_retry_exercises.exercism.messages import first_message
from swe_retry_exercises.exercism.tester import cleaned_output
from swe_retry_exercises.exercism.verdict import is_solved, python_counts
from tests.support import from_environment


@pytest.mark.long
def test_the_exercises_and_their_messages() -> None:
    every = read_catalog(from_environment("EXERCISM")).exercises
    assert len(every) == 133
    assert all(
        len(exercise.solution) == 1 and len(exercise.examples) == 1
        for exercise in every
    )
    assert sum(".docs/introduction.md" in exercise.files for exercise in every) == 15
    assert not any(
        "hints" in first_message(exercise).split("####")[0][-30:] for exercise in every
    )
    helped = {
        exercise.name
        for exercise in every
        if "test_utils.py" in exercise.tested_files({})
    }
    assert helped == {"error-handling", "paasio"}


@pytest.mark.long
@pytest.mark.parametrize("unittest", [True, False])
def test_examples_pass_and_two_stubs_do(tmp_path: Path, unittest: bool) -> None:
    """The outputs of failing stubs are equal in two folders."""
    stubs = []
    differing = []
    failing = []
    for exercise in read_catalog(from_environment("EXERCISM")).exercises:
        name = exercise.name
        files = exercise.example_files()
        good = run_tests(files, exercise, tmp_path / "good" / name, unittest=unittest)
        expected = python_counts(good, files, unittest)
        if not is_solved(good, expected, expected):
            failing.append(name)
        stub = exercise.tested_files({})
        folders = [tmp_path / name, tmp_path / "further" / "down" / name]
        runs = [
            run_tests(stub, exercise, folder, unittest=unittest) for folder in folders
        ]
        if is_solved(runs[0], python_counts(runs[0], stub, unittest), expected):
            stubs.append(name)
        texts = {
            cleaned_output(run.output, name, [str(folder)])
            for run, folder in zip(runs, folders, strict=True)
        }
        if len(texts) > 1:
            differing.append(name)
    assert (failing, stubs, differing) == ([], ["ledger", "markdown"], [])
