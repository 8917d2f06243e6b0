from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from swe_retry_exercises.canitedit.problems import (
    KINDS,
    InstructionKind,
    Problem,
    load_problems,
)
from swe_retry_exercises.canitedit.results import (
    CompletionFile,
    EvaluatedProgram,
    Status,
    read_file,
    write_file,
)
from tests.support.provider import Answer, Provider

ROWS = Path(__file__).parents[1] / "canitedit/problems.jsonl"


def problems() -> tuple[Problem, ...]:
    """Return the six problems."""
    return load_problems(str(ROWS))


def passed(
    program: str,
    coverage: int = 100,
    missing: tuple[int, ...] = (),
) -> EvaluatedProgram:
    """Return the result of a program whose tests passed."""
    return EvaluatedProgram(
        program_no_test=program,
        status="OK",
        exit_code=0,
        coverage=coverage,
        coverage_missing=missing,
    )


def failed(program: str, status: Status = "Exception") -> EvaluatedProgram:
    """Return the result of a program whose tests failed."""
    return EvaluatedProgram(
        program_no_test=program, status=status, exit_code=1, stderr="E"
    )


def completion_file(
    problem: Problem,
    kind: InstructionKind = "lazy",
    results: Sequence[EvaluatedProgram] = (),
    **values: Any,
) -> CompletionFile:
    """Return a file of a problem, with these results or completions."""
    content = {**problem.model_dump(), **values, "results": list(results)}
    content["instr_kind"] = f"instruction_{kind}"
    return CompletionFile.model_validate(content)


def evaluated(
    problem: Problem,
    kind: InstructionKind = "lazy",
    good: int = 1,
    of: int = 2,
    **sampling: Any,
) -> CompletionFile:
    """Return a file in which ``good`` of the completions are the solution, the others nothing."""
    after = passed(f"{problem.after}\n")
    before = failed(f"{problem.before}\n")
    results = (after,) * good + (before,) * (of - good)
    programs = tuple(result.program_no_test for result in results)
    values = {"temperature": 0.2, "top_p": 0.95, "max_tokens": 3072, **sampling}
    return completion_file(problem, kind, results, completions=programs, **values)


def write_folder(
    folder: Path,
    good: Iterable[int],
    of: int = 2,
    **sampling: Any,
) -> Path:
    """Write both files of each problem, with so many good completions of each; lazy ones fewer."""
    for problem, number in zip(problems(), good, strict=True):
        lazy = max(number - 1, 0)
        for kind, count in zip(KINDS, (number, lazy), strict=True):
            write_file(folder, evaluated(problem, kind, count, of, **sampling))
    return folder


def plain(path: Path) -> dict[str, Any]:
    """Return the JSON in a file."""
    content: dict[str, Any] = json.loads(gzip.decompress(path.read_bytes()))
    return content


def write_plain(path: Path, value: Mapping[str, Any] | list[Any]) -> Path:
    """Write JSON as others do."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(json.dumps(value).encode()))
    return path


RUN = "r"


def run_options(out: Path, url: str, *options: str) -> list[str]:
    """Return the options of a run ``r``, of which later ones override earlier ones."""
    return [
        "--models",
        "gpt-4o",
        "--api-base",
        url,
        "--set",
        f"problems.source={ROWS}",
        "--run",
        RUN,
        "--out",
        str(out),
        "--set",
        f"folders.cache={out / 'cache'}",
        "--completions",
        "2",
        "--set",
        "calls.retries=0",
        *options,
    ]


def run_folder(out: Path) -> Path:
    return out / "predictions" / RUN


def files(out: Path, model: str = "gpt-4o") -> dict[str, CompletionFile]:
    """Return what a run wrote for a model, by name of the file."""
    paths = sorted((run_folder(out) / model).glob("*.json.gz"))
    return {path.name: read_file(path) for path in paths}


def bytes_of(out: Path) -> dict[str, bytes]:
    """Return the files of completions by name."""
    return {
        path.name: path.read_bytes() for path in (run_folder(out) / "gpt-4o").iterdir()
    }


def asked_text(request: dict[str, Any]) -> str:
    """Return the part of a request that is about the problem."""
    return str(
        request["prompt"] if "prompt" in request else request["messages"][-1]["content"]
    )


def problem_of(request: dict[str, Any]) -> Problem:
    """Return the problem that a request is about."""
    (problem,) = (each for each in problems() if each.before in asked_text(request))
    return problem


class Solver(Provider):
    """Answers by what is asked alone, so that the order of requests changes nothing.

    Attributes:
        hang: seconds before each answer.
    """

    hang = 0.0

    def answer(self, request: dict[str, Any]) -> Answer:
        return Answer(self.text(problem_of(request), request), hang=self.hang)

    def text(self, problem: Problem, request: dict[str, Any]) -> str:
        """Return a solution in a fence, and another comment for each seed."""
        return f"Here:\n```py\n# {request['seed']}\n{problem.after}\n```\n"


def by_seed(requests: Sequence[dict[str, Any]]) -> list[int]:
    """Return the seeds of requests, in order."""
    return sorted(request["seed"] for request in requests)
