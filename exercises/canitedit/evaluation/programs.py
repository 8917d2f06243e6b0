"""The programs of a folder of completions: what is read, what runs, and what is written."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from core.errors import DamagedFileError, UserError
from exercises.canitedit.evaluation.outcomes import KeptOutcome
from exercises.canitedit.evaluation.running import STUBBED, TestedProgram
from exercises.canitedit.problems import Problem
from exercises.canitedit.results import (
    COMPLETED,
    EVALUATED,
    EvaluatedProgram,
    ProblemFile,
    read_file,
)

TIMED = frozenset({"47_merge_sort", "55_bm25", "60_unique_number"})
"""Full names of the problems whose tests compare times."""


def read_completions(
    folder: Path, output: Path, rows: Mapping[str, Problem] | None
) -> tuple[ProblemFile, ...]:
    """Return the files with the completions that are to be evaluated.

    Args:
        folder: holds files of completions. Files that have been evaluated are read where there is
            no other of their name and ``output`` is another folder: those of others are so.
        output: where the evaluated files will be.
        rows: problems by their full names, which replace those in the files; None keeps these.

    Raises:
        UserError: there is none, or a file is broken or of another problem.
    """
    if not folder.is_dir():
        raise UserError(f"{folder} is no folder; give one with files *{COMPLETED}")
    paths = {path.name.removesuffix(COMPLETED): path for path in _named(folder, evaluated=False)}
    evaluated = [*_named(folder, evaluated=True)]
    if output.resolve() != folder.resolve():
        paths = {path.name.removesuffix(EVALUATED): path for path in evaluated} | paths
    if not paths and evaluated:
        raise UserError(
            f"{folder} has evaluated files alone; --output DIR evaluates them again into DIR"
        )
    if not paths:
        raise UserError(f"{folder} has no file *{COMPLETED}; give a folder of completions")
    found = [_with_row(path, _read(path), rows) for _, path in sorted(paths.items())]
    return tuple(sorted(found, key=lambda file: (file.problem.id, file.name)))


def _named(folder: Path, *, evaluated: bool) -> Iterator[Path]:
    for path in folder.glob(f"*{COMPLETED}"):
        if path.name.endswith(EVALUATED) is evaluated:
            yield path


def _read(path: Path) -> ProblemFile:
    file = read_file(path)
    if path.name != file.name:
        raise DamagedFileError(path, f"holds what belongs into {file.name}", "rename it")
    if not file.completions:
        return file
    return replace(file, results=())


def _with_row(path: Path, file: ProblemFile, rows: Mapping[str, Problem] | None) -> ProblemFile:
    if rows is None:
        return file
    if file.problem.full_name not in rows:
        raise DamagedFileError(path, "is about a problem that --problems lacks", "take it away")
    return replace(file, problem=rows[file.problem.full_name])


def needed_modules(problem: Problem) -> frozenset[str]:
    """Return the modules outside the standard library that the solution and the tests import."""
    try:
        tree = ast.parse(f"{problem.after}\n{problem.tests}")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset()
    return frozenset(_imported(tree)) - sys.stdlib_module_names


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0]


def tested_programs(file: ProblemFile) -> tuple[TestedProgram, ...]:
    """Return the programs of a file with their tests, one for each completion."""
    stubs = tuple(sorted(STUBBED & needed_modules(file.problem)))
    alone = file.problem.full_name in TIMED
    return tuple(
        TestedProgram(program + file.problem.tests, stubs, alone) for program in _programs(file)
    )


def _programs(file: ProblemFile) -> list[str]:
    """Return the programs without their tests, as files have them."""
    if file.completions:
        return [f"{completion.program}\n" for completion in file.completions]
    return [result.program_no_test for result in file.results]


def evaluated_file(file: ProblemFile, outcomes: Mapping[str, KeptOutcome]) -> ProblemFile:
    """Return a file with how its programs ended; ``outcomes`` are by SHA-256 of the program."""
    results = tuple(
        EvaluatedProgram(program_no_test=text, **outcomes[program.sha256].model_dump(mode="python"))
        for text, program in zip(_programs(file), tested_programs(file), strict=True)
    )
    return replace(file, results=results)
