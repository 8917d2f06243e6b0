"""Long: the published problems and a recorded run, executed with the published libraries.

The environment variables are those of ``test_recorded_run``. The virtual environment is made once
in the user's cache; where PyTorch is to come from is up to the variables of uv.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from exercises.canitedit.evaluation import TIMED, library_python
from exercises.canitedit.problems import load_problems
from exercises.canitedit.report import main
from exercises.canitedit.results import (
    EvaluatedProgram,
    read_file,
    write_file,
)
from runs.settings import default_cache
from tests.exercises.canitedit.test_evaluate import results, run_command
from tests.support import from_environment
from tests.support.canitedit import completion_file

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("needs_bubblewrap")]


def evaluate(*words: object, cache: Path) -> None:
    python = library_python(default_cache(), lambda: None)
    settings = (
        f"evaluation.interpreter={python}",
        f"folders.cache={cache}",
        "report.allow_partial=true",  # some problems of the set are left out
    )
    for setting in settings:
        words += ("--set", setting)
    code, out, err = run_command("report", main, *words)
    assert code == 0, out + err


def test_solutions_pass_with_full_coverage_and_what_was_before_fails(
    tmp_path: Path,
) -> None:
    problems = load_problems(str(from_environment("CANITEDIT_ROWS")))
    for problem in problems:
        programs = (problem.after, problem.before)
        write_file(tmp_path, completion_file(problem, completions=programs))
    evaluate(tmp_path, cache=tmp_path)
    ended = []
    for p in problems:
        ended.append(
            read_file(
                tmp_path / f"{p.full_name}_instruction_lazy.results.json.gz"
            ).results
        )
    assert len(ended) == 105
    assert all(after.has_passed and after.coverage == 100 for after, _ in ended)
    assert not any(before.has_passed for _, before in ended)


def alike(first: EvaluatedProgram, second: EvaluatedProgram) -> bool:
    """Return whether status and coverage are equal; an unknown coverage is like any other."""
    known = first.coverage is not None and second.coverage is not None
    return first.status == second.status and (
        not known or first.coverage == second.coverage
    )


def test_recorded_programs_without_libraries_end_as_recorded(tmp_path: Path) -> None:
    recorded = from_environment("CANITEDIT_RUN")
    again = tmp_path / "again"
    for path in sorted(recorded.glob("*.json.gz")):
        if not read_file(path).taxonomy.libraries:
            shutil.copy(path, tmp_path)
    evaluate(tmp_path, "--set", f"evaluation.output={again}", cache=tmp_path)
    distinct = set[tuple[str, str]]()
    differing = list[str]()
    for path in sorted(again.iterdir()):
        name = read_file(path).full_name
        pairs = zip(
            read_file(recorded / path.name).results,
            read_file(path).results,
            strict=True,
        )
        for before, after in pairs:
            assert before.program_no_test == after.program_no_test
            distinct.add((name, before.program_no_test))
            if name not in TIMED and not alike(before, after):
                differing.append(f"{path.name}: {before} → {after}")
    assert len(distinct) == 1539
    assert not differing


def test_the_number_of_workers_decides_nothing(tmp_path: Path) -> None:
    recorded = from_environment("CANITEDIT_RUN")
    for path in sorted(recorded.glob("*_lazy.results.json.gz")):
        if not read_file(path).taxonomy.libraries and path.name < "11":
            shutil.copy(path, tmp_path)
    for workers in (1, 4):
        cache = tmp_path / f"cache{workers}"
        output = f"evaluation.output={tmp_path / str(workers)}"
        evaluate(tmp_path, "--set", output, "--workers", workers, cache=cache)
    assert results(tmp_path / "1") == results(tmp_path / "4")
