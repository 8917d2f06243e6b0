"""Run one program with its tests in a fresh folder, and judge how it ended."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Annotated

from pydantic import Field, ValidationError

from core.parsing.untrusted import DamagedError, json_of
from environments.folders import FolderCommand, FolderResult, Folders
from environments.limits import ResourceLimits
from exercises.canitedit.evaluation.inside import COVERAGE, LATE, PROGRAM, REPORT
from exercises.canitedit.problems import Checked
from exercises.canitedit.results import ProgramStatus

SECONDS = 15.0
"""A program's time with its tests (public code)."""
LIMITS = ResourceLimits(
    processes=256, memory=4 << 30, file_size=256 << 20, written=512 << 20, temporary=512 << 20,
    output=256 << 10, collected=4 << 20,
)  # fmt: skip
MOST_SHARED = 4
"""The most programs for each processor."""
ATTEMPTS = 3
"""Runs of a program whose tests compare times: the verdict is that of two of them."""
# Coverage slows programs down; the start of Python and the folder are not the program's time.
_COVERAGE_SECONDS = 4 * SECONDS
# In seconds of the clock: a program may wait for a processor for most of its time.
_MOST_CLOCK = 20
_SLACK = 30.0
_SCRIPT = ".inside.py"
# As much as public files hold.
_KEPT = 2048
_ADDRESS = re.compile(r"\b0x[0-9a-f]{6,16}\b")
_LEFT = "the program ended before the last line of its tests\n"
# Half characters, which JSON can hold, make a program that Python refuses.
_ENCODING = ("utf-8", "surrogatepass")
_VARIABLES = {
    "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1",
}  # fmt: skip
_STUBS = {
    "vllm": b"""\
class SamplingParams:
    def __init__(self, *args, **kwargs):
        self.args, self.kwargs = args, kwargs


class LLM:
    def __init__(self, *args, **kwargs):
        self.args, self.kwargs = args, kwargs
"""
}
STUBBED = frozenset(_STUBS)
"""Libraries in whose place a small module is there: their problems replace what they call."""


@dataclass(frozen=True)
class TestedProgram:
    """A program with its tests.

    Attributes:
        alone: its tests compare times.
    """

    __test__ = False

    text: str
    stubs: tuple[str, ...] = ()
    alone: bool = False

    @cached_property
    def sha256(self) -> str:
        return hashlib.sha256("\0".join((self.text, *self.stubs)).encode(*_ENCODING)).hexdigest()

    @property
    def files(self) -> Mapping[str, bytes]:
        stubs = {f"{name}.py": _STUBS[name] for name in self.stubs}
        return {PROGRAM: self.text.encode(*_ENCODING), _SCRIPT: _inside(), **stubs}


class Outcome(Checked):
    """How a program with its tests ended; the values are those of ``EvaluatedProgram``."""

    status: Annotated[ProgramStatus, Field(strict=False)]
    exit_code: int
    stdout: str = ""
    stderr: str = ""
    coverage: Annotated[int, Field(ge=0, le=100)] | None = None
    coverage_missing: Annotated[tuple[int, ...], Field(strict=False)] | None = None

    @property
    def passed(self) -> bool:
        return self.status is ProgramStatus.OK


@cache
def _inside() -> bytes:
    return Path(__file__).with_name("inside.py").read_bytes()


def rules_sha256() -> str:
    """Identify how programs are run here: outcomes under other rules are not comparable."""
    text = repr((SECONDS, LIMITS, _VARIABLES, _STUBS)).encode()
    return hashlib.sha256(text + _inside()).hexdigest()


def outcome_of(folders: Folders, program: TestedProgram) -> Outcome:
    """Run a program, and if it passes again for its coverage.

    One whose tests compare times runs until two verdicts agree.
    """
    found = [run_program(folders, program)]
    while program.alone and all(one.passed is not found[-1].passed for one in found[:-1]):
        found.append(run_program(folders, program))
    outcome = found[-1]
    for _ in range(ATTEMPTS if program.alone else 1):
        if outcome.passed and outcome.coverage is None:
            outcome = _measured(folders, program, outcome)
    return outcome


def run_program(folders: Folders, program: TestedProgram) -> Outcome:
    """Run a program once, without coverage."""
    return _judged(*_result(folders, program, "plain", SECONDS))


def _measured(folders: Folders, program: TestedProgram, outcome: Outcome) -> Outcome:
    result, report = _result(folders, program, "coverage", _COVERAGE_SECONDS)
    if not _judged(result, report).passed:
        return outcome
    try:
        found = json_of(result.files.get(COVERAGE, b""))
        percent = int(found["totals"]["percent_covered_display"])
        [file] = found["files"].values()
        values = {"coverage": percent, "coverage_missing": tuple(file["missing_lines"])}
        return Outcome.model_validate({**outcome.model_dump(), **values})
    except (DamagedError, ValidationError, LookupError, TypeError, ValueError):
        return outcome


@dataclass(frozen=True)
class _Report:
    late: bool
    exit_code: int
    passed: bool


def _result(
    folders: Folders, program: TestedProgram, mode: str, seconds: float
) -> tuple[FolderResult, _Report | None]:
    secret, most = secrets.token_hex(16), _MOST_CLOCK * seconds
    command = FolderCommand(
        argv=("python", _SCRIPT, mode, f"{seconds:g}", f"{most:g}"),
        files=program.files,
        timeout=most + _SLACK,
        variables=_VARIABLES,
        stdin=secret.encode(),
        collect=(REPORT, COVERAGE),
        separate=True,
    )
    for _ in range(ATTEMPTS):
        result = folders.run(command)
        # The script has written its report when it ends so: a container that could not be cleaned
        # in time took it along.
        if result.exit_code != 0 or REPORT in result.files:
            break
    return result, _report(result, secret)


def _report(result: FolderResult, secret: str) -> _Report | None:
    try:
        words, code, shown = result.files.get(REPORT, b"").decode("ascii").split(" ")
        return _Report(words == LATE, int(code), shown == secret and result.exit_code == 0)
    except ValueError:
        return None


def _judged(result: FolderResult, report: _Report | None) -> Outcome:
    """Return the outcome in the words of the public code.

    A program that exits with 0 before its tests have ended has the status Exception.
    """
    output, errors = _kept(result.output), _kept(result.errors, end=True)
    if report.late if report else result.exit_code is None:
        # The public code keeps no output of these.
        return Outcome(status=ProgramStatus.TIMEOUT, exit_code=-1)
    code = report.exit_code if report else result.exit_code or 0
    if report and report.passed:
        return Outcome(status=ProgramStatus.OK, exit_code=0, stdout=output, stderr=errors)
    refused = code != 0 and "SyntaxError" in result.errors
    status = ProgramStatus.SYNTAX_ERROR if refused else ProgramStatus.EXCEPTION
    errors += _LEFT if code == 0 else ""
    return Outcome(status=status, exit_code=code, stdout=output, stderr=errors)


def _kept(text: str, *, end: bool = False) -> str:
    text = _ADDRESS.sub("0x..", text)
    return text[-_KEPT:] if end else text[:_KEPT]
