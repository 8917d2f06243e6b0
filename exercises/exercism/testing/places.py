"""Where the tests of each language run: folders in which its tools are visible."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from core.errors import UserError
from environments.base import EnvironmentKind, UnavailableError
from environments.choice import make_folders
from environments.folders import Folders
from environments.limits import ResourceLimits
from exercises.exercism.languages import LANGUAGES
from exercises.exercism.testing.preparing import prepared_root
from exercises.exercism.testing.toolchains import Toolchain, find_toolchain


@dataclass(frozen=True)
class LanguagePlace:
    """Folders for a language, and variables that its commands need there."""

    folders: Folders
    variables: Mapping[str, str]


@dataclass(frozen=True)
class LanguagePlaces:
    """Makes the folders of a language when they are first asked for; many threads may ask.

    Attributes:
        kind: local or Docker.
        python: for local, the interpreter of Python tests.
        image: for Docker.
        cache: the harness's, with prepared packages.
    """

    kind: EnvironmentKind
    python: Path
    image: str
    cache: Path
    limits: ResourceLimits
    run_key: str
    check: Callable[[], None]
    warn_once: Callable[[str], None]
    _made: dict[str, LanguagePlace] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def of(self, language: str) -> LanguagePlace:
        """Return the place of a language.

        Raises:
            UserError: the environment or the tools cannot be used; names the fix.
            InfrastructureError: the engine failed.
        """
        # All languages have the same containers: an image holds their tools.
        key = "" if self.kind is EnvironmentKind.DOCKER else language
        with self._lock:
            if key not in self._made:
                self._made[key] = self._place(key)
            return self._made[key]

    def stop(self) -> None:
        """Release all of them; safe to call twice."""
        with self._lock:
            for place in self._made.values():
                place.folders.stop()

    def _place(self, language: str) -> LanguagePlace:
        tools = find_toolchain(language) if language else Toolchain()
        readable = (*tools.readable, *self._packages(language))
        try:
            folders = make_folders(
                self.kind, self.python if language == "python" else None, self.image, readable,
                self.limits, self.run_key, self.check, self.warn_once,
            )  # fmt: skip
        except UnavailableError as error:
            raise UserError(str(error)) from error
        return LanguagePlace(folders, {"PATH": tools.path} if tools.path else {})

    def _packages(self, language: str) -> tuple[Path, ...]:
        """Return the folder of prepared packages, if there may be any for the language."""
        prepared = prepared_root(self.cache).absolute()
        if self.kind is EnvironmentKind.LOCAL:
            if not LANGUAGES[language].prepare:
                return ()
            prepared.mkdir(parents=True, exist_ok=True)
        elif not prepared.is_dir():
            return ()
        elif prepared.is_relative_to("/tmp"):  # which is emptied between commands
            raise UserError(f"{prepared} cannot be shown in a container; use a cache out of /tmp")
        return (prepared,)
