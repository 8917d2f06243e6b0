"""The files of completions and of their evaluation, in the layout of the public results.

``<full_name>_<instruction kind>.json.gz`` holds the completions of a problem,
``<full_name>_<instruction kind>.results.json.gz`` the same and how each program ended. Files of
others may lack keys, have keys of their own, or be hostile: what is read is bounded and checked.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from io import BytesIO
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from core.atomic import write_bytes_atomic
from core.errors import DamagedFileError
from core.parsing.untrusted import MIB, DamagedError, json_of, read_bytes
from exercises.canitedit.problems import Checked, InstructionKind, Problem, words_of

EVALUATED = ".results.json.gz"
COMPLETED = ".json.gz"
MOST_UNPACKED = 64 * MIB
"""The largest content of a file; those of the recorded run have 0.4 MiB at most."""
_FIX = "write it again, or leave it out by report.allow_partial=true"


class ProgramStatus(str, Enum):
    """How a program with its tests ended."""

    OK = "OK"
    TIMEOUT = "Timeout"
    SYNTAX_ERROR = "SyntaxError"
    EXCEPTION = "Exception"


class TokenCounts(Checked):
    prompt_tokens: Annotated[int, Field(ge=0)] = 0
    completion_tokens: Annotated[int, Field(ge=0)] = 0


class Completion(Checked):
    """An edited program, and what is known of the reply that holds it.

    Attributes:
        program: extracted from the reply; empty if it holds none.
        reply: as the model sent it; None in files of others.
        truncated: the limit of tokens cut the reply off; None if unknown.
        cost: in dollars, as text; None if unknown.
    """

    program: str
    reply: str | None = None
    truncated: bool | None = None
    tokens: TokenCounts | None = None
    cost: str | None = None


class EvaluatedProgram(Checked):
    """How a program with its tests ended.

    Attributes:
        program_no_test: the program; ``program`` in files is this and the tests. Empty in an
            outcome of which several programs may be.
        coverage: whole per cent of its statements that ran; None if it failed or is unknown.
        coverage_missing: the lines that did not run, from 1.
        timestamp: seconds since 1970.
    """

    program_no_test: str = ""
    status: Annotated[ProgramStatus, Field(strict=False)]
    exit_code: int
    coverage: Annotated[int, Field(ge=0, le=100)] | None = None
    coverage_missing: Annotated[tuple[int, ...], Field(strict=False)] | None = None
    stdout: str = ""
    stderr: str = ""
    timestamp: int | float = 0

    @property
    def passed(self) -> bool:
        return self.status is ProgramStatus.OK and self.exit_code == 0


class Decoding(Checked):
    """With what the completions were asked for; None where a file does not say it."""

    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    stop_tokens: Annotated[tuple[str, ...], Field(strict=False)] = ()
    script_args: dict[str, Any] = Field(default_factory=dict)

    @property
    def prompt(self) -> str | None:
        """The prompt, if the file names one."""
        prompt = self.script_args.get("prompt")
        return prompt if isinstance(prompt, str) else None


@dataclass(frozen=True)
class ProblemFile:
    """The content of one file.

    Attributes:
        completions: empty in an evaluated file of others, which has only the programs.
        results: one for each completion in their order; empty before the evaluation.
    """

    problem: Problem
    kind: InstructionKind
    sampling: Decoding
    completions: tuple[Completion, ...] = ()
    results: tuple[EvaluatedProgram, ...] = ()

    @property
    def name(self) -> str:
        return file_name(self.problem, self.kind, evaluated=bool(self.results))


def file_name(problem: Problem, kind: InstructionKind, *, evaluated: bool) -> str:
    return f"{problem.full_name}_{kind.key}{EVALUATED if evaluated else COMPLETED}"


def write_file(folder: Path, content: ProblemFile) -> Path:
    """Write a file atomically, and return its path; equal content gives equal bytes."""
    made = content.completions
    plain = {**content.problem.row(), "instr_kind": content.kind.key, "prompt": ""}
    plain |= {"language": "py", **content.sampling.model_dump(mode="json")}
    if made:
        plain["completions"] = [completion.program for completion in made]
        for key, name in _LISTS.items():
            values = [completion.model_dump(mode="json")[name] for completion in made]
            plain |= {key: values} if any(value is not None for value in values) else {}
    if content.results:
        tests = content.problem.tests
        plain["results"] = [
            {
                "program": result.program_no_test + tests,
                **result.model_dump(mode="json"),
            }
            for result in content.results
        ]
    path = folder / content.name
    data = json.dumps(plain, ensure_ascii=False).encode("utf-8", "backslashreplace")
    write_bytes_atomic(path, gzip.compress(data, mtime=0))
    return path


# Lists beside ``completions``, which hold one value for each, and the names of the values here.
_LISTS = {"replies": "reply"} | {key: key for key in ("truncated", "tokens", "cost")}
_RESULTS = TypeAdapter(Annotated[tuple[EvaluatedProgram, ...], Field(strict=False)])
_COMPLETIONS = TypeAdapter(Annotated[tuple[Completion, ...], Field(strict=False)])


def read_file(path: Path) -> ProblemFile:
    """Return the content of a file of completions, evaluated or not."""
    try:
        content = json_of(_unpacked(read_bytes(path, MOST_UNPACKED)))
        file = _content(content if isinstance(content, dict) else {})
    except OSError as error:
        words = f"cannot be read ({error.strerror or error})"
        raise DamagedFileError(path, words, _FIX) from error
    except ValidationError as error:
        raise DamagedFileError(path, f"is broken ({words_of(error)})", _FIX) from error
    except DamagedError as error:
        raise DamagedFileError(path, f"is broken ({error})", _FIX) from error
    if path.name != file.name:
        fix = "rename it, or take it away"
        raise DamagedFileError(path, f"holds what belongs into {file.name}", fix)
    return file


def _unpacked(data: bytes) -> bytes:
    """Return the content of gzip data, of which at most ``MOST_UNPACKED`` bytes are unpacked."""
    try:
        with gzip.open(BytesIO(data)) as stream:
            content = stream.read(MOST_UNPACKED + 1)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DamagedError(f"it is not a complete gzip file: {error}") from error
    if len(content) > MOST_UNPACKED:
        raise DamagedError(f"it unpacks to more than {MOST_UNPACKED:,} bytes")
    return content


def _content(plain: Mapping[str, Any]) -> ProblemFile:
    problem = Problem.model_validate(plain)
    kind = next(
        (one for one in InstructionKind if one.key == plain.get("instr_kind")), None
    )
    if kind is None:
        names = " or ".join(one.key for one in InstructionKind)
        raise DamagedError(f"instr_kind is not {names}")
    values = plain.get("results", [])
    if isinstance(values, list):
        values = [_with_program(value, problem.tests) for value in values]
    results = _RESULTS.validate_python(values)
    completions = _completions(plain)
    if completions and results and len(completions) != len(results):
        raise DamagedError(
            f"{len(completions)} completions have {len(results)} results"
        )
    if not completions and not results:
        raise DamagedError("it has neither completions nor results")
    sampling = Decoding.model_validate(plain)
    return ProblemFile(problem, kind, sampling, completions, results)


def _with_program(value: object, tests: str) -> object:
    """Return a result with ``program_no_test``, which files of 2023 lack."""
    if not isinstance(value, dict) or "program_no_test" in value:
        return value
    program = value.get("program")
    if not isinstance(program, str) or not program.endswith(tests):
        raise DamagedError(
            "a result has neither program_no_test nor a program with the tests"
        )
    return {**value, "program_no_test": program.removesuffix(tests)}


def _completions(plain: Mapping[str, Any]) -> tuple[Completion, ...]:
    programs = plain.get("completions", [])
    if not isinstance(programs, list):
        raise DamagedError("completions is not a list")
    # The public code of 2025 wraps a completion in an object.
    texts = (one.get("content") if isinstance(one, dict) else one for one in programs)
    made = [{"program": text} for text in texts]
    for key, name in _LISTS.items():
        values = plain.get(key)
        # Keys of others may have these names: only lists of the same length are ours.
        if isinstance(values, list) and len(values) == len(made):
            for one, value in zip(made, values, strict=True):
                one[name] = value
    return _COMPLETIONS.validate_python(made)
