"""All examples pass: the 133 exercises that ``EXERCISM`` names, and those of ``POLYGLOT``."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from exercises.tests.support.exercism import profile_of
from swe_retry.core.errors import InfrastructureError
from swe_retry.environments.base import EnvironmentKind
from swe_retry_exercises.exercism.catalog import Exercise, read_catalog
from swe_retry_exercises.exercism.languages import LANGUAGES
from swe_retry_exercises.exercism.tester import (
    ExerciseTester,
    prepare,
    usable_languages,
)
from tests.support import from_environment


def failing_and_solved(
    chosen: Sequence[Exercise],
    cache: Path,
    unittest: bool,
) -> tuple[list[str], list[str]]:
    """Return the names of the exercises whose example fails, and whose stub is solved."""
    profile = profile_of(unittest, 600)
    tester = ExerciseTester(profile, EnvironmentKind.LOCAL, cache, "all")

    def outcome(exercise: Exercise) -> tuple[bool, bool]:
        try:
            solved = tester.test(exercise, exercise.stubs()).solved
        except InfrastructureError:
            # The example, which may have further files, was tested first.
            return False, False
        good = True
        if set(exercise.example_files()) == set(exercise.tested_files({})):
            good = tester.test(exercise, exercise.example()).solved
        return good, solved

    with ThreadPoolExecutor(2) as pool:
        outcomes = list(pool.map(outcome, chosen))
    tester.close()
    failing = []
    solved_stubs = []
    for exercise, (good, solved) in zip(chosen, outcomes, strict=True):
        if not good:
            failing.append(exercise.name)
        if solved:
            solved_stubs.append(exercise.name)
    return failing, solved_stubs


@pytest.mark.long
@pytest.mark.parametrize("unittest", [True, False])
def test_all_133_examples_pass_and_two_stubs_do(tmp_path: Path, unittest: bool) -> None:
    chosen = read_catalog(from_environment("EXERCISM")).exercises
    assert len(chosen) == 133
    failing, solved = failing_and_solved(chosen, tmp_path, unittest)
    assert failing == []
    assert solved == ["ledger", "markdown"]


@pytest.mark.long
@pytest.mark.parametrize("language", LANGUAGES)
def test_the_examples_of_a_language_pass(tmp_path: Path, language: str) -> None:
    """Exercises whose packages cannot be had are skipped."""
    catalog = read_catalog(from_environment("POLYGLOT"))
    exercises = [e for e in catalog.exercises if e.language == language]
    profile = profile_of(False, 600)
    versions, reasons = usable_languages([language], profile, EnvironmentKind.LOCAL)
    if language not in versions:
        pytest.skip(reasons[language])
    skipped = prepare(exercises, tmp_path)
    chosen = [exercise for exercise in exercises if exercise.key not in skipped]
    if not chosen:
        pytest.skip(next(iter(skipped.values())))
    failing, _ = failing_and_solved(chosen, tmp_path, False)
    assert failing == []
