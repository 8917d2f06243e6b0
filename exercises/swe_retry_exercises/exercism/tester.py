"""Test solutions of exercises, each in a fresh folder made of the pristine exercise.

The packages that exercises need are fetched once with network, and kept below the cache. Nothing of
an exercise's author or of a model runs outside of the sandbox but the package manager, on the
pristine files; JavaScript's scripts of installation do not run.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from random import SystemRandom

from filelock import FileLock

from swe_retry.kit import (
    FOLDER,
    DamagedError,
    EnvironmentKind,
    FolderCommand,
    FolderResult,
    Folders,
    InfrastructureError,
    ResourceLimits,
    UnavailableError,
    UserError,
    check_path,
    json_of,
    make_folders,
    read_bytes,
    run_limited,
    scratch_folder,
    sha256_of,
    without_secrets,
    write_files,
    write_json_atomic,
)
from swe_retry_exercises.exercism import verdict
from swe_retry_exercises.exercism.catalog import Exercise, tree_hash
from swe_retry_exercises.exercism.languages import LANGUAGES, REPORT, argv
from swe_retry_exercises.exercism.messages import TIMED_OUT, Profile
from swe_retry_exercises.exercism.results import TryResult
from swe_retry_exercises.values import Say

_LIBRARY = "lib/python/"
_ENDS = r"\s\"'()<>\[\]:,;="
# Only from the beginning of a word: a long one is searched once.
_PATH = rf"(?<![^{_ENDS}])[^{_ENDS}]*"
_REPLACEMENTS = {
    r"^Ran \d+ tests? in \d+\.\d+s\n?": "",
    r"^-+ generated xml file: .* -+\n?": "",
    # pytest adds hours, minutes and seconds from one minute on.
    r"\bin \d+\.\d+s\b(?: \(\d+:\d\d:\d\d\))?": "",
    r"={4,}": "====",
    r"-{4,}": "----",
    # unittest shortens long texts in the middle, so also in the middle of an address: the number
    # of characters left out and the rest differ as the address does.
    r"\b0x[0-9a-fA-F]*\[\d+ chars\][0-9a-fA-F]*(?=>)": "0x..[..]",
    r"\b0x[0-9a-fA-F]+": "0x..",
    r"\bid='\d+'": "id='..'",
    # Where Python lies, and the lines of its modules in a patch version.
    rf"{_PATH}/lib(?:64)?/python3(?:\.\d+)?/(?:(?:site|dist)-packages/)?": _LIBRARY,
    rf"((?:{_LIBRARY}[^\s\":]+|<frozen [\w. ]+>)(?:\", line |:))\d+": r"\1..",
    rf"{_PATH}/bin/python[\d.]*": "python",
    r"^platform .* -- Python .*\n": "",
    r"/tmp/tmp\w{8}\b": "/tmp/tmp..",
}
# Guides below a line with an address mark what differs in it.
_GUIDE = re.compile(r"E?\s*\?[?^+\- ]*\s*")


def cleaned_output(
    output: str,
    name: str,
    folders: Iterable[str],
    changing: Iterable[str] = (),
) -> str:
    """Return the output of tests, equal in each run of the same code.

    Besides this the tests need PYTHONHASHSEED=0, no bytecode, no cache of pytest, and one minor
    version of Python (see ``languages``). ``name``, of the exercise, replaces the paths ``folders``
    under which the tests saw their folder; what fits ``changing`` is dropped.
    """
    for folder in sorted(
        folders,
        key=len,
        reverse=True,
    ):
        output = output.replace(folder, name)
    replacements = dict.fromkeys(changing, "") | _REPLACEMENTS
    for pattern, replacement in replacements.items():
        output = re.sub(
            pattern,
            replacement,
            output,
            flags=re.MULTILINE,
        )
    lines = [""]
    for line in output.splitlines(keepends=True):
        if "0x.." not in lines[-1] or not _GUIDE.fullmatch(line):
            lines.append(line)
    return "".join(lines)


SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"
_SYSTEM = ("/usr", "/bin", "/lib")
_ROOT_SECONDS = 60.0
_PREPARE_SECONDS = 900.0
_SHOWN = 200


@cache
def tool_folders(language: str) -> tuple[Path, ...]:
    """Return the folders with the tools of a language that lie out of the system's."""
    folders: dict[Path, None] = {}
    missing = []
    for tool in LANGUAGES[language].tools:
        path = shutil.which(tool)
        if path is None:
            missing.append(tool)
        elif not os.path.realpath(path).startswith(_SYSTEM):
            folders[_root(language, Path(path))] = None
    if missing:
        raise UserError(f"{', '.join(missing)} not found; install it")
    for folder in folders:
        if Path.home().is_relative_to(folder) or Path.cwd().is_relative_to(folder):
            raise UserError(
                f"the tools lie in {folder}, which cannot be shown; install them apart"
            )
    return tuple(folders)


def _root(language: str, tool: Path) -> Path:
    """Return the folder of a tool: what is found in PATH may be a starter that lies elsewhere."""
    command = LANGUAGES[language].root
    if not command:
        return tool.resolve().parent.parent
    environment = without_secrets(os.environ)
    result = run_limited(
        argv(command),
        Path("/"),
        environment,
        _ROOT_SECONDS,
    )
    root = Path(result.output.strip())
    if result.exit_code or not root.is_absolute() or not root.is_dir():
        raise UserError(f"{command} names no folder; install {tool.name}")
    return root


def prepared_root(cache: Path) -> Path:
    return cache / "exercism" / "prepared"


def prepared_folder(cache: Path, exercise: Exercise) -> Path | None:
    """Return where the packages of an exercise lie or will lie, None if it needs none."""
    rules = exercise.rules
    file = exercise.tested_files({}).get(
        rules.packages_file,
        b"",
    )
    parts = [exercise.language, str(argv(rules.prepare))]
    packages = []
    text = file.decode("utf-8", "replace")
    for match in re.finditer(rules.packages, text, re.MULTILINE):
        if match[0]:
            packages.append(match[0])
    if not packages:
        return None
    return prepared_root(cache) / sha256_of("\0".join(parts + packages))[:32]


def prepare(exercises: Iterable[Exercise], cache: Path) -> dict[str, str]:
    """Fetch the packages that exercises need and that are not there; needs a network only then.

    Returns:
        A reason in one line for each key of an exercise whose packages cannot be had: it is to be
        skipped.
    """
    problems = {}
    reasons = {}
    for exercise in exercises:
        folder = prepared_folder(cache, exercise)
        if folder is None:
            continue
        if folder not in problems:
            problems[folder] = _prepare(folder, exercise)
        if problems[folder]:
            reasons[exercise.key] = problems[folder]
    return reasons


def _prepare(folder: Path, exercise: Exercise) -> str:
    """Fetch packages; return in one line why they cannot be had, empty if they can."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    command = argv(exercise.rules.prepare)
    environment = {**without_secrets(os.environ), **exercise.rules.variables}
    with FileLock(f"{folder}.lock"):
        if folder.is_dir():
            return ""
        with scratch_folder(folder) as scratch:
            files = exercise.tested_files({})
            for path in files:
                check_path(path)
            write_files(scratch, files)
            try:
                result = run_limited(command, scratch, environment, _PREPARE_SECONDS)
            except OSError as error:
                raise InfrastructureError(
                    f"cannot run {command[0]}: {error}"
                ) from error
            if result.exit_code != 0:
                output = " ".join(result.output.split())[-_SHOWN:]
                reason = output or f"exit code {result.exit_code}"
                return f"{exercise.rules.prepare} fails: {reason}"
            scratch.rename(folder)
    return ""


IMAGE = "python:3.11-slim"
LIMITS = ResourceLimits(
    processes=512,
    memory=4 << 30,
    file_size=1 << 30,
    written=2 << 30,
    temporary=1 << 30,
    output=4_000_000,
    collected=16 << 20,
)
"""Of all processes of one run of tests; compilers need most of it."""
_MAX_BYTES = 10_000
# The example may take longer than a short limit allows, on a busy machine too.
_MIN_EXAMPLE_SECONDS = 600.0
_MIN_PROOF_SECONDS = 60.0
_VERSION_SECONDS = 60.0
_RANDOM = SystemRandom()
# Solutions that were judged by other rules are judged again.
_RULES = sha256_of(Path(verdict.__file__).read_bytes())


@dataclass(frozen=True)
class ExerciseTester:
    """Tests solutions; many threads may call it at once. ``close`` it at the end.

    Attributes:
        cache: the harness's; counts of examples and packages are kept below it.
        run_key: marks containers and cgroups, to remove them after a crash.
        check: raises when the run stops: running tests are killed then.
        warn_once: takes a message for each limit that cannot be set here.
        python: for local, the interpreter of Python tests, with pytest.
    """

    profile: Profile
    kind: EnvironmentKind
    cache: Path
    run_key: str = ""
    check: Callable[[], None] = lambda: None
    warn_once: Say = lambda _: None
    python: Path = Path(sys.executable)
    limits: ResourceLimits = LIMITS
    _folders: dict[str, Folders] = field(default_factory=dict)
    _versions: dict[str, str] = field(default_factory=dict)
    _example_locks: dict[Path, threading.Lock] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def test(self, exercise: Exercise, solution: Mapping[str, bytes]) -> TryResult:
        """Run the tests on the solution files ``solution``; other files are left out.

        The example is tested once to learn how many tests there are. The output is that of the
        tests, cleaned and whole, so that it is equal in each run of the same code. The patch is
        left empty.
        """
        expected = self._example_counts(exercise)
        files = exercise.tested_files(solution)
        run = self._run(
            exercise,
            files,
            self.profile.timeout,
        )
        seconds = round(run.seconds, 3)
        if run.timed_out:
            return TryResult(
                solved=False, timed_out=True, output=TIMED_OUT, seconds=seconds
            )
        counts = self._counts(exercise, run, files)
        output = self._clean_output(exercise, run.output)
        solved = verdict.is_solved(run, counts, expected)
        problem = ""
        if len(run.output.encode("utf-8", "replace")) > self.limits.output:
            problem = f"the output has more than {self.limits.output:,} bytes"
        elif solved and not self._carries_out_tests(exercise, solution):
            problem = "the tests do not fail as they must where a comparison is false"
        if problem:
            output += f"\nerror: {problem}\n"
        return TryResult(
            solved=solved and not problem,
            output=output,
            tests_passed=counts.passed if counts else None,
            tests_failed=counts.failed if counts else None,
            tests_skipped=counts.skipped if counts else None,
            seconds=seconds,
        )

    def _carries_out_tests(
        self,
        exercise: Exercise,
        solution: Mapping[str, bytes],
    ) -> bool:
        """Return whether each test fails when, and only when, a comparison at its end is false.

        It is false in half of the tests at first, and then in the others. What was seen to be right
        is right, in a later run too.
        """
        if not exercise.rules.names_failures:
            return True
        proof = self._cache_file(
            "right",
            exercise,
            tree_hash(solution),
            _RULES,
        )
        if proof.exists():
            return True
        texts = {}
        names = set()
        for path in exercise.tests:
            if path.endswith(".py"):
                texts[path] = exercise.text(path)
                names |= verdict.test_names(texts[path])
        half = set(
            _RANDOM.sample(
                sorted(names),
                len(names) // 2,
            )
        )
        for false in filter(None, (half, names - half)):
            tests = {}
            for path, text in texts.items():
                tests[path] = verdict.with_comparisons(text, false).encode()
            files = exercise.tested_files(solution) | tests
            failing = self._failing_tests(exercise, files)
            if failing == false:
                continue
            # A test may end before its last line, with the example too.
            if failing != self._failing_tests(
                exercise, exercise.example_files() | tests
            ):
                return False
        write_json_atomic(proof, {"exercise": exercise.key})
        return True

    def _failing_tests(
        self,
        exercise: Exercise,
        files: Mapping[str, bytes],
    ) -> set[str] | None:
        seconds = max(2 * self.profile.timeout, _MIN_PROOF_SECONDS)
        run = self._run(exercise, files, seconds)
        return verdict.failing_tests(
            run,
            files,
            self.profile.unittest,
        )

    def _cache_file(self, folder: str, exercise: Exercise, *more: str) -> Path:
        """Return the file that keeps what was learned of an exercise with these tools."""
        parts = (
            exercise.key,
            exercise.sha256,
            self.kind.value,
            self.versions(exercise.language),
            *self._argv(exercise),
            *more,
        )
        name = sha256_of("\0".join(parts))
        return self.cache / "exercism" / folder / f"{name}.json"

    def versions(self, language: str) -> str:
        """Return the versions of a language's tools; a UserError where they do not start."""
        with self._lock:
            if language not in self._versions:
                rules = LANGUAGES[language]
                command = rules.version
                if self.profile.unittest and rules.unittest:
                    command = rules.unittest_version
                result = self._run_in(
                    language,
                    argv(command),
                    {},
                    _VERSION_SECONDS,
                )
                versions = " ".join(result.output.split())[-_SHOWN:]
                if result.exit_code != 0:
                    tool = argv(command)[0]
                    raise UserError(
                        f"{tool} cannot test {language} exercises here: {versions}"
                    )
                self._versions[language] = versions
            return self._versions[language]

    def close(self) -> None:
        with self._lock:
            for folders in self._folders.values():
                folders.stop()

    def _argv(self, exercise: Exercise) -> tuple[str, ...]:
        command = exercise.rules.test
        if self.profile.unittest and exercise.rules.unittest:
            command = exercise.rules.unittest
        prepared = prepared_folder(self.cache, exercise) or "/nothing"
        return argv(
            command,
            exercise.name,
            str(prepared),
        )

    def _example_counts(self, exercise: Exercise) -> verdict.TestCounts:
        path = self._cache_file("expected", exercise)
        with self._lock:
            lock = self._example_locks.setdefault(path, threading.Lock())
        with lock:
            try:
                counts = json_of(read_bytes(path, _MAX_BYTES))["counts"]
                return verdict.TestCounts(**counts)
            except (OSError, DamagedError, KeyError, TypeError):
                measured = self._measure_example(exercise)
                write_json_atomic(path, {"counts": asdict(measured)})
                return measured

    def _measure_example(self, exercise: Exercise) -> verdict.TestCounts:
        files = exercise.example_files()
        seconds = max(self.profile.timeout, _MIN_EXAMPLE_SECONDS)
        run = self._run(exercise, files, seconds)
        counts = self._counts(exercise, run, files)
        if counts and verdict.is_solved(run, counts, counts):
            return counts
        lines = self._clean_output(exercise, run.output).strip().splitlines()
        reason = (lines or ["no output"])[-1]
        for line in reversed(lines):
            if "error" in line.lower():
                reason = line
        reason = reason[:_SHOWN]
        if run.timed_out:
            reason = TIMED_OUT
        raise InfrastructureError(
            f"the example of {exercise.key} does not pass its tests here: {reason}"
        )

    def _counts(
        self,
        exercise: Exercise,
        run: FolderResult,
        files: Mapping[str, bytes],
    ) -> verdict.TestCounts | None:
        if exercise.rules.names_failures:
            return verdict.python_counts(
                run,
                files,
                self.profile.unittest,
            )
        return verdict.printed_counts(exercise.rules.counted, run.output)

    def _clean_output(self, exercise: Exercise, output: str) -> str:
        folders = [FOLDER]
        if exercise.rules.own_folder:
            folders.append(f"{FOLDER}/{exercise.name}")
        prepared = prepared_folder(self.cache, exercise)
        if prepared:
            folders += [f"..{prepared}", str(prepared)]
        changing = exercise.rules.changing
        return cleaned_output(output, exercise.name, folders, changing)

    def _run(
        self,
        exercise: Exercise,
        files: Mapping[str, bytes],
        seconds: float,
    ) -> FolderResult:
        folder = f"{exercise.name}/" if exercise.rules.own_folder else ""
        placed = {folder + path: data for path, data in files.items()}
        return self._run_in(
            exercise.language,
            self._argv(exercise),
            placed,
            seconds,
        )

    def _run_in(
        self,
        language: str,
        argv: tuple[str, ...],
        files: Mapping[str, bytes],
        seconds: float,
    ) -> FolderResult:
        rules = LANGUAGES[language]
        variables = dict(rules.variables)
        if self.kind is EnvironmentKind.LOCAL and tool_folders(language):
            paths = [f"{folder}/bin" for folder in tool_folders(language)]
            variables["PATH"] = ":".join([*paths, SYSTEM_PATH])
        command = FolderCommand(
            argv=argv,
            files=files,
            timeout=seconds,
            variables=variables,
            collect=(REPORT,) if rules.names_failures else (),
        )
        return self._folders_of(language).run(command)

    def _folders_of(self, language: str) -> Folders:
        """Return the folders of a language, which are made when they are first asked for."""
        # All languages have the same containers: an image holds their tools.
        key = language if self.kind is EnvironmentKind.LOCAL else ""
        with self._lock:
            if key not in self._folders:
                self._folders[key] = self._make_folders(key)
            return self._folders[key]

    def _make_folders(self, language: str) -> Folders:
        prepared = prepared_root(self.cache).absolute()
        readable: tuple[Path, ...] = ()
        if language:
            readable = tool_folders(language)
            if LANGUAGES[language].prepare:
                prepared.mkdir(parents=True, exist_ok=True)
                readable = (*readable, prepared)
        elif prepared.is_dir():
            if prepared.is_relative_to("/tmp"):  # which is emptied between commands
                fix = "cannot be shown in a container; use a cache out of /tmp"
                raise UserError(f"{prepared} {fix}")
            readable = (prepared,)
        try:
            return make_folders(
                self.kind,
                self.python if language == "python" else None,
                IMAGE,
                readable,
                self.limits,
                self.run_key,
                self.check,
                self.warn_once,
            )
        except UnavailableError as error:
            raise UserError(str(error)) from error


def usable_languages(
    languages: Iterable[str],
    profile: Profile,
    kind: EnvironmentKind,
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the versions of the tools by language that start here, and why others do not."""
    versions = {}
    reasons = {}
    with tempfile.TemporaryDirectory() as cache:
        tester = ExerciseTester(profile, kind, Path(cache))
        try:
            for language in languages:
                try:
                    versions[language] = tester.versions(language)
                except UserError as error:
                    reasons[language] = str(error)
        finally:
            tester.close()
    return versions, reasons
