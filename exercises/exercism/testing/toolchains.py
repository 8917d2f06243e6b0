"""The tools of languages, the packages that exercises need, and the folders where tests run.

Packages are fetched once with network, and kept below the cache. Nothing of an exercise's author or
of a model runs here but the package manager, on the pristine files; JavaScript's scripts of
installation do not run.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from filelock import FileLock

from core.atomic import scratch_folder
from core.errors import InfrastructureError, UserError
from core.hashing import sha256_of
from core.processes import run_limited, without_secrets
from environments.base import EnvironmentKind, ResourceLimits, UnavailableError
from environments.choice import make_folders
from environments.folders import Folders
from environments.layout import check_path, write_files
from exercises.exercism.exercise import Exercise
from exercises.exercism.languages import LANGUAGES, Language

IMAGE = "python:3.11-slim"
_SYSTEM = ("/usr", "/bin", "/lib")
_SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"
_ROOT_SECONDS, _PREPARE_SECONDS = 60.0, 900.0
_SHOWN = 200
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


@dataclass(frozen=True)
class Toolchain:
    """The folders that commands must see, and PATH; empty where the system's folders are enough."""

    readable: tuple[Path, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)


@cache
def find_toolchain(name: str) -> Toolchain:
    language = LANGUAGES[name]
    found = {tool: shutil.which(tool) for tool in language.tools}
    if missing := [tool for tool, place in found.items() if place is None]:
        raise UserError(f"{', '.join(missing)} not found; install it")
    places = [
        Path(place) for place in found.values() if place and not _of_system(Path(place))
    ]
    if not places:
        return Toolchain()
    roots = tuple(dict.fromkeys(_root(language, place) for place in places))
    for root in roots:
        if Path.home().is_relative_to(root) or Path.cwd().is_relative_to(root):
            raise UserError(
                f"the tools lie in {root}, which cannot be shown; install them apart"
            )
    path = ":".join([*(str(root / "bin") for root in roots), _SYSTEM_PATH])
    return Toolchain(
        tuple(root for root in roots if not _of_system(root)), {"PATH": path}
    )


def _of_system(place: Path) -> bool:
    return str(place.resolve()).startswith(_SYSTEM)


def _root(language: Language, tool: Path) -> Path:
    """Return the folder of a tool: what is found in PATH may be a starter that lies elsewhere."""
    if not language.root_command:
        return tool.resolve().parent.parent
    result = run_limited(
        language.root_command, Path("/"), without_secrets(os.environ), _ROOT_SECONDS
    )
    root = Path(result.output.strip())
    if result.exit_code or not root.is_absolute() or not root.is_dir():
        raise UserError(
            f"{' '.join(language.root_command)} names no folder; install {tool.name}"
        )
    return root


@dataclass(frozen=True)
class LanguagePlace:
    folders: Folders
    variables: Mapping[str, str]


@dataclass(frozen=True)
class LanguagePlaces:
    """Makes the folders of a language when they are first asked for; many threads may ask.

    Attributes:
        cache: the harness's; counts of examples and packages are kept below it.
        run_key: marks containers and cgroups, to remove them after a crash.
        check: raises when the run stops: running tests are killed then.
        warn_once: takes a message for each limit that cannot be set here.
        python: for local, the interpreter of Python tests, with pytest.
    """

    kind: EnvironmentKind
    cache: Path
    run_key: str
    check: Callable[[], None]
    warn_once: Callable[[str], None]
    python: Path = Path(sys.executable)
    limits: ResourceLimits = LIMITS
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
        return LanguagePlace(folders, tools.variables)


def prepared_root(cache: Path) -> Path:
    return cache / "exercism" / "prepared"


def prepared_folder(cache: Path, exercise: Exercise) -> Path | None:
    """Return where the packages of an exercise lie or will lie, None if it needs none."""
    file, pattern = exercise.rules.packages
    text = (
        exercise.tested_files({}).get(file, b"").decode("utf-8", "replace")
        if file
        else ""
    )
    needed = [
        match[0] for match in re.finditer(pattern, text, re.MULTILINE) if match[0]
    ]
    if not file or not needed:
        return None
    parts = "\0".join((exercise.language, *map(str, exercise.rules.prepare), *needed))
    return prepared_root(cache) / sha256_of(parts)[:32]


def prepare(exercises: Iterable[Exercise], cache: Path) -> dict[str, str]:
    """Fetch the packages that exercises need and that are not there; needs a network only then.

    Returns:
        A reason in one line for each key of an exercise whose packages cannot be had: it is to be
        skipped.
    """
    problems, reasons = dict[Path, str](), dict[str, str]()
    for exercise in exercises:
        folder = prepared_folder(cache, exercise)
        if folder is None:
            continue
        if folder not in problems:
            problems[folder] = _prepared(folder, exercise)
        if problems[folder]:
            reasons[exercise.key] = problems[folder]
    return reasons


def _prepared(folder: Path, exercise: Exercise) -> str:
    """Return in one line why the packages cannot be had, empty if they can."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    env = {**without_secrets(os.environ), **dict(exercise.rules.environment)}
    with FileLock(f"{folder}.lock"):
        if folder.is_dir():
            return ""
        files = exercise.tested_files({})
        with scratch_folder(folder) as made:
            for path in files:
                check_path(path)
            write_files(made, files)
            for argv in exercise.rules.prepare:
                try:
                    result = run_limited(argv, made, env, _PREPARE_SECONDS)
                except OSError as error:
                    raise InfrastructureError(
                        f"cannot run {argv[0]}: {error}"
                    ) from error
                if result.exit_code != 0:
                    said = " ".join(result.output.split())[-_SHOWN:]
                    return f"{' '.join(argv)} fails: {said or f'exit code {result.exit_code}'}"
            made.rename(folder)
    return ""
