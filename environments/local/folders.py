"""Local: commands in fresh folders, each in a bubblewrap sandbox of its own."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from core.errors import InfrastructureError
from core.output import Tail
from environments.base import UnavailableError
from environments.folders import (
    FOLDER,
    HOST,
    NOT_STARTED,
    FolderCommand,
    FolderResult,
    check_readable,
)
from environments.layout import read_collected, write_files
from environments.limits import ResourceLimits
from environments.local.bubblewrap import HOME, View, bubblewrap_works, bubblewrapped
from environments.local.confinement import (
    Confinement,
    find_confinement,
    missing_limits,
    other_user,
    rlimits,
)
from environments.local.gate import Gated, gated
from environments.local.sandbox import Confined, command_variables

_SYSTEM = Path("/usr")


def make_local_folders(
    python: Path | None = None,
    readable: Iterable[Path] = (),
    limits: ResourceLimits | None = None,
    run_key: str = "",
    check: Callable[[], None] = lambda: None,
    warn_once: Callable[[str], None] = lambda _: None,
) -> LocalFolders:
    """Return folders whose commands find ``python`` first, and see ``readable`` besides it.

    Args:
        python: an interpreter, such as that of a virtual environment; None for the system's.
        readable: absolute paths, such as a toolchain, visible at their own places.
        limits: of each command.
        run_key: marks the cgroups of a run, to remove them after a crash.
        check: raises when the run stops; running commands are killed then.
        warn_once: takes a message for each limit that cannot be set here.

    Raises:
        UnavailableError: bubblewrap does not work here.
        UserError: a path cannot be shown.
    """
    if not bubblewrap_works():
        raise UnavailableError(
            "bubblewrap is not installed, or it may not make namespaces here; install it (package "
            "bubblewrap), or use --environment docker"
        )
    way = find_confinement()
    for words in missing_limits(way):
        warn_once(words)
    shown = check_readable((*(python_folders(python) if python else ()), *readable))
    confined = Confined(way, limits or ResourceLimits(), run_key, check)
    return LocalFolders(tuple(dict.fromkeys(shown)), command_variables(python, HOME), confined)


def python_folders(python: Path) -> tuple[Path, ...]:
    """Return the folders that an interpreter needs, besides the system's own.

    That of a virtual environment is a link to another's, by way of further links.
    """
    found, place = list[Path](), Path(os.path.abspath(python))  # noqa: PTH100 - keeps links
    while True:
        found.append(place.parent.parent)
        found.append(place.parent.resolve().parent)
        if not place.is_symlink():
            return tuple(p for p in dict.fromkeys(found) if not p.is_relative_to(_SYSTEM))
        place = Path(os.path.normpath(place.parent / place.readlink()))


@dataclass(frozen=True)
class LocalFolders:
    """Runs commands with ``variables`` that see ``readable``; see ``Folders``."""

    readable: tuple[Path, ...]
    variables: Mapping[str, str]
    confined: Confined

    def run(self, command: FolderCommand) -> FolderResult:
        """Run ``command`` in a new sandbox; see ``Folders``."""
        self.confined.check()
        user = other_user() if self.confined.way is Confinement.OTHER_USER else None
        tails = self._tail(), self._tail() if command.separate else None

        def argv(options: tuple[str, ...]) -> list[str]:
            return self._argv(command, user, options)

        try:
            with self.confined.group() as group:
                inside = group.add if group else lambda _: None
                with gated(argv, FOLDER, command.stdin, command.separate, inside) as sandbox:
                    self._fill(sandbox, command, user)
                    return self._run(sandbox, command, tails)
        except OSError as error:
            raise InfrastructureError(f"cannot run a command in a sandbox: {error}") from error

    def stop(self) -> None:
        """Do nothing: a sandbox ends with its command."""

    def _run(
        self, sandbox: Gated, command: FolderCommand, tails: tuple[Tail, Tail | None]
    ) -> FolderResult:
        started = time.monotonic()
        in_time = sandbox.run(*tails, command.timeout, self.confined.check)
        seconds = time.monotonic() - started
        sandbox.kill()
        self.confined.check()
        sandbox.drain(*tails)
        code = sandbox.exit_code()
        most = self.confined.limits.collected
        found = {path: read_collected(sandbox.folder, path, most) for path in command.collect}
        return FolderResult(
            output=tails[0].text(),
            exit_code=(NOT_STARTED if code is None else code) if in_time else None,
            seconds=seconds,
            errors=tails[1].text() if tails[1] else "",
            files={path: data for path, data in found.items() if data is not None},
        )

    def _argv(
        self, command: FolderCommand, user: int | None, options: tuple[str, ...]
    ) -> list[str]:
        variables = {**self.variables, **command.variables}
        view = View(Path(FOLDER), self.readable, variables, options=(*options, "--hostname", HOST))
        become = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]
        words = [*(become if user is not None else ()), *command.argv]
        return bubblewrapped(["--", *words], view, self.confined.limits, user is not None)

    def _fill(self, sandbox: Gated, command: FolderCommand, user: int | None) -> None:
        """Limit the sandbox and write the files, which belong to ``user`` if there is one."""
        sandbox.limit(rlimits(self.confined.way, self.confined.limits))
        folder = Path(f"/proc/self/fd/{sandbox.folder}")
        write_files(folder, command.files)
        if user is not None:
            home = Path(f"/proc/{sandbox.pid}/root{HOME}")
            for path in (folder, home, *folder.rglob("*")):
                os.chown(path, user, user)

    def _tail(self) -> Tail:
        size = self.confined.limits.output
        return Tail(size // 5, size - size // 5)
