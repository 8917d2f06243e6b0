"""Run the programs of completions with their tests, and write how they ended.

The Python with the libraries that programs need is a virtual environment, or an image.
"""

from __future__ import annotations

import ast
import fcntl
import os
import re
import secrets
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from pydantic import BaseModel, ValidationError

from swe_retry.kit import (
    DamagedFileError,
    EnvironmentKind,
    FolderCommand,
    Folders,
    InfrastructureError,
    ResourceLimits,
    Shutdown,
    UnavailableError,
    UserError,
    build_image,
    clean_key,
    heeding_signals,
    install_packages,
    json_of,
    make_folders,
    one_line,
    quantity,
    read_bytes,
    sha256_of,
    some,
    write_bytes_atomic,
)
from swe_retry_exercises.canitedit.inside import COVERAGE, LATE, PROGRAM, REPORT
from swe_retry_exercises.canitedit.problems import Problem, load_problems
from swe_retry_exercises.canitedit.results import (
    COMPLETED,
    EVALUATED,
    CompletionFile,
    EvaluatedProgram,
    Status,
    read_file,
    write_file,
)
from swe_retry_exercises.canitedit.settings import CompletionReportSettings
from swe_retry_exercises.values import say_aside

SECONDS = 15.0
"""A program's time with its tests (public code)."""
LIMITS = ResourceLimits(
    processes=256,
    memory=4 << 30,
    file_size=256 << 20,
    written=512 << 20,
    temporary=512 << 20,
    output=256 << 10,
    collected=4 << 20,
)
ATTEMPTS = 3
"""Runs of a program whose tests compare times: the verdict is that of two of them."""
TIMED = frozenset({"47_merge_sort", "55_bm25", "60_unique_number"})
"""Full names of the problems whose tests compare times."""
REQUIREMENTS = Path(__file__).parents[1] / "canitedit-requirements.txt"
DOCKERFILE = REQUIREMENTS.with_name("canitedit.Dockerfile")
MEASURING = "coverage"
"""The library that every program needs that passes."""
_NAME = "canitedit"
# In seconds of the clock for one of the program's; the start of Python and the folder come on top.
_CLOCK = 20
_SLACK = 30.0
_INSIDE = Path(__file__).with_name("inside.py").read_bytes()
# As much as public files hold.
_MAX_OUTPUT = 2048
_MAX_NAMES = 12
_ADDRESS = re.compile(r"\b0x[0-9a-f]{6,16}\b")
_VARIABLES = {
    "PYTHONHASHSEED": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}
# Small modules in the place of libraries: their problems replace what they call.
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


@dataclass(frozen=True)
class TestedProgram:
    """A program with its tests, which runs ``alone`` where they compare times."""

    __test__ = False

    text: str
    stubs: tuple[str, ...] = ()
    alone: bool = False

    @cached_property
    def sha256(self) -> str:
        return sha256_of("\0".join((self.text, *self.stubs)))


def tested_programs(file: CompletionFile) -> list[TestedProgram]:
    stubs = tuple(sorted(_STUBS.keys() & needed_modules(file)))
    alone = file.full_name in TIMED
    programs = []
    for program in file.programs:
        programs.append(TestedProgram(program + file.tests, stubs, alone))
    return programs


def needed_modules(problem: Problem) -> set[str]:
    """Return the modules outside the standard library that the solution and the tests import."""
    try:
        tree = ast.parse(f"{problem.after}\n{problem.tests}")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set()
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                names.add(alias.name.partition(".")[0])
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.partition(".")[0])
    return names - sys.stdlib_module_names


def evaluate(
    folders: Sequence[Path], settings: CompletionReportSettings
) -> Sequence[Path]:
    """Run the programs that were not evaluated, write how they ended, and return the folders.

    The outcomes stand beside the completions. With ``evaluation.output`` all programs of one folder
    run, and their outcomes stand there; with rows of problems all completions run.

    Raises:
        StoppedError: at a signal; the outcomes so far are in the cache.
    """
    output = settings.evaluation.output
    if settings.evaluation.environment is EnvironmentKind.NONE:
        return folders
    if output and len(folders) > 1:
        raise UserError("evaluation.output is for one folder; give one")
    waiting = []
    for folder in folders:
        for file in waiting_files(folder, settings):
            waiting.append((output or folder, file))
    if waiting:
        stop = Shutdown()

        def announce(_: str) -> None:
            say_aside("stopping; the same command continues")

        with heeding_signals(stop, announce, lambda: None):
            _evaluate(waiting, settings, stop)
    return [output] if output else folders


def waiting_files(
    folder: Path, settings: CompletionReportSettings
) -> list[CompletionFile]:
    """Return the files of a folder whose programs are to run, with the problems of the settings."""
    if not folder.is_dir():
        raise UserError(f"{folder} is not a folder; give one with files *{COMPLETED}")
    source = settings.problems.source
    problems = {}
    if source:
        problems = {problem.full_name: problem for problem in load_problems(source)}
    files = []
    for path in sorted(_waiting_paths(folder, settings)):
        try:
            file = read_file(path)
        except DamagedFileError:
            if settings.report.allow_partial:
                continue
            raise
        if source:
            problem = problems.get(file.full_name)
            if problem is None:
                fault = "is about a problem that problems.source lacks"
                raise DamagedFileError(path, fault, "take it away")
            file = file.model_copy(update=dict(problem))
        files.append(file)
    return sorted(files, key=lambda file: (file.id, file.file_name))


def _waiting_paths(folder: Path, settings: CompletionReportSettings) -> set[Path]:
    """Return the files to evaluate: all that have programs, if their outcomes go elsewhere."""
    evaluated = set(folder.glob(f"*{EVALUATED}"))
    paths = set(folder.glob(f"*{COMPLETED}")) - evaluated
    output = settings.evaluation.output
    if output and output.resolve() != folder.resolve():
        # Files of others have results alone.
        for path in evaluated:
            if _beside(path, COMPLETED) not in paths:
                paths.add(path)
        if not paths:
            raise UserError(
                f"{folder} has no file *{COMPLETED}; give a folder of completions"
            )
    elif not settings.problems.source:
        for path in tuple(paths):
            if _beside(path, EVALUATED) in evaluated:
                paths.remove(path)
    elif evaluated and not paths:
        raise UserError(
            f"{folder} has evaluated files alone; evaluation.output=DIR evaluates them again "
            "into DIR"
        )
    return paths


def _beside(path: Path, ending: str) -> Path:
    stem = path.name.removesuffix(COMPLETED).removesuffix(".results")
    return path.with_name(f"{stem}{ending}")


def _evaluate(
    waiting: Sequence[tuple[Path, CompletionFile]],
    settings: CompletionReportSettings,
    stop: Shutdown,
) -> None:
    """Run the programs of files, each with the folder into which its outcomes go."""
    modules = set()
    for _, file in waiting:
        modules |= needed_modules(file)
    runnable = []
    lacking = set()
    programs = {}
    with program_environment(settings, modules, stop.check) as environment:
        missing = environment.missing
        for output, file in waiting:
            if needed_modules(file) & missing.keys():
                lacking.add(file.full_name)
                continue
            runnable.append((output, file))
            for program in tested_programs(file):
                programs[program.sha256] = program
        if missing:
            _check_missing(missing, sorted(lacking), settings)
        workers = settings.evaluation.workers or os.cpu_count() or 1
        outcomes = run_programs(environment, workers, stop, programs)
    statuses: Counter[str] = Counter()
    outputs: dict[str, None] = {}
    for output, file in runnable:
        results = []
        for text, program in zip(file.programs, tested_programs(file), strict=True):
            outcome = outcomes[program.sha256]
            results.append(outcome.model_copy(update={"program_no_test": text}))
            statuses[outcome.status] += 1
        write_file(output, file.model_copy(update={"results": tuple(results)}))
        outputs[str(output)] = None
    counts = []
    for status, number in statuses.most_common():
        counts.append(f"{number:,} {status}")
    say_aside(
        f"{quantity(statuses.total(), 'completion')}: {', '.join(counts) or 'none'}"
    )
    if outputs:
        say_aside(f"{quantity(len(runnable), 'file')} written to {', '.join(outputs)}")


def _check_missing(
    missing: Mapping[str, str],
    lacking: Sequence[str],
    settings: CompletionReportSettings,
) -> None:
    """Refuse modules that are missing, or say what is left out for them."""
    reasons = []
    for name, reason in sorted(missing.items()):
        reasons.append(f"{name} ({one_line(reason)[:100]})")
    fault = f"cannot be imported: {'; '.join(reasons)}"
    if lacking:
        names = some(lacking, _MAX_NAMES)
        fault += f"; {quantity(len(lacking), 'problem')} need them: {names}"
    if MEASURING in missing or not settings.report.allow_missing:
        raise UserError(
            f"{fault}; install them, or leave the problems out by "
            f"report.allow_missing=true ({MEASURING} must be there)"
        )
    say_aside(f"not evaluated: {fault}")


@dataclass(frozen=True)
class ProgramEnvironment:
    """Where programs run.

    Attributes:
        cache: has a file for each outcome here, by the SHA-256 of the program. Several processes
            may use it at once: a file is complete or is not there.
        missing: modules that cannot be imported, each with the reason.
    """

    folders: Folders
    cache: Path
    missing: Mapping[str, str]

    def path(self, sha256: str) -> Path:
        return self.cache / sha256[:2] / f"{sha256}.json"


def run_programs(
    environment: ProgramEnvironment,
    workers: int,
    stop: Shutdown,
    programs: Mapping[str, TestedProgram],
) -> dict[str, EvaluatedProgram]:
    """Return outcomes by SHA-256, those that run alone last.

    The cache takes each outcome at once, so that the next command continues.
    """
    from tqdm import tqdm

    outcomes = {}
    for sha256 in programs:
        with suppress(OSError, ValueError):  # it is not there, or damaged
            content = json_of(read_bytes(environment.path(sha256)))
            outcomes[sha256] = EvaluatedProgram.model_validate(content)
    waiting = []
    for sha256, program in programs.items():
        if sha256 not in outcomes:
            waiting.append(program)
    say_aside(
        f"{quantity(len(programs), 'distinct program')}: "
        f"{len(outcomes):,} known, {len(waiting):,} to run"
    )
    bar = tqdm(total=len(waiting), unit="program", disable=None, leave=False)

    def run(program: TestedProgram) -> None:
        stop.check()
        outcome = outcome_of(environment.folders, program)
        outcome = outcome.model_copy(update={"timestamp": int(time.time())})
        data = outcome.model_dump_json(exclude={"program_no_test"}).encode()
        write_bytes_atomic(environment.path(program.sha256), data, durable=False)
        outcomes[program.sha256] = outcome
        bar.update()

    with bar, ThreadPoolExecutor(workers, "program") as pool:
        futures = []
        for program in waiting:
            if not program.alone:
                futures.append(pool.submit(run, program))
        try:
            for future in as_completed(futures):
                future.result()
        except BaseException:
            stop.request("the evaluation ends")
            pool.shutdown(cancel_futures=True)
            raise
    for program in waiting:
        if program.alone:
            run(program)
    return outcomes


def outcome_of(folders: Folders, program: TestedProgram) -> EvaluatedProgram:
    """Run a program, and if it passes again for its coverage; its text and time are left out.

    One whose tests compare times runs until two verdicts agree.
    """
    outcome = run_program(folders, program)
    runs = 1
    if program.alone:
        runs = ATTEMPTS
        first = outcome
        outcome = run_program(folders, program)
        if outcome.has_passed is not first.has_passed:
            outcome = run_program(folders, program)
    for _ in range(runs):
        if not outcome.has_passed or outcome.coverage is not None:
            break
        covered = run_program(folders, program, with_coverage=True)
        measured = covered.model_dump(include={"coverage", "coverage_missing"})
        outcome = outcome.model_copy(update=measured)
    return outcome


def _with_coverage(outcome: EvaluatedProgram, report: bytes) -> EvaluatedProgram:
    """Return an outcome with the coverage in a report, which the program may have forged."""
    with suppress(ValueError, LookupError, TypeError, AttributeError):
        content = json_of(report)
        [file] = content["files"].values()
        values = outcome.model_dump()
        values["coverage"] = int(content["totals"]["percent_covered_display"])
        values["coverage_missing"] = file["missing_lines"]
        return EvaluatedProgram.model_validate(values)
    return outcome


def run_program(
    folders: Folders, program: TestedProgram, *, with_coverage: bool = False
) -> EvaluatedProgram:
    """Run a program once, and return its outcome as the public code has it.

    A program that exits with 0 before its tests have ended has the status Exception.
    """
    secret = secrets.token_hex(16)
    # Coverage slows programs down, and a program may wait for a processor for most of its time.
    seconds = 4 * SECONDS if with_coverage else SECONDS
    longest = _CLOCK * seconds
    mode = "coverage" if with_coverage else "plain"
    # Half characters, which JSON can hold, make a program that Python refuses.
    text = program.text.encode("utf-8", "surrogatepass")
    stubs = {f"{name}.py": _STUBS[name] for name in program.stubs}
    command = FolderCommand(
        argv=("python", ".inside.py", mode, f"{seconds:g}", f"{longest:g}"),
        files={PROGRAM: text, ".inside.py": _INSIDE, **stubs},
        timeout=longest + _SLACK,
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
    code = result.exit_code or 0
    is_late = result.timed_out
    passed = False
    report = re.fullmatch(rb"(\w+) (-?\d+) (\S+)", result.files.get(REPORT, b""))
    if report:
        is_late = report[1] == LATE.encode()
        passed = code == 0 and report[3] == secret.encode()
        code = int(report[2])
    output = _ADDRESS.sub("0x..", result.output)[:_MAX_OUTPUT]
    errors = _ADDRESS.sub("0x..", result.errors)[-_MAX_OUTPUT:]
    status: Status = "Exception"
    if is_late:
        # The public code keeps no output of these.
        status = "Timeout"
        code = -1
        output = ""
        errors = ""
    elif passed:
        status = "OK"
        code = 0
    elif code == 0:
        errors += "the program ended before the last line of its tests\n"
    elif "SyntaxError" in result.errors:
        status = "SyntaxError"
    outcome = EvaluatedProgram(
        status=status, exit_code=code, stdout=output, stderr=errors
    )
    if passed and with_coverage:
        return _with_coverage(outcome, result.files.get(COVERAGE, b""))
    return outcome


@contextmanager
def program_environment(
    settings: CompletionReportSettings,
    modules: Set[str],
    check: Callable[[], None],
) -> Iterator[ProgramEnvironment]:
    """Make the environment, and try to import ``modules`` in it; it ends with the context."""
    evaluation = settings.evaluation
    kind = evaluation.environment
    cache = settings.folders.cache
    run_key = f"{_NAME} {cache}"
    with _without_leftovers(cache, run_key, kind):
        python = evaluation.interpreter
        image = ""
        try:
            if kind is EnvironmentKind.DOCKER:
                image = _image_with_libraries()
            elif python is None:
                python = library_python(cache, check)
            folders = make_folders(
                kind,
                python,
                image,
                limits=LIMITS,
                run_key=run_key,
                check=check,
                warn_once=say_aside,
            )
        except UnavailableError as error:
            raise UserError(str(error)) from error
        try:
            yield _probe(folders, kind, cache, modules - _STUBS.keys())
        finally:
            folders.stop()


@contextmanager
def _without_leftovers(
    cache: Path, run_key: str, kind: EnvironmentKind
) -> Iterator[None]:
    """Remove what killed evaluations left, if no other one with this cache is at work."""
    path = cache / _NAME / ".lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as lock:
        with suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            clean_key(run_key, containers=kind is EnvironmentKind.DOCKER)
        fcntl.flock(lock, fcntl.LOCK_SH)
        yield


def library_python(cache: Path, check: Callable[[], None]) -> Path:
    """Return an interpreter with the libraries of our requirements, installed into the cache."""
    say_aside(f"libraries of {REQUIREMENTS.name}: installed once, into {cache}")
    text = REQUIREMENTS.read_text("utf-8")
    lines = []
    for line in text.splitlines():
        if line and not line.startswith("#"):
            lines.append(line)
    try:
        return install_packages(_NAME, lines, cache, check)
    except UnavailableError as error:
        raise UserError(
            f"{error}; install what can be into a virtual environment of your own, and give its "
            "interpreter with evaluation.interpreter and report.allow_missing"
        ) from error


def _image_with_libraries() -> str:
    """Return the name of the image with the libraries, built where the engine lacks it."""
    files = {
        "Dockerfile": DOCKERFILE.read_bytes(),
        "requirements.txt": REQUIREMENTS.read_bytes(),
    }
    digest = sha256_of(b"\0".join(files.values()))
    image = f"swe-retry-harness/{_NAME}:{digest[:12]}"
    arguments = {}
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"):
        if name in os.environ:
            arguments[name] = os.environ[name]
    build_image(image, files, arguments, say_aside)
    return image


# Imports the modules that it is given, and says which cannot be, and what is installed: folders are
# named by library and version.
_PROBE = b"""\
import importlib
import json
import os
import platform
import sys

missing = {}
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except BaseException as error:
        missing[name] = f"{type(error).__name__}: {error}"
names = {name for place in sys.path if os.path.isdir(place) for name in os.listdir(place)}
found = sorted(name for name in names if name.endswith((".dist-info", ".egg-info")))
versions = {"python": sys.version, "machine": platform.machine(), "libraries": found}
with open("found.json", "w", encoding="utf-8") as stream:
    json.dump({**versions, "missing": missing}, stream)
"""


class Probe(BaseModel):
    """What the script says."""

    python: str
    machine: str
    libraries: list[str]
    missing: dict[str, str]


def _probe(
    folders: Folders, kind: EnvironmentKind, cache: Path, modules: Collection[str]
) -> ProgramEnvironment:
    command = FolderCommand(
        argv=("python", "probe.py", MEASURING, *sorted(modules)),
        files={"probe.py": _PROBE},
        timeout=300.0,
        collect=("found.json",),
    )
    result = folders.run(command)
    try:
        probe = Probe.model_validate_json(result.files.get("found.json", b""))
    except ValidationError as error:
        output = " ".join(result.output.split())[-300:]
        raise InfrastructureError(
            f"Python does not run in the environment: {output}"
        ) from error
    # Outcomes are comparable where everything is equal that decides how a program ends.
    rules = (SECONDS, LIMITS, _VARIABLES, _STUBS, _INSIDE)
    decisive = (kind, probe.python, probe.machine, probe.libraries, rules)
    identity = sha256_of(repr(decisive))[:16]
    return ProgramEnvironment(folders, cache / _NAME / identity, probe.missing)
