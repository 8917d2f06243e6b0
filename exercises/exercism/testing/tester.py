"""Test solutions of exercises, each in a fresh folder made of the pristine exercise."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from random import SystemRandom

from core.atomic import write_json_atomic
from core.errors import InfrastructureError, UserError
from core.parsing.untrusted import DamagedError, json_of, read_bytes
from core.processes import run_limited, without_secrets
from environments.base import EnvironmentKind, UnavailableError
from environments.choice import make_folders
from environments.folders import FOLDER, FolderCommand, FolderResult, Folders
from environments.limits import ResourceLimits
from exercises.exercism.cleaning import cleaned
from exercises.exercism.exercise import Exercise, tree_hash
from exercises.exercism.languages import LANGUAGES, NAME, PREPARED, PYTHON, REPORT, Language
from exercises.exercism.messages import TIMED_OUT
from exercises.exercism.testing.altered import altered, test_names
from exercises.exercism.testing.preparing import prepared_folder, prepared_root
from exercises.exercism.verdict import (
    ExerciseTestRun,
    TestCounts,
    counts_of,
    failing_tests,
    is_solved,
    printed_counts,
)


@dataclass(frozen=True)
class LanguagePlace:
    folders: Folders
    variables: Mapping[str, str]


@dataclass(frozen=True)
class LanguagePlaces:
    """Makes the folders of a language when they are first asked for; many threads may ask."""

    kind: EnvironmentKind
    python: Path
    cache: Path
    limits: ResourceLimits
    run_key: str
    check: Callable[[], None]
    warn_once: Callable[[str], None]
    _made: dict[str, LanguagePlace] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def of(self, language: str) -> LanguagePlace:
        # All languages have the same containers: an image holds their tools.
        key = "" if self.kind is EnvironmentKind.DOCKER else language
        with self._lock:
            if key not in self._made:
                self._made[key] = self._place(key)
            return self._made[key]

    def stop(self) -> None:
        with self._lock:
            for place in self._made.values():
                place.folders.stop()

    def _place(self, language: str) -> LanguagePlace:
        tools = find_toolchain(language) if language else Toolchain()
        readable, prepared = tools.readable, prepared_root(self.cache).absolute()
        if self.kind is EnvironmentKind.LOCAL:
            if LANGUAGES[language].prepare:
                prepared.mkdir(parents=True, exist_ok=True)
                readable = (*readable, prepared)
        elif prepared.is_dir():
            if prepared.is_relative_to("/tmp"):  # which is emptied between commands
                words = "cannot be shown in a container; use a cache out of /tmp"
                raise UserError(f"{prepared} {words}")
            readable = (*readable, prepared)
        try:
            folders = make_folders(
                self.kind, self.python if language == "python" else None, IMAGE, readable,
                self.limits, self.run_key, self.check, self.warn_once,
            )  # fmt: skip
        except UnavailableError as error:
            raise UserError(str(error)) from error
        return LanguagePlace(folders, {"PATH": tools.path} if tools.path else {})


_MOST_BYTES = 10_000
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
    """Whether Python's tests run under unittest, as in profile 2023, and seconds for a run."""

    __test__ = False

    unittest: bool
    timeout: float


@dataclass(frozen=True)
class TestedTry:
    """The outcome of one run of the tests on a solution.

    Attributes:
        output: standard output and error, cleaned and whole: it is equal in each run of the same
            code. After a time-out, the text that the model receives instead.
        counts: None without a credible report, so also after a time-out.
        seconds: wall-clock time of the tests.
    """

    __test__ = False  # the name makes pytest think that this is a test

    solved: bool
    timed_out: bool
    output: str
    counts: TestCounts | None
    seconds: float


@dataclass(frozen=True)
class ExerciseTester:
    """Tests solutions; many threads may call it at once."""

    settings: TestSettings
    places: LanguagePlaces
    _expected: dict[str, TestCounts] = field(default_factory=dict)
    _expecting: dict[str, threading.Lock] = field(default_factory=dict)
    _versions: dict[str, str] = field(default_factory=dict)
    _right: set[tuple[str, str]] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def test(self, exercise: Exercise, solution: Mapping[str, bytes]) -> TestedTry:
        """Run the tests on the solution files ``solution``; other files are left out.

        The example is tested once to learn how many tests there are.
        """
        expected = self._counts_of_example(exercise)
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
        for false in halves:
            tests = {path: altered(text, false, _CHANCE).encode() for path, text in texts.items()}
            found = self._failing(exercise, exercise.tested_files(solution) | tests)
            # A value may be so large that neither ends in time.
            if found != false and found != self._failing(
                exercise, exercise.example_files() | tests
            ):
                return False
        self._right.add(key)
        return True

    def _failing(self, exercise: Exercise, files: Mapping[str, bytes]) -> set[str] | None:
        _, run = self._run(exercise, files, max(2 * self.settings.timeout, _LEAST_ALTERED_SECONDS))
        return failing_tests(run, files)

    def versions(self, language: str) -> str:
        with self._lock:
            if language not in self._versions:
                place, rules = self.places.of(language), LANGUAGES[language]
                words = (self.settings.unittest and rules.unittest_version) or rules.version_command
                argv = tuple(_filled(word, {PYTHON: "python"}) for word in words)
                variables = {**dict(rules.environment), **place.variables}
                result = place.folders.run(FolderCommand(argv, {}, _VERSION_SECONDS, variables))
                said = " ".join(result.output.split())[-_SHOWN:]
                if result.exit_code != 0:
                    raise UserError(f"{argv[0]} cannot test {language} exercises here: {said}")
                self._versions[language] = said
            return self._versions[language]

    def close(self) -> None:
        self.places.stop()

    def _argv(self, exercise: Exercise) -> tuple[str, ...]:
        prepared = prepared_folder(self.places.cache, exercise)
        return argv_of(exercise, self.settings.unittest, prepared)

    def _counts_of_example(self, exercise: Exercise) -> TestCounts:
        argv, versions = self._argv(exercise), self.versions(exercise.language)
        parts = (exercise.key, exercise.sha256, self.places.kind.value, versions, *argv)
        key = hashlib.sha256("\0".join(parts).encode()).hexdigest()
        with self._lock:
            lock = self._expecting.setdefault(key, threading.Lock())
        with lock:
            if key not in self._expected:
                path = self.places.cache / "exercism" / "expected" / f"{key}.json"
                try:
                    value = json_of(read_bytes(path, _MOST_BYTES))
                    self._expected[key] = TestCounts(**value["counts"])
                except (OSError, DamagedError, KeyError, TypeError):
                    counts = self._measured(exercise)
                    write_json_atomic(path, {"counts": asdict(counts)})
                    self._expected[key] = counts
            return self._expected[key]

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
                argv=self._argv(exercise),
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
    limits: ResourceLimits = LIMITS,
) -> ExerciseTester:
    """Return a tester; ``close`` it at the end.

    Args:
        cache: the harness's; counts of examples and packages are kept below it.
        run_key: marks containers and cgroups, to remove them after a crash.
        check: raises when the run stops: running tests are killed then.
        warn_once: takes a message for each limit that cannot be set here.
        python: for local, the interpreter of Python tests, with pytest; None for this one.
    """
    interpreter = python or Path(sys.executable)
    places = LanguagePlaces(kind, interpreter, cache, limits, run_key, check, warn_once)
    return ExerciseTester(settings, places)


def argv_of(exercise: Exercise, unittest: bool, prepared: Path | None) -> tuple[str, ...]:
    """Return the command; ``prepared`` is the folder of the exercise's packages."""
    rules = exercise.rules
    named = {PYTHON: "python", NAME: exercise.name, PREPARED: str(prepared or "/nothing")}
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


_SYSTEM = ("/usr", "/bin", "/lib")
_SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"
_SECONDS = 60.0


@dataclass(frozen=True)
class Toolchain:
    """The folders that commands must see, and PATH; empty where the system's folders are enough."""

    readable: tuple[Path, ...] = ()
    path: str = ""


@cache
def find_toolchain(name: str) -> Toolchain:
    language = LANGUAGES[name]
    found = {tool: shutil.which(tool) for tool in language.tools}
    if missing := [tool for tool, place in found.items() if place is None]:
        raise UserError(f"{', '.join(missing)} not found; install it")
    places = [Path(place) for place in found.values() if place and not _of_system(Path(place))]
    if not places:
        return Toolchain()
    roots = tuple(dict.fromkeys(_root(language, place) for place in places))
    for root in roots:
        if Path.home().is_relative_to(root) or Path.cwd().is_relative_to(root):
            raise UserError(f"the tools lie in {root}, which cannot be shown; install them apart")
    path = ":".join([*(str(root / "bin") for root in roots), _SYSTEM_PATH])
    return Toolchain(tuple(root for root in roots if not _of_system(root)), path)


def _of_system(place: Path) -> bool:
    return str(place.resolve()).startswith(_SYSTEM)


def _root(language: Language, tool: Path) -> Path:
    """Return the folder of a tool: what is found in PATH may be a starter that lies elsewhere."""
    if not language.root_command:
        return tool.resolve().parent.parent
    result = run_limited(language.root_command, Path("/"), without_secrets(os.environ), _SECONDS)
    root = Path(result.output.strip())
    if result.exit_code or not root.is_absolute() or not root.is_dir():
        raise UserError(f"{' '.join(language.root_command)} names no folder; install {tool.name}")
    return root


def usable(
    languages: Iterable[str],
    settings: TestSettings,
    kind: EnvironmentKind,
    python: Path | None = None,
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the versions of the tools by language that start here, and why others do not."""
    versions, reasons = dict[str, str](), dict[str, str]()
    with tempfile.TemporaryDirectory() as cache:
        tester = make_tester(kind, settings, Path(cache), "", lambda: None, lambda _: None, python)
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
