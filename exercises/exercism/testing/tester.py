"""Test solutions of exercises, each in a fresh folder made of the pristine exercise."""

from __future__ import annotations

import re
import sys
import tempfile
import threading
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import SystemRandom

from core.atomic import write_json_atomic
from core.errors import InfrastructureError, UserError
from core.hashing import sha256_of
from core.parsing.untrusted import DamagedError, json_of, read_bytes
from environments.base import EnvironmentKind
from environments.folders import FOLDER, FolderCommand, FolderResult
from exercises.exercism.exercise import Exercise, tree_hash
from exercises.exercism.languages import LANGUAGES, NAME, PREPARED, PYTHON, REPORT
from exercises.exercism.messages import TIMED_OUT
from exercises.exercism.results import TryResult
from exercises.exercism.testing.toolchains import LanguagePlaces, prepared_folder
from exercises.exercism.testing.verdict import (
    TestCounts,
    counts_of,
    failing_tests,
    is_solved,
    printed_counts,
    test_names,
    with_comparisons,
)

_MOST_BYTES = 10_000
# The example may take longer than a short limit allows, on a busy machine too.
_LEAST_EXAMPLE_SECONDS = 600.0
_LEAST_PROOF_SECONDS = 60.0
_VERSION_SECONDS = 60.0
_SHOWN = 200
_CHANCE = SystemRandom()
# Solutions that were judged by other rules are judged again.
_JUDGING = sha256_of(Path(__file__).with_name("verdict.py").read_bytes())
_NOT_CARRIED_OUT = (
    "error: the tests do not fail as they must where a comparison is false"
)


@dataclass(frozen=True)
class TestSettings:
    """Whether Python's tests run under unittest, as in profile 2023, and seconds for a run."""

    __test__ = False

    unittest: bool
    timeout: float


@dataclass(frozen=True)
class ExerciseTester:
    """Tests solutions; many threads may call it at once. ``close`` it at the end."""

    settings: TestSettings
    places: LanguagePlaces
    _expecting: dict[Path, threading.Lock] = field(default_factory=dict)
    _versions: dict[str, str] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def test(self, exercise: Exercise, solution: Mapping[str, bytes]) -> TryResult:
        """Run the tests on the solution files ``solution``; other files are left out.

        The example is tested once to learn how many tests there are. The output is that of the
        tests, cleaned and whole, so that it is equal in each run of the same code. The patch is
        left empty.
        """
        expected = self._counts_of_example(exercise)
        files = exercise.tested_files(solution)
        run = self._run(exercise, files, self.settings.timeout)
        seconds = round(run.seconds, 3)
        if run.timed_out:
            return TryResult(
                solved=False, timed_out=True, output=TIMED_OUT, seconds=seconds
            )
        counts = self._counts(exercise, run, files)
        output, most = self._cleaned(exercise, run.output), self.places.limits.output
        solved = is_solved(run, counts, expected)
        if len(run.output.encode("utf-8", "replace")) > most:
            output, solved = (
                f"{output}\nerror: the output has more than {most:,} bytes\n",
                False,
            )
        if (
            solved
            and exercise.rules.reports
            and not self._carries_out_tests(exercise, solution)
        ):
            output, solved = f"{output}\n{_NOT_CARRIED_OUT}\n", False
        return TryResult(
            solved=solved,
            output=output,
            tests_passed=counts.passed if counts else None,
            tests_failed=counts.failed if counts else None,
            tests_skipped=counts.skipped if counts else None,
            seconds=seconds,
        )

    def _carries_out_tests(
        self, exercise: Exercise, solution: Mapping[str, bytes]
    ) -> bool:
        """Return whether each test fails when, and only when, a comparison at its end is false.

        It is false in half of the tests at first, and then in the others. What was seen to be right
        is right, in a later run too.
        """
        kept = self._kept("right", exercise, tree_hash(solution), _JUDGING)
        if kept.exists():
            return True
        texts = {
            path: exercise.text(path) for path in exercise.tests if path.endswith(".py")
        }
        names = {name for text in texts.values() for name in test_names(text)}
        half = {*_CHANCE.sample(sorted(names), len(names) // 2)}
        halves = [part for part in (half, names - half) if part]
        for false in halves:
            tests = {
                path: with_comparisons(text, false).encode()
                for path, text in texts.items()
            }
            failing = self._failing(exercise, exercise.tested_files(solution) | tests)
            example = exercise.example_files() | tests
            # A test may end before its last line, with the example too.
            if failing != false and failing != self._failing(exercise, example):
                return False
        write_json_atomic(kept, {"exercise": exercise.key})
        return True

    def _failing(
        self, exercise: Exercise, files: Mapping[str, bytes]
    ) -> set[str] | None:
        run = self._run(
            exercise, files, max(2 * self.settings.timeout, _LEAST_PROOF_SECONDS)
        )
        return failing_tests(run, files, self.settings.unittest)

    def _kept(self, folder: str, exercise: Exercise, *more: str) -> Path:
        """Return the file that keeps what was learned of an exercise with these tools."""
        argv, versions = self._argv(exercise), self.versions(exercise.language)
        parts = (
            exercise.key,
            exercise.sha256,
            self.places.kind.value,
            versions,
            *argv,
            *more,
        )
        name = sha256_of("\0".join(parts))
        return self.places.cache / "exercism" / folder / f"{name}.json"

    def versions(self, language: str) -> str:
        with self._lock:
            if language not in self._versions:
                place, rules = self.places.of(language), LANGUAGES[language]
                words = (
                    self.settings.unittest and rules.unittest_version
                ) or rules.version_command
                argv = tuple(_filled(word, {PYTHON: "python"}) for word in words)
                variables = {**dict(rules.environment), **place.variables}
                result = place.folders.run(
                    FolderCommand(argv, {}, _VERSION_SECONDS, variables)
                )
                said = " ".join(result.output.split())[-_SHOWN:]
                if result.exit_code != 0:
                    raise UserError(
                        f"{argv[0]} cannot test {language} exercises here: {said}"
                    )
                self._versions[language] = said
            return self._versions[language]

    def close(self) -> None:
        self.places.stop()

    def _argv(self, exercise: Exercise) -> tuple[str, ...]:
        prepared = prepared_folder(self.places.cache, exercise)
        return argv_of(exercise, self.settings.unittest, prepared)

    def _counts_of_example(self, exercise: Exercise) -> TestCounts:
        kept = self._kept("expected", exercise)
        with self._lock:
            lock = self._expecting.setdefault(kept, threading.Lock())
        with lock:
            try:
                return TestCounts(**json_of(read_bytes(kept, _MOST_BYTES))["counts"])
            except (OSError, DamagedError, KeyError, TypeError):
                counts = self._measured(exercise)
                write_json_atomic(kept, {"counts": asdict(counts)})
                return counts

    def _measured(self, exercise: Exercise) -> TestCounts:
        files = exercise.example_files()
        seconds = max(self.settings.timeout, _LEAST_EXAMPLE_SECONDS)
        run = self._run(exercise, files, seconds)
        counts = self._counts(exercise, run, files)
        if counts is None or not is_solved(run, counts, counts):
            lines = self._cleaned(exercise, run.output).strip().splitlines() or [
                "no output"
            ]
            first = next((line for line in lines if "error" in line.lower()), lines[-1])
            said = TIMED_OUT if run.timed_out else first[:_SHOWN]
            raise InfrastructureError(
                f"the example of {exercise.key} does not pass its tests here: {said}"
            )
        return counts

    def _run(
        self, exercise: Exercise, files: Mapping[str, bytes], seconds: float
    ) -> FolderResult:
        place = self.places.of(exercise.language)
        return place.folders.run(
            FolderCommand(
                argv=self._argv(exercise),
                files=placed(exercise, files),
                timeout=seconds,
                variables={**dict(exercise.rules.environment), **place.variables},
                collect=(REPORT,) if exercise.rules.reports else (),
            )
        )

    def _counts(
        self, exercise: Exercise, run: FolderResult, files: Mapping[str, bytes]
    ) -> TestCounts | None:
        if exercise.rules.reports:
            return counts_of(run, files, self.settings.unittest)
        return printed_counts(exercise.rules.counted, run.output)

    def _cleaned(self, exercise: Exercise, output: str) -> str:
        folders = seen_folders(exercise, prepared_folder(self.places.cache, exercise))
        return cleaned(output, exercise.name, folders, exercise.rules.changing)


def argv_of(
    exercise: Exercise, unittest: bool, prepared: Path | None
) -> tuple[str, ...]:
    """Return the command; ``prepared`` is the folder of the exercise's packages."""
    rules = exercise.rules
    named = {
        PYTHON: "python",
        NAME: exercise.name,
        PREPARED: str(prepared or "/nothing"),
    }
    words = (unittest and rules.unittest_command) or rules.test_command
    return tuple(_filled(word, named) for word in words)


def _filled(word: str, named: Mapping[str, str]) -> str:
    for placeholder, text in named.items():
        word = word.replace(placeholder, text)
    return word


def placed(exercise: Exercise, files: Mapping[str, bytes]) -> dict[str, bytes]:
    below = f"{exercise.name}/" if exercise.rules.own_folder else ""
    return {f"{below}{path}": data for path, data in files.items()}


def seen_folders(exercise: Exercise, prepared: Path | None) -> tuple[str, ...]:
    """Return the paths under which the command sees the folder of the exercise, and packages."""
    own = (f"{FOLDER}/{exercise.name}",) if exercise.rules.own_folder else ()
    packages = (f"..{prepared}", str(prepared)) if prepared else ()
    return (*own, FOLDER, *packages)


def usable(
    languages: Iterable[str],
    settings: TestSettings,
    kind: EnvironmentKind,
    python: Path | None = None,
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the versions of the tools by language that start here, and why others do not."""
    versions, reasons = dict[str, str](), dict[str, str]()
    with tempfile.TemporaryDirectory() as cache:
        interpreter = python or Path(sys.executable)
        places = LanguagePlaces(
            kind, Path(cache), "", lambda: None, lambda _: None, python=interpreter
        )
        tester = ExerciseTester(settings, places)
        try:
            for name in dict.fromkeys(languages):
                try:
                    if name not in LANGUAGES:
                        raise UserError(f"there is no language {name}")
                    versions[name] = tester.versions(name)
                except UserError as error:
                    reasons[name] = str(error)
        finally:
            tester.close()
    return versions, reasons


_LIBRARY = "lib/python/"
_ENDS = r"\s\"'()<>\[\]:,;="
# Only from the beginning of a word: a long one is searched once.
_PATH = rf"(?<![^{_ENDS}])[^{_ENDS}]*"
_RULES = tuple(
    (re.compile(pattern, re.MULTILINE), replacement)
    for pattern, replacement in (
        (r"^Ran \d+ tests? in \d+\.\d+s\n?", ""),
        (r"^-+ generated xml file: .* -+\n?", ""),
        # pytest adds hours, minutes and seconds from one minute on.
        (r"\bin \d+\.\d+s\b(?: \(\d+:\d\d:\d\d\))?", ""),
        (r"={4,}", "===="),
        (r"-{4,}", "----"),
        # unittest shortens long texts in the middle, so also in the middle of an address: the
        # number of characters left out and the rest differ as the address does.
        (r"\b0x[0-9a-fA-F]*\[\d+ chars\][0-9a-fA-F]*(?=>)", "0x..[..]"),
        (r"\b0x[0-9a-fA-F]+", "0x.."),
        (r"\bid='\d+'", "id='..'"),
        # Where Python lies, and the lines of its modules in a patch version.
        (
            rf"{_PATH}/lib(?:64)?/python3(?:\.\d+)?/(?:(?:site|dist)-packages/)?",
            _LIBRARY,
        ),
        (rf"((?:{_LIBRARY}[^\s\":]+|<frozen [\w. ]+>)(?:\", line |:))\d+", r"\1.."),
        (rf"{_PATH}/bin/python[\d.]*", "python"),
        (r"^platform .* -- Python .*\n", ""),
        (r"/tmp/tmp\w{8}\b", "/tmp/tmp.."),
    )
)


def cleaned(
    output: str, name: str, folders: Iterable[str], changing: Iterable[str] = ()
) -> str:
    """Return the output of tests without what differs between two runs of the same code.

    Besides this the tests need PYTHONHASHSEED=0, no bytecode, no cache of pytest, and one minor
    version of Python (see ``languages``). ``name``, of the exercise, replaces the paths ``folders``
    under which the tests saw their folder; what fits ``changing`` is dropped.
    """
    for folder in sorted(filter(None, folders), key=len, reverse=True):
        output = output.replace(folder, name)
    for further in changing:
        output = re.sub(further, "", output, flags=re.MULTILINE)
    for pattern, replacement in _RULES:
        output = pattern.sub(replacement, output)
    # Guides below a line with an address mark what differs in it.
    kept = [""]
    for line in output.splitlines(keepends=True):
        marks = line.removeprefix("E").strip()
        if not (
            "0x.." in kept[-1] and marks.startswith("?") and {*marks} <= {*"?^+- "}
        ):
            kept.append(line)
    return "".join(kept)
