"""Long: the published problems and a recorded run, executed with the published libraries.

The environment variables are those of ``test_recorded_run``. The virtual environment is made once
in the user's cache; where PyTorch is to come from is up to the variables of uv.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from exercises.tests.canitedit.test_evaluate import results
from exercises.tests.commands import CANITEDIT
from exercises.tests.support.canitedit import completion_file
from swe_retry.runner.settings import default_cache
from swe_retry_exercises.canitedit.evaluation import TIMED, library_python
from swe_retry_exercises.canitedit.problems import load_problems
from swe_retry_exercises.canitedit.results import (
    EvaluatedProgram,
    read_file,
    write_file,
)
from tests.support import from_environment

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("needs_bubblewrap")]


def evaluate(arguments: str, cache: Path) -> None:
    python = library_python(default_cache(), lambda: None)
    line = f"report {arguments} --set evaluation.interpreter={python}"
    # Some problems of the set are left out.
    CANITEDIT.output(
        f"{line} --set folders.cache={cache} --set report.allow_partial=true"
    )


def test_solutions_pass_with_full_coverage_and_what_was_before_fails(
    tmp_path: Path,
) -> None:
    problems = load_problems(str(from_environment("CANITEDIT_ROWS")))
    for problem in problems:
        programs = (problem.after, problem.before)
        write_file(tmp_path, completion_file(problem, completions=programs))
    evaluate(f"{tmp_path}", tmp_path)
    assert len(problems) == 105
    for problem in problems:
        name = f"{problem.full_name}_instruction_lazy.results.json.gz"
        after, before = read_file(tmp_path / name).results
        assert after.has_passed, name
        assert after.coverage == 100, name
        assert not before.has_passed, name


def ends_alike(first: EvaluatedProgram, second: EvaluatedProgram) -> bool:
    """Return whether status and coverage are equal; an unknown coverage is like any other."""
    if first.status != second.status:
        return False
    return (
        None in (first.coverage, second.coverage) or first.coverage == second.coverage
    )


def copy_without_libraries(pattern: str, folder: Path) -> Path:
    """Copy files of the recorded run whose problems need no library."""
    recorded = from_environment("CANITEDIT_RUN")
    for path in sorted(recorded.glob(pattern)):
        if not read_file(path).taxonomy.libraries:
            shutil.copy(path, folder)
    return recorded


def test_recorded_programs_without_libraries_end_as_recorded(tmp_path: Path) -> None:
    recorded = copy_without_libraries("*.json.gz", tmp_path)
    again = tmp_path / "again"
    evaluate(f"{tmp_path} --set evaluation.output={again}", tmp_path)
    distinct = set[tuple[str, str]]()
    differing = list[str]()
    for path in sorted(again.iterdir()):
        file = read_file(path)
        before_results = read_file(recorded / path.name).results
        for before, after in zip(before_results, file.results, strict=True):
            assert before.program_no_test == after.program_no_test
            distinct.add((file.full_name, before.program_no_test))
            if file.full_name not in TIMED and not ends_alike(before, after):
                differing.append(f"{path.name}: {before} → {after}")
    assert len(distinct) == 1539
    assert not differing


def test_the_number_of_workers_decides_nothing(tmp_path: Path) -> None:
    copy_without_libraries("10*_lazy.results.json.gz", tmp_path)
    for workers in ("1", "4"):
        output = tmp_path / workers
        options = f"--set evaluation.output={output} --workers {workers}"
        evaluate(f"{tmp_path} {options}", tmp_path / f"cache{workers}")
    assert results(tmp_path / "1") == results(tmp_path / "4")
