"""The protocol of folders: one command in a fresh folder that is made of given files.

A ``Session`` prepares a project; this is for commands that need no more than a few files.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Protocol

from swe_retry.agent.workspace import UnsafePathError
from swe_retry.core.errors import UserError
from swe_retry.core.processes import CommandResult
from swe_retry.environments.layout import check_path

FOLDER = "/sandbox"
"""Where a command sees its folder: the same path in each run and environment."""
HOST = "sandbox"
"""The name of the machine that a command sees."""
VARIABLES = {
    "USER": "harness",
    "LANG": "C.UTF-8",
    "LC_ALL": "C.UTF-8",
    "TZ": "UTC",
    "PYTHONHASHSEED": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
}
"""The environment variables of each command, besides where its home and its programs are."""
NOT_STARTED = 127
"""The exit code where ``argv`` names no program, as in shells."""
_LONGEST_PART = 255
_LONGEST_PATH = 2000
_NEVER_SHOWN = ("/", "/tmp", "/etc", "/usr", "/run", "/proc", "/dev", "/sys", FOLDER)


@dataclass(frozen=True)
class FolderCommand:
    """A command, and the files of the folder in which it runs.

    Attributes:
        argv: the program, looked up in PATH, and its arguments; no shell reads them.
        files: contents by relative path, with ``/`` between the parts.
        timeout: seconds of wall-clock time from the start of the program.
        variables: environment variables besides the usual ones, or in their place.
        stdin: what the command reads from standard input.
        collect: relative paths of files that are read after the command.
        separate: return standard error in ``errors`` and not in ``output``.

    Raises:
        UnsafePathError: a path is absolute, has ``..``, empty parts or NUL, is too long, or leads
            through another file.
        ValueError: ``argv`` is empty, or it or the variables hold NUL.
    """

    argv: tuple[str, ...]
    files: Mapping[str, bytes]
    timeout: float
    variables: Mapping[str, str] = field(default_factory=dict)
    stdin: bytes = b""
    collect: tuple[str, ...] = ()
    separate: bool = False

    def __post_init__(self) -> None:
        for path in (*self.files, *self.collect):
            check_path(path)
            name = os.fsencode(path)
            if len(name) > _LONGEST_PATH:
                raise UnsafePathError(f"{path[:80]!a}… is too long for a path")
            if any(len(part) > _LONGEST_PART for part in name.split(b"/")):
                raise UnsafePathError(f"{path[:80]!a}… has a name that is too long")
        for path in self.files:
            for parent in map(str, PurePosixPath(path).parents):
                if parent in self.files:
                    raise UnsafePathError(
                        f"{path!a} lies below {parent!a}, which is a file"
                    )
        if not self.argv or "\0" in "".join(
            (*self.argv, *self.variables, *self.variables.values())
        ):
            raise ValueError(
                f"no command line: {self.argv!a} with {dict(self.variables)!a}"
            )


@dataclass(frozen=True)
class FolderResult(CommandResult):
    """The result of a ``FolderCommand``.

    ``output`` holds standard output and error in the order in which they were written, without
    their middle if they are longer than the limit. ``exit_code`` is 128 and the signal's number
    where a signal ended the command, and NOT_STARTED where there is no such program.

    Attributes:
        errors: standard error, if it was asked for separately.
        files: contents of the collected paths. A path is missing if the command left no regular
            file there, a link leads to it, or it is larger than the limit.
    """

    errors: str = ""
    files: Mapping[str, bytes] = field(default_factory=dict)


class Folders(Protocol):
    """Runs commands, each in a fresh folder; several may run at the same time.

    A command has no network, and sees of the machine only the system's programs and what it was
    given. It can write to its folder, its home folder and ``/tmp`` only, which are in memory.
    """

    def run(self, command: FolderCommand) -> FolderResult:
        """Run ``command``. Everything that it started has ended when this returns.

        Raises:
            InfrastructureError: the environment itself failed.
        """

    def stop(self) -> None:
        """Release everything; safe to call twice."""


def check_readable(paths: Iterable[Path]) -> tuple[Path, ...]:
    checked = tuple(paths)
    for path in checked:
        if not path.is_absolute() or not path.exists():
            raise UserError(
                f"{path}: there is no such path to show; name an absolute one"
            )
        if str(path) in _NEVER_SHOWN or str(path).startswith(
            ("/proc/", "/dev/", "/sys/", f"{FOLDER}/")
        ):
            raise UserError(
                f"{path} cannot be shown to a command; name a folder that it needs"
            )
    return checked
