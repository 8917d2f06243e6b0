"""Run one program with its tests in a fresh folder, and judge how it ended.

The Python with the libraries that programs need is a virtual environment, or an image.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import secrets
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from pydantic import ValidationError

from core.errors import InfrastructureError, UserError
from core.hashing import sha256_of
from core.parsing.untrusted import DamagedError, json_of
from environments.base import (
    EnvironmentKind,
    Project,
    ResourceLimits,
    UnavailableError,
    VenvSpec,
)
from environments.choice import make_folders
from environments.docker.engine import connect, engine_errors
from environments.docker.images import holds
from environments.folders import FolderCommand, Folders
from environments.leftovers import remove_containers
from environments.local.confinement import remove_groups
from environments.local.venvs import Venvs
from exercises.canitedit.evaluation.inside import COVERAGE, LATE, PROGRAM, REPORT
from exercises.canitedit.results import EvaluatedProgram, ProgramStatus

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
    "PYTHONHASHSEED": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}
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
    """A program with its tests, which runs ``alone`` where they compare times."""

    __test__ = False

    text: str
    stubs: tuple[str, ...] = ()
    alone: bool = False

    @cached_property
    def sha256(self) -> str:
        return sha256_of("\0".join((self.text, *self.stubs)))

    @property
    def files(self) -> Mapping[str, bytes]:
        stubs = {f"{name}.py": _STUBS[name] for name in self.stubs}
        return {PROGRAM: self.text.encode(*_ENCODING), _SCRIPT: _inside(), **stubs}


@cache
def _inside() -> bytes:
    return Path(__file__).with_name("inside.py").read_bytes()


def rules_sha256() -> str:
    """Identify how programs are run here: outcomes under other rules are not comparable."""
    text = repr((SECONDS, LIMITS, _VARIABLES, _STUBS)).encode()
    return sha256_of(text + _inside())


def outcome_of(folders: Folders, program: TestedProgram) -> EvaluatedProgram:
    """Run a program, and if it passes again for its coverage; its text and time are left out.

    One whose tests compare times runs until two verdicts agree.
    """
    found = [run_program(folders, program)]
    while program.alone and all(
        one.passed is not found[-1].passed for one in found[:-1]
    ):
        found.append(run_program(folders, program))
    outcome = found[-1]
    for _ in range(ATTEMPTS if program.alone else 1):
        if outcome.passed and outcome.coverage is None:
            outcome = _measured(folders, program, outcome)
    return outcome


def run_program(folders: Folders, program: TestedProgram) -> EvaluatedProgram:
    """Run a program once, without coverage."""
    return _run(folders, program, "plain", SECONDS)[0]


def _measured(
    folders: Folders, program: TestedProgram, outcome: EvaluatedProgram
) -> EvaluatedProgram:
    again, report = _run(folders, program, "coverage", _COVERAGE_SECONDS)
    if not again.passed:
        return outcome
    try:
        found = json_of(report)
        percent = int(found["totals"]["percent_covered_display"])
        [file] = found["files"].values()
        values = {"coverage": percent, "coverage_missing": tuple(file["missing_lines"])}
        return EvaluatedProgram.model_validate({**outcome.model_dump(), **values})
    except (DamagedError, ValidationError, LookupError, TypeError, ValueError):
        return outcome


def _run(
    folders: Folders, program: TestedProgram, mode: str, seconds: float
) -> tuple[EvaluatedProgram, bytes]:
    """Return the outcome in the words of the public code, and the report of the coverage.

    A program that exits with 0 before its tests have ended has the status Exception.
    """
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
    late, code, passed = result.timed_out, result.exit_code or 0, False
    with suppress(ValueError):
        words, number, shown = result.files.get(REPORT, b"").decode("ascii").split(" ")
        late, code, passed = (
            words == LATE,
            int(number),
            shown == secret and result.exit_code == 0,
        )
    coverage = result.files.get(COVERAGE, b"")
    output, errors = (
        _ADDRESS.sub("0x..", text) for text in (result.output, result.errors)
    )
    output, errors = output[:_KEPT], errors[-_KEPT:]
    if late:
        # The public code keeps no output of these.
        status, code, output, errors = ProgramStatus.TIMEOUT, -1, "", ""
    elif passed:
        status, code = ProgramStatus.OK, 0
    else:
        refused = code != 0 and "SyntaxError" in result.errors
        status = ProgramStatus.SYNTAX_ERROR if refused else ProgramStatus.EXCEPTION
        errors += _LEFT if code == 0 else ""
    return EvaluatedProgram(
        status=status, exit_code=code, stdout=output, stderr=errors
    ), coverage


REQUIREMENTS = Path(__file__).parents[2] / "canitedit-requirements.txt"
DOCKERFILE = REQUIREMENTS.with_name("canitedit.Dockerfile")
MEASURING = "coverage"
"""The library that every program needs that passes."""
_NAME = "canitedit"
_IMAGE = f"swe-retry-harness/{_NAME}"
_FROM_VARIABLES = ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL")
_IMPORT_SECONDS = 300.0
_SHOWN = 300
_PROBE, _FOUND = "probe.py", "found.json"
# Imports the modules that it is given, and says which cannot be, and what is installed.
_PROBE_SCRIPT = b"""\
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
# Such folders are named by library and version.
found = sorted(name for name in names if name.endswith((".dist-info", ".egg-info")))
versions = {"python": sys.version, "machine": platform.machine(), "libraries": found}
with open("found.json", "w", encoding="utf-8") as stream:
    json.dump({**versions, "missing": missing}, stream)
"""


@dataclass(frozen=True)
class ProgramEnvironment:
    """Where programs run.

    Attributes:
        identity: of everything that decides how a program ends, besides the program.
        python: the version, as ``3.11.7``.
        missing: modules that cannot be imported, each with the reason.
    """

    folders: Folders
    identity: str
    python: str
    missing: Mapping[str, str]


@dataclass(frozen=True)
class EnvironmentSource:
    """Where programs are to run; without ``interpreter``, local has one with our requirements."""

    kind: EnvironmentKind
    interpreter: Path | None
    cache: Path

    @property
    def run_key(self) -> str:
        return f"{_NAME} {self.cache}"


@contextmanager
def program_environment(
    source: EnvironmentSource,
    modules: Collection[str],
    check: Callable[[], None],
    say: Callable[[str], None],
) -> Iterator[ProgramEnvironment]:
    """Make the environment, and try to import ``modules`` in it; it ends with the context."""
    with _without_leftovers(source):
        try:
            local = source.kind is EnvironmentKind.LOCAL
            python = _python(source, check, say) if local else None
            image = _image(say) if source.kind is EnvironmentKind.DOCKER else ""
            folders = make_folders(
                source.kind,
                python,
                image,
                limits=LIMITS,
                run_key=source.run_key,
                check=check,
                warn_once=say,
            )
        except UnavailableError as error:
            raise UserError(str(error)) from error
        try:
            yield _probed(source.kind, folders, modules)
        finally:
            folders.stop()


@contextmanager
def _without_leftovers(source: EnvironmentSource) -> Iterator[None]:
    """Remove what killed evaluations left, if no other one with this cache is at work."""
    place = source.cache / _NAME / ".lock"
    place.parent.mkdir(parents=True, exist_ok=True)
    with place.open("wb") as lock:
        with suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            remove_groups(source.run_key)
            if (
                source.kind is EnvironmentKind.DOCKER
                and (client := connect()) is not None
            ):
                remove_containers(client, source.run_key)
        fcntl.flock(lock, fcntl.LOCK_SH)
        yield


def _python(
    source: EnvironmentSource, check: Callable[[], None], say: Callable[[str], None]
) -> Path:
    if source.interpreter is not None:
        return source.interpreter
    say(f"libraries of {REQUIREMENTS.name}: installed once, into {source.cache}")
    text = REQUIREMENTS.read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    spec = VenvSpec(packages=tuple(lines))
    none = UnavailableError("no image")
    project = Project(_NAME, _NAME, "", REQUIREMENTS.parent, "", spec, none)
    try:
        return Venvs(source.cache / "environments", check=check).dependencies(
            project, spec
        )
    except UnavailableError as error:
        raise UserError(
            f"{error}; install what can be into a virtual environment of your own, and give its "
            "interpreter with evaluation.interpreter and report.allow_missing"
        ) from error


def _image(say: Callable[[str], None]) -> str:
    client = connect()
    if client is None:
        raise UserError(
            "no Docker engine answers: start one, or choose --environment local"
        )
    files = {
        "Dockerfile": DOCKERFILE.read_bytes(),
        "requirements.txt": REQUIREMENTS.read_bytes(),
    }
    digest = sha256_of(b"\0".join(files.values()))
    name = f"{_IMAGE}:{digest[:12]}"
    with engine_errors():
        if not holds(client, name):
            say(f"building the image {name}; this takes minutes")
            given = {
                name: os.environ[name] for name in _FROM_VARIABLES if name in os.environ
            }
            with tempfile.TemporaryDirectory() as folder:
                for path, data in files.items():
                    Path(folder, path).write_bytes(data)
                client.images.build(
                    path=folder, tag=name, rm=True, forcerm=True, buildargs=given
                )
    return name


def _probed(
    kind: EnvironmentKind, folders: Folders, modules: Collection[str]
) -> ProgramEnvironment:
    names = sorted({*modules, MEASURING})
    result = folders.run(
        FolderCommand(
            argv=("python", _PROBE, *names),
            files={_PROBE: _PROBE_SCRIPT},
            timeout=_IMPORT_SECONDS,
            collect=(_FOUND,),
        )
    )
    try:
        found = json_of(result.files.get(_FOUND, b""))
        python, libraries = (
            str(found["python"]),
            [str(name) for name in found["libraries"]],
        )
        missing = {str(name): str(reason) for name, reason in found["missing"].items()}
        decisive = [
            kind.value,
            python,
            str(found["machine"]),
            libraries,
            rules_sha256(),
        ]
    except (DamagedError, LookupError, TypeError, AttributeError) as error:
        said = " ".join(result.output.split())[-_SHOWN:]
        raise InfrastructureError(
            f"Python does not run in the environment: {said}"
        ) from error
    identity = sha256_of(json.dumps(decisive))
    return ProgramEnvironment(folders, identity, python.split()[0], missing)
