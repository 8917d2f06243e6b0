"""Test solutions of exercises, each in a fresh folder made of the pristine exercise."""

from __future__ import annotations

import json
import secrets
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from core.errors import InfrastructureError, UserError
from core.parsing.untrusted import DamagedError, json_of
from environments.base import EnvironmentKind, UnavailableError
from environments.choice import make_folders
from environments.folders import FOLDER, FolderCommand, FolderResult, Folders
from environments.limits import ResourceLimits
from exercises.exercism.cleaning import cleaned
from exercises.exercism.exercise import Exercise
from exercises.exercism.languages import PYTHON, RUNNER
from exercises.exercism.messages import TIMED_OUT
from exercises.exercism.testing.expected import ExpectedCounts
from exercises.exercism.testing.inside import REPORT
from exercises.exercism.testing.outcome import TestedTry
from exercises.exercism.verdict import ExerciseTestRun, TestCounts, counts_of, is_solved

IMAGE = "python:3.11-slim"
LIMITS = ResourceLimits(
    processes=256, memory=4 << 30, file_size=1 << 30, written=2 << 30, temporary=512 << 20,
    output=4_000_000, collected=16 << 20,
)  # fmt: skip
"""Of all processes of one run of tests; compilers need most of it."""
# The example may take longer than the limit of a short profile allows.
_LEAST_EXAMPLE_SECONDS = 180.0
_PARTS = ("guard", "inside")
# A module in the folder must not take the place of one of Python's.
_FIRST = "import sys\nsys.path[:] = [place for place in sys.path if place]\n"


@dataclass(frozen=True)
class TestSettings:
    """How tests run; ``timeout`` is in seconds for one run.

    Attributes:
        unittest: Python's tests run under unittest, as in profile 2023, else under pytest.
    """

    __test__ = False

    unittest: bool
    timeout: float


@dataclass(frozen=True)
class ExerciseTester:
    """Tests solutions; many threads may call it at once."""

    folders: Folders
    settings: TestSettings
    cache: Path
    identity: str
    most_output: int = LIMITS.output
    _expected: ExpectedCounts = field(init=False)

    def __post_init__(self) -> None:
        made = ExpectedCounts(self.cache / "exercism" / "expected")
        object.__setattr__(self, "_expected", made)

    def test(self, exercise: Exercise, solution: Mapping[str, bytes]) -> TestedTry:
        """Run the tests on the solution files ``solution``; other files are left out.

        The example is tested once to learn how many tests there are.

        Raises:
            InfrastructureError: the environment failed, or the example does not pass here.
        """
        key = (exercise.sha256, self.identity, *self._argv(exercise))
        expected = self._expected.get(key, lambda: self._measured(exercise))
        files = exercise.tested_files(solution)
        result, run = self._run(exercise, files, self.settings.timeout)
        counts = counts_of(run, files) if exercise.rules.reports else None
        solved = is_solved(run, counts, expected)
        if run.timed_out:
            return TestedTry(False, True, TIMED_OUT, None, result.seconds)
        output = cleaned(run.output, exercise.name, [FOLDER])
        if too_long := len(run.output.encode("utf-8", "replace")) > self.most_output:
            output += f"\nerror: the output is longer than {self.most_output:,} bytes\n"
        return TestedTry(solved and not too_long, False, output, counts, result.seconds)

    def close(self) -> None:
        """Release the environment; safe to call twice."""
        self.folders.stop()

    def _measured(self, exercise: Exercise) -> TestCounts | None:
        files = exercise.example_files()
        seconds = max(self.settings.timeout, _LEAST_EXAMPLE_SECONDS)
        _, run = self._run(exercise, files, seconds)
        counts = counts_of(run, files) if exercise.rules.reports else None
        if not is_solved(run, counts, counts):
            lines = cleaned(run.output, exercise.name, [FOLDER]).strip().splitlines()
            said = "a time-out" if run.timed_out else lines[-1][:200] if lines else "no output"
            raise InfrastructureError(
                f"the example of {exercise.key} does not pass its tests here ({said})"
            )
        return counts

    def _run(
        self, exercise: Exercise, files: Mapping[str, bytes], seconds: float
    ) -> tuple[FolderResult, ExerciseTestRun]:
        secret = secrets.token_hex(16)
        told = {"secret": secret, "solution": exercise.solution}
        result = self.folders.run(
            FolderCommand(
                argv=self._argv(exercise),
                files=files,
                timeout=seconds,
                variables=dict(exercise.rules.environment),
                stdin=json.dumps(told).encode() if exercise.rules.reports else b"",
                collect=(REPORT,) if exercise.rules.reports else (),
            )
        )
        report = _report(result.files.get(REPORT, b""), secret)
        run = ExerciseTestRun(
            result.exit_code, result.timed_out, result.output, report, self.settings.unittest
        )
        return result, run

    def _argv(self, exercise: Exercise) -> tuple[str, ...]:
        rules = exercise.rules
        named = {PYTHON: "python", RUNNER: script()}
        words = rules.unittest_command if self.settings.unittest else rules.test_command
        return tuple(named.get(word, word) for word in words or rules.test_command)


@cache
def script() -> str:
    """Return the text of the script that runs Python tests; see ``inside``."""
    here = Path(__file__)
    return _FIRST + "".join(here.with_name(f"{name}.py").read_text() for name in _PARTS)


def _report(data: bytes, secret: str) -> str:
    """Return the report of a file that holds the secret, empty for another file."""
    try:
        value = json_of(data)
    except DamagedError:
        return ""
    if not isinstance(value, dict) or value.get("secret") != secret:
        return ""
    report = value.get("report")
    return report if isinstance(report, str) else ""


def make_tester(
    kind: EnvironmentKind,
    settings: TestSettings,
    cache: Path,
    run_key: str,
    check: Callable[[], None],
    warn_once: Callable[[str], None],
    python: Path | None = None,
    image: str = IMAGE,
    limits: ResourceLimits = LIMITS,
) -> ExerciseTester:
    """Return a tester; ``close`` it at the end.

    Args:
        kind: local or Docker.
        settings: how tests run.
        cache: the harness's; counts of examples are kept below it.
        run_key: marks containers and cgroups, to remove them after a crash.
        check: raises when the run stops: running tests are killed then.
        warn_once: takes a message for each limit that cannot be set here.
        python: for local, an interpreter with pytest; None for this one.
        image: for Docker, with python and pytest.
        limits: of each run of tests.

    Raises:
        UserError: the environment cannot be used.
        InfrastructureError: the engine failed.
    """
    interpreter = python or Path(sys.executable)
    try:
        folders = make_folders(
            kind, interpreter, image, limits=limits, run_key=run_key, check=check,
            warn_once=warn_once,
        )  # fmt: skip
    except UnavailableError as error:
        raise UserError(str(error)) from error
    place = image if kind is EnvironmentKind.DOCKER else str(interpreter)
    return ExerciseTester(folders, settings, cache, f"{kind.value} {place}", limits.output)
