"""The Python with the libraries that programs need: a virtual environment, or an image."""

from __future__ import annotations

import fcntl
import hashlib
import io
import json
import os
import tarfile
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from core.errors import InfrastructureError, UserError
from core.parsing.untrusted import DamagedError, json_of
from environments.base import EnvironmentKind, Project, UnavailableError, VenvSpec
from environments.choice import make_folders
from environments.docker.engine import connect, engine_errors
from environments.docker.images import holds
from environments.folders import FolderCommand, Folders
from environments.leftovers import remove_containers, remove_groups
from environments.local.venvs import Venvs
from exercises.canitedit.evaluation.running import LIMITS, rules_sha256

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
_SCRIPT = b"""\
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
    """Where programs are to run; see the options of ``evaluate``.

    Attributes:
        interpreter: for local, one of the user's; None for one with our requirements.
    """

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
    """Make the environment, and try to import ``modules`` in it; it ends with the context.

    Args:
        modules: what programs need, by the names under which they are imported.
    """
    with _without_leftovers(source):
        try:
            local = source.kind is EnvironmentKind.LOCAL
            python = _python(source, check, say) if local else None
            image = _image(say) if source.kind is EnvironmentKind.DOCKER else ""
            folders = make_folders(
                source.kind, python, image, limits=LIMITS, run_key=source.run_key, check=check,
                warn_once=say,
            )  # fmt: skip
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
            if source.kind is EnvironmentKind.DOCKER and (client := connect()) is not None:
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
        return Venvs(source.cache / "environments", check=check).dependencies(project, spec)
    except UnavailableError as error:
        raise UserError(
            f"{error}; install what can be into a virtual environment of your own, and give its "
            "interpreter with --interpreter and --allow-missing"
        ) from error


def _image(say: Callable[[str], None]) -> str:
    client = connect()
    if client is None:
        raise UserError("no Docker engine answers: start one, or choose --environment local")
    files = {"Dockerfile": DOCKERFILE.read_bytes(), "requirements.txt": REQUIREMENTS.read_bytes()}
    digest = hashlib.sha256(b"\0".join(files.values())).hexdigest()
    name = f"{_IMAGE}:{digest[:12]}"
    with engine_errors():
        if not holds(client, name):
            say(f"building the image {name}; this takes minutes")
            given = {name: os.environ[name] for name in _FROM_VARIABLES if name in os.environ}
            client.images.build(
                fileobj=_context(files), custom_context=True, tag=name, rm=True, forcerm=True,
                buildargs=given,
            )  # fmt: skip
    return name


def _context(files: Mapping[str, bytes]) -> io.BytesIO:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    buffer.seek(0)
    return buffer


def _probed(
    kind: EnvironmentKind, folders: Folders, modules: Collection[str]
) -> ProgramEnvironment:
    names = sorted({*modules, MEASURING})
    result = folders.run(
        FolderCommand(
            argv=("python", _PROBE, *names),
            files={_PROBE: _SCRIPT},
            timeout=_IMPORT_SECONDS,
            collect=(_FOUND,),
        )
    )
    try:
        found = json_of(result.files.get(_FOUND, b""))
        python, libraries = str(found["python"]), [str(name) for name in found["libraries"]]
        missing = {str(name): str(reason) for name, reason in found["missing"].items()}
        decisive = [kind.value, python, str(found["machine"]), libraries, rules_sha256()]
    except (DamagedError, LookupError, TypeError, AttributeError) as error:
        said = " ".join(result.output.split())[-_SHOWN:]
        raise InfrastructureError(f"Python does not run in the environment: {said}") from error
    identity = hashlib.sha256(json.dumps(decisive).encode()).hexdigest()
    return ProgramEnvironment(folders, identity, python.split()[0], missing)
