"""Test solutions of exercises, each in a fresh folder made of the pristine exercise."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import SystemRandom

from core.errors import InfrastructureError, UserError
from environments.base import EnvironmentKind
from environments.folders import FolderCommand, FolderResult
from environments.limits import ResourceLimits
from exercises.exercism.cleaning import cleaned
from exercises.exercism.exercise import Exercise, tree_hash
from exercises.exercism.languages import LANGUAGES, REPORT
from exercises.exercism.messages import TIMED_OUT
from exercises.exercism.testing.altered import altered, test_names
from exercises.exercism.testing.commands import argv_of, placed, seen_folders, version_argv
from exercises.exercism.testing.expected import ExpectedCounts
from exercises.exercism.testing.outcome import TestedTry
from exercises.exercism.testing.places import LanguagePlaces
from exercises.exercism.testing.preparing import prepared_folder
from exercises.exercism.verdict import (
    ExerciseTestRun,
    TestCounts,
    counts_of,
    failing_tests,
    is_solved,
    printed_counts,
)

IMAGE = "python:3.11-slim"
LIMITS = ResourceLimits(
    processes=512, memory=4 << 30, file_size=1 << 30, written=2 << 30, temporary=1 << 30,
    output=4_000_000, collected=16 << 20,
)  # fmt: skip
"""Of all processes of one run of tests; compilers need most of it."""
# The example may take longer than a short limit allows, on a busy machine too.
_LEAST_EXAMPLE_SECONDS = 600.0
_LEAST_ALTERED_SECONDS = 60.0
_VERSION_SECONDS = 60.0
_SHOWN = 200
_CHANCE = SystemRandom()
_NOT_KNOWN = "error: the tests do not fail as they must where a false value is expected"


@dataclass(frozen=True)
class TestSettings:
    """How tests run.

    Attributes:
        unittest: Python's tests run under unittest, as in profile 2023, else under pytest.
        timeout: seconds for one run.
    """

    __test__ = False

    unittest: bool
    timeout: float


@dataclass(frozen=True)
class ExerciseTester:
    """Tests solutions; many threads may call it at once."""

    settings: TestSettings
    places: LanguagePlaces
    _expected: ExpectedCounts
    _versions: dict[str, str] = field(default_factory=dict)
    _right: set[tuple[str, str]] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def test(self, exercise: Exercise, solution: Mapping[str, bytes]) -> TestedTry:
        """Run the tests on the solution files ``solution``; other files are left out.

        The example is tested once to learn how many tests there are.

        Raises:
            InfrastructureError: the environment failed, or the example does not pass here.
            UserError: the environment or the tools cannot be used.
        """
        expected = self._expected.get(self._key(exercise), lambda: self._measured(exercise))
        files = exercise.tested_files(solution)
        result, run = self._run(exercise, files, self.settings.timeout)
        if run.timed_out:
            return TestedTry(False, True, TIMED_OUT, None, result.seconds)
        counts = _counts(exercise, run, files)
        output, most = self._cleaned(exercise, run.output), self.places.limits.output
        solved = is_solved(run, counts, expected)
        if len(run.output.encode("utf-8", "replace")) > most:
            output, solved = f"{output}\nerror: the output has more than {most:,} bytes\n", False
        if solved and exercise.rules.reports and not self._knows(exercise, solution):
            output, solved = f"{output}\n{_NOT_KNOWN}\n", False
        return TestedTry(solved, False, output, counts, result.seconds)

    def _knows(self, exercise: Exercise, solution: Mapping[str, bytes]) -> bool:
        """Tell whether each test fails when, and only when, it expects a false value.

        Half of the tests do at first, and then the others: which ones is not to be seen inside.
        What was seen to be right is right.
        """
        key = exercise.sha256, tree_hash(solution)
        if key in self._right:
            return True
        texts = {path: exercise.text(path) for path in exercise.tests if path.endswith(".py")}
        names = {name for text in texts.values() for name in test_names(text)}
        half = {*_CHANCE.sample(sorted(names), len(names) // 2)}
        halves = [part for part in (half, names - half) if part]
        right = all(self._fails(exercise, solution, texts, part) for part in halves)
        if right:
            self._right.add(key)
        return right

    def _fails(
        self,
        exercise: Exercise,
        solution: Mapping[str, bytes],
        texts: Mapping[str, str],
        false: set[str],
    ) -> bool:
        """Tell whether the tests in ``false`` fail, or those that then fail for the example."""
        tests = {path: altered(text, false, _CHANCE).encode() for path, text in texts.items()}
        found = self._failing(exercise, exercise.tested_files(solution) | tests)
        # A value may be so large that neither ends in time.
        return found == false or found == self._failing(exercise, exercise.example_files() | tests)

    def _failing(self, exercise: Exercise, files: Mapping[str, bytes]) -> set[str] | None:
        _, run = self._run(exercise, files, max(2 * self.settings.timeout, _LEAST_ALTERED_SECONDS))
        return failing_tests(run, files)

    def versions(self, language: str) -> str:
        """Return the versions of a language's tools in a line.

        Raises:
            UserError: they cannot be used.
            InfrastructureError: the environment failed.
        """
        with self._lock:
            if language not in self._versions:
                self._versions[language] = self._asked_versions(language)
            return self._versions[language]

    def _asked_versions(self, language: str) -> str:
        place, rules = self.places.of(language), LANGUAGES[language]
        argv = version_argv(rules, self.settings.unittest)
        variables = {**dict(rules.environment), **place.variables}
        result = place.folders.run(FolderCommand(argv, {}, _VERSION_SECONDS, variables))
        said = " ".join(result.output.split())[-_SHOWN:]
        if result.exit_code != 0:
            raise UserError(f"{argv[0]} cannot test {language} exercises here: {said}")
        return said

    def close(self) -> None:
        """Release the environment; safe to call twice."""
        self.places.stop()

    def _key(self, exercise: Exercise) -> tuple[str, ...]:
        """Return what decides the counts of the example."""
        prepared = prepared_folder(self.places.cache, exercise)
        argv = argv_of(exercise, self.settings.unittest, prepared)
        versions = self.versions(exercise.language)
        return (exercise.key, exercise.sha256, self.places.kind.value, versions, *argv)

    def _measured(self, exercise: Exercise) -> TestCounts:
        files = exercise.example_files()
        seconds = max(self.settings.timeout, _LEAST_EXAMPLE_SECONDS)
        _, run = self._run(exercise, files, seconds)
        counts = _counts(exercise, run, files)
        if counts is None or not is_solved(run, counts, counts):
            lines = self._cleaned(exercise, run.output).strip().splitlines() or ["no output"]
            first = next((line for line in lines if "error" in line.lower()), lines[-1])
            said = TIMED_OUT if run.timed_out else first[:_SHOWN]
            raise InfrastructureError(
                f"the example of {exercise.key} does not pass its tests here: {said}"
            )
        return counts

    def _run(
        self, exercise: Exercise, files: Mapping[str, bytes], seconds: float
    ) -> tuple[FolderResult, ExerciseTestRun]:
        place = self.places.of(exercise.language)
        result = place.folders.run(
            FolderCommand(
                argv=argv_of(
                    exercise, self.settings.unittest, prepared_folder(self.places.cache, exercise)
                ),
                files=placed(exercise, files),
                timeout=seconds,
                variables={**dict(exercise.rules.environment), **place.variables},
                collect=(REPORT,) if exercise.rules.reports else (),
            )
        )
        report = result.files.get(REPORT, b"").decode("utf-8", "replace")
        unittest = self.settings.unittest
        run = ExerciseTestRun(result.exit_code, result.timed_out, result.output, report, unittest)
        return result, run

    def _cleaned(self, exercise: Exercise, output: str) -> str:
        folders = seen_folders(exercise, prepared_folder(self.places.cache, exercise))
        return cleaned(output, exercise.name, folders, exercise.rules.changing)


def _counts(
    exercise: Exercise, run: ExerciseTestRun, files: Mapping[str, bytes]
) -> TestCounts | None:
    if exercise.rules.reports:
        return counts_of(run, files)
    return printed_counts(exercise.rules.counted, run.output)


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
        cache: the harness's; counts of examples and packages are kept below it.
        run_key: marks containers and cgroups, to remove them after a crash.
        check: raises when the run stops: running tests are killed then.
        warn_once: takes a message for each limit that cannot be set here.
        python: for local, the interpreter of Python tests, with pytest; None for this one.
        image: for Docker, with the tools of the languages, such as python with pytest.
        limits: of each run of tests.

    Raises:
        UserError: the environment cannot be used.
        InfrastructureError: the engine failed.
    """
    interpreter = python or Path(sys.executable)
    places = LanguagePlaces(kind, interpreter, image, cache, limits, run_key, check, warn_once)
    return ExerciseTester(settings, places, ExpectedCounts(cache / "exercism" / "expected"))
