"""Long: the published problems and a recorded run, executed with the published libraries.

The environment variables are those of ``test_recorded_run``. The virtual environment is made once
in the user's cache; where PyTorch is to come from is up to the variables of uv.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from environments.base import EnvironmentKind
from exercises.canitedit.evaluation.evaluate import TIMED
from exercises.canitedit.evaluation.running import EnvironmentSource, _python
from exercises.canitedit.problems import InstructionKind, load_problems
from exercises.canitedit.reporting.command import main
from exercises.canitedit.results import (
    Completion,
    Decoding,
    EvaluatedProgram,
    ProblemFile,
    file_name,
    read_file,
    write_file,
)
from runs.settings import default_cache
from tests.exercises.canitedit.evaluation.test_evaluate import results, run_command
from tests.support import from_environment

pytestmark = pytest.mark.long
BOTH = tuple(InstructionKind)


def evaluate(*words: object, cache: Path) -> None:
    source = EnvironmentSource(EnvironmentKind.LOCAL, None, default_cache())
    python = _python(source, lambda: None, print)
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
        made = tuple(
            Completion(program=text) for text in (problem.after, problem.before)
        )
        write_file(tmp_path, ProblemFile(problem, BOTH[0], Decoding(), made))
    evaluate(tmp_path, cache=tmp_path)
    ended = [
        read_file(tmp_path / file_name(p, BOTH[0], evaluated=True)).results
        for p in problems
    ]
    assert len(ended) == 105
    assert all(after.passed and after.coverage == 100 for after, _ in ended)
    assert not any(before.passed for _, before in ended)


def alike(first: EvaluatedProgram, second: EvaluatedProgram) -> bool:
    """Return whether status and coverage are equal; an unknown coverage is like any other."""
    known = first.coverage is not None and second.coverage is not None
    return first.status is second.status and (
        not known or first.coverage == second.coverage
    )


def test_recorded_programs_without_libraries_end_as_recorded(tmp_path: Path) -> None:
    recorded, again = from_environment("CANITEDIT_RUN"), tmp_path / "again"
    for path in sorted(recorded.glob("*.json.gz")):
        if not read_file(path).problem.taxonomy.libraries:
            shutil.copy(path, tmp_path)
    evaluate(tmp_path, "--set", f"evaluation.output={again}", cache=tmp_path)
    distinct = set[tuple[str, str]]()
    differing = list[str]()
    for path in sorted(again.iterdir()):
        name = read_file(path).problem.full_name
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
        if not read_file(path).problem.taxonomy.libraries and path.name < "11":
            shutil.copy(path, tmp_path)
    for workers in (1, 4):
        cache = tmp_path / f"cache{workers}"
        output = f"evaluation.output={tmp_path / str(workers)}"
        evaluate(tmp_path, "--set", output, "--workers", workers, cache=cache)
    assert results(tmp_path / "1") == results(tmp_path / "4")
