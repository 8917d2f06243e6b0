"""Six small problems of our own, and files of completions of them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from exercises.canitedit.problems import InstructionKind, Problem, load_problems
from exercises.canitedit.results import (
    Completion,
    Decoding,
    EvaluatedProgram,
    ProblemFile,
    ProgramStatus,
    write_file,
)

ROWS = Path(__file__).with_name("problems.jsonl")
BOTH = tuple(InstructionKind)


def problems() -> tuple[Problem, ...]:
    """Return the six problems."""
    return load_problems(str(ROWS))


def passed(program: str, coverage: int = 100, missing: tuple[int, ...] = ()) -> EvaluatedProgram:
    """Return the result of a program whose tests passed."""
    return EvaluatedProgram(
        program_no_test=program,
        status=ProgramStatus.OK,
        exit_code=0,
        coverage=coverage,
        coverage_missing=missing,
    )


def failed(program: str, status: ProgramStatus = ProgramStatus.EXCEPTION) -> EvaluatedProgram:
    """Return the result of a program whose tests failed."""
    return EvaluatedProgram(program_no_test=program, status=status, exit_code=1, stderr="E")


def evaluated(
    problem: Problem,
    kind: InstructionKind = InstructionKind.LAZY,
    good: int = 1,
    of: int = 2,
    **sampling: Any,
) -> ProblemFile:
    """Return a file in which ``good`` of the completions are the solution, the others nothing."""
    after, before = passed(f"{problem.after}\n"), failed(f"{problem.before}\n")
    results = (after,) * good + (before,) * (of - good)
    made = tuple(Completion(program=one.program_no_test) for one in results)
    values = {"temperature": 0.2, "top_p": 0.95, "max_tokens": 3072, **sampling}
    return ProblemFile(problem, kind, Decoding(**values), made, results)


def write_folder(folder: Path, good: Iterable[int], of: int = 2, **sampling: Any) -> Path:
    """Write both files of each problem, with so many good completions of each; lazy ones fewer."""
    for problem, number in zip(problems(), good, strict=True):
        lazy = max(number - 1, 0)
        for kind, count in zip(BOTH, (number, lazy), strict=True):
            write_file(folder, evaluated(problem, kind, count, of, **sampling))
    return folder


def plain(path: Path) -> dict[str, Any]:
    """Return the JSON in a file."""
    found: dict[str, Any] = json.loads(gzip.decompress(path.read_bytes()))
    return found


def write_plain(path: Path, value: Mapping[str, Any] | list[Any]) -> Path:
    """Write JSON as others do."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(json.dumps(value).encode()))
    return path
