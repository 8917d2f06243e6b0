"""The files of completions and of their evaluation, in the layout of the public results.

``<full_name>_<instruction kind>.json.gz`` holds the completions of a problem,
``<full_name>_<instruction kind>.results.json.gz`` the same and how each program ended. Files of
others may lack keys, have keys of their own, or be hostile: what is read is bounded and checked.
"""

from __future__ import annotations

import gzip
import json
import zlib
from io import BytesIO
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import Field, ValidationError, model_validator

from swe_retry.kit import (
    DamagedError,
    DamagedFileError,
    fault_of,
    json_of,
    read_bytes,
    write_bytes_atomic,
)
from swe_retry_exercises.canitedit.problems import Checked, Problem

EVALUATED = ".results.json.gz"
COMPLETED = ".json.gz"
MOST_UNPACKED = 64 << 20
"""The largest content of a file; those of the recorded run have 0.4 MiB at most."""
_FIX = "write it again, or leave it out by report.allow_partial=true"
T = TypeVar("T")
_List = Annotated[tuple[T, ...], Field(strict=False)]
Status = Literal["OK", "Timeout", "SyntaxError", "Exception"]
"""How a program with its tests ended."""


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
    status: Status
    exit_code: int
    coverage: Annotated[int, Field(ge=0, le=100)] | None = None
    coverage_missing: _List[int] | None = None
    stdout: str = ""
    stderr: str = ""
    timestamp: int | float = 0

    @property
    def has_passed(self) -> bool:
        return self.status == "OK" and self.exit_code == 0


class CompletionFile(Problem):
    """A file: a problem, the completions for one instruction, and how their programs ended.

    Attributes:
        temperature, top_p, max_tokens: None where a file does not say it.
        completions: programs, empty where a reply holds none; none in an evaluated file of others.
        replies, truncated, tokens, cost: a value for each completion, None where it is unknown;
            empty in files of others. Costs are dollars as text.
        results: one for each completion in their order; empty before the evaluation.
    """

    instr_kind: Annotated[str, Field(pattern="^instruction_(descriptive|lazy)$")]
    prompt: Any = ""
    language: Any = "py"
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    stop_tokens: _List[str] = ()
    script_args: dict[str, Any] = Field(default_factory=dict)
    completions: _List[str] = ()
    replies: _List[str | None] = ()
    truncated: _List[bool | None] = ()
    tokens: _List[dict[str, Annotated[int, Field(ge=0)]] | None] = ()
    cost: _List[str | None] = ()
    results: _List[EvaluatedProgram] = ()

    @model_validator(mode="before")
    @classmethod
    def _read_other_layouts(cls, values: Any) -> Any:  # noqa: ANN401 - any JSON value
        if not isinstance(values, dict):
            return values
        content = dict(values)
        completions = content.get("completions", ())
        if isinstance(completions, list):
            # The public code of 2025 wraps a completion in an object.
            content["completions"] = [_text_of(item) for item in completions]
        for name in _LISTS:
            # Keys of others may have these names: only lists of the same length are ours.
            items = content.get(name, ())
            if not isinstance(items, (list, tuple)) or len(items) != len(completions):
                content.pop(name, None)
        results = content.get("results")
        if isinstance(results, list):
            tests = content.get("tests")
            content["results"] = [_with_program(result, tests) for result in results]
        return content

    @model_validator(mode="after")
    def _check_numbers(self) -> Self:
        completions = len(self.completions)
        results = len(self.results)
        if not completions and not results:
            raise ValueError("it has neither completions nor results")
        if completions and results and completions != results:
            raise ValueError(f"{completions} completions have {results} results")
        return self

    @property
    def kind(self) -> str:
        return self.instr_kind.removeprefix("instruction_")

    @property
    def programs(self) -> list[str]:
        """The programs as they run, each without its tests."""
        if self.completions:
            return [f"{program}\n" for program in self.completions]
        return [result.program_no_test for result in self.results]

    @property
    def file_name(self) -> str:
        ending = EVALUATED if self.results else COMPLETED
        return f"{self.full_name}_{self.instr_kind}{ending}"


_LISTS = ("replies", "truncated", "tokens", "cost")
"""Keys beside ``completions`` with a value for each."""


def _text_of(completion: object) -> object:
    if isinstance(completion, dict):
        return completion.get("content")
    return completion


def _with_program(result: object, tests: object) -> object:
    """Return a result with ``program_no_test``, which files of 2023 lack."""
    if not isinstance(result, dict) or "program_no_test" in result:
        return result
    program = str(result.get("program"))
    if not isinstance(tests, str) or not program.endswith(tests):
        raise ValueError(
            "a result has neither program_no_test nor a program with the tests"
        )
    return {**result, "program_no_test": program.removesuffix(tests)}


def write_file(folder: Path, file: CompletionFile) -> Path:
    """Write a file atomically, and return its path; equal content gives equal bytes."""
    content = file.model_dump(mode="json")
    for name in ("completions", *_LISTS):
        if all(value is None for value in content[name]):
            del content[name]
    results = []
    for result in content.pop("results"):
        program = result["program_no_test"] + file.tests
        results.append({"program": program, **result})
    if results:
        content["results"] = results
    data = json.dumps(content, ensure_ascii=False).encode("utf-8", "backslashreplace")
    path = folder / file.file_name
    write_bytes_atomic(path, gzip.compress(data, mtime=0))
    return path


def read_file(path: Path) -> CompletionFile:
    """Return the content of a file of completions, evaluated or not."""
    try:
        content = json_of(_gunzip(read_bytes(path, MOST_UNPACKED)))
        file = CompletionFile.model_validate(content)
    except OSError as error:
        problem = f"cannot be read ({error.strerror or error})"
        raise DamagedFileError(path, problem, _FIX) from error
    except ValidationError as error:
        problem = f"is broken ({fault_of(error)})"
        raise DamagedFileError(path, problem, _FIX) from error
    except DamagedError as error:
        raise DamagedFileError(path, f"is broken ({error})", _FIX) from error
    if path.name != file.file_name:
        problem = f"holds what belongs into {file.file_name}"
        raise DamagedFileError(path, problem, "rename it, or take it away")
    return file


def _gunzip(data: bytes) -> bytes:
    """Return the content of gzip data, of which at most ``MOST_UNPACKED`` bytes are unpacked."""
    try:
        with gzip.open(BytesIO(data)) as stream:
            content = stream.read(MOST_UNPACKED + 1)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DamagedError(f"it is not a complete gzip file: {error}") from error
    if len(content) > MOST_UNPACKED:
        raise DamagedError(f"it unpacks to more than {MOST_UNPACKED:,} bytes")
    return content
