"""Limit a command in the strongest way that works on this machine.

Control groups, version 1 or 2, limit all processes of a command together, also root's.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path

from swe_retry.core.errors import InfrastructureError
from swe_retry.core.hashing import sha256_of
from swe_retry.core.plaintext import Say
from swe_retry.core.shutdown import Check
from swe_retry.environments.base import ResourceLimits
from swe_retry.environments.folders import VARIABLES
from swe_retry.environments.local.bubblewrap import (
    bubblewrap_works,
    process_limit_binds,
)
from swe_retry.environments.local.launcher import keyring_argv

_NAME = "swe-retry-harness"
_CONTROLLERS = ("memory", "pids")
_VERSION_2 = ""
_PROCESS = Path("/proc/self")
_ROUNDS = 250
_BREATH = 0.02
# Joins the groups before ``--``, then becomes the command after it.
_JOIN = (
    'until [ "$1" = -- ]; do echo $$ >"$1/cgroup.procs" || exit 125; shift; done; '
    'shift; exec "$@"'
)


@dataclass(frozen=True)
class ControlGroup:
    """The folders of one group: a single one in version 2, one per controller in version 1."""

    folders: tuple[Path, ...]

    def argv_inside(self, argv: Sequence[str]) -> list[str]:
        names = [str(folder) for folder in self.folders]
        return ["sh", "-c", _JOIN, "sh", *names, "--", *argv]

    def add(self, pid: int) -> None:
        """Move a process, and the children that it will have, into the group."""
        for folder in self.folders:
            (folder / "cgroup.procs").write_text(str(pid))

    def remove(self) -> None:
        for folder in self.folders:
            _write(folder / "pids.max", "0")
        for _ in range(_ROUNDS):
            for folder in self.folders:
                with contextlib.suppress(OSError):
                    for pid in (folder / "cgroup.procs").read_text().split():
                        with contextlib.suppress(ProcessLookupError, PermissionError):
                            os.kill(int(pid), signal.SIGKILL)
                with contextlib.suppress(OSError):
                    folder.rmdir()
            if not any(folder.exists() for folder in self.folders):
                return
            time.sleep(_BREATH)


@cache
def cgroups_work() -> bool:
    try:
        with limited_group(ResourceLimits(), "probe") as group:
            joined = group.argv_inside(["true"])
            return (
                subprocess.run(joined, capture_output=True, check=False).returncode == 0
            )
    except OSError:
        return False


@contextmanager
def limited_group(limits: ResourceLimits, run_key: str) -> Iterator[ControlGroup]:
    """Make a group with ``limits`` below this process's own, and remove it at the end."""
    name = f"{_prefix(run_key)}{secrets.token_hex(8)}"
    group = ControlGroup(tuple(parent / name for parent in _parents()))
    try:
        for folder in group.folders:
            folder.mkdir()
        _limit(group, limits)
        yield group
    finally:
        group.remove()


def remove_groups(run_key: str) -> list[str]:
    """Remove the groups of a crashed run with their processes; return their folders."""
    try:
        parents = _parents()
    except OSError:
        return []
    folders = [
        f for parent in parents for f in sorted(parent.glob(f"{_prefix(run_key)}*"))
    ]
    for folder in folders:
        ControlGroup((folder,)).remove()
    return [str(folder) for folder in folders]


def _prefix(run_key: str) -> str:
    return f"{_NAME}.{sha256_of(run_key)[:16]}."


def _limit(group: ControlGroup, limits: ResourceLimits) -> None:
    values = {
        "pids.max": limits.processes,
        "memory.max": limits.memory,
        "memory.limit_in_bytes": limits.memory,
    }
    written = {
        name.partition(".")[0]
        for folder in group.folders
        for name, value in values.items()
        if (folder / name).exists() and _write(folder / name, str(value))
    }
    if written != set(_CONTROLLERS):
        raise OSError("the controllers memory and pids are not available")
    for folder in group.folders:
        # Otherwise memory would continue in swap; kernels without swap accounting lack these.
        _write(folder / "memory.swap.max", "0")
        _write(folder / "memory.memsw.limit_in_bytes", str(limits.memory))


def _parents() -> set[Path]:
    """Return the folders of this process's own groups."""
    mounts = _mounts()
    own: dict[str, str] = {}
    for line in (_PROCESS / "cgroup").read_text().splitlines():
        _, names, path = line.split(":", 2)
        own |= dict.fromkeys(names.split(","), path)
    if all(name in mounts and name in own for name in _CONTROLLERS):
        # Both controllers may have one folder.
        return {_existing(mounts[name], own[name]) for name in _CONTROLLERS}
    if _VERSION_2 not in mounts:
        raise OSError("no group has the controllers memory and pids")
    top = mounts[_VERSION_2]
    for folder in (_existing(top, own.get(_VERSION_2, "/")), top):
        if set(_CONTROLLERS) <= set(
            (folder / "cgroup.subtree_control").read_text().split()
        ):
            return {folder}
    raise OSError("no group has the controllers memory and pids")


def _existing(mount: Path, own: str) -> Path:
    """Return the folder of this process's group; in a container it may be outside the mount."""
    folder = mount / own.lstrip("/")
    if folder.is_dir():
        return folder
    return mount


def _mounts() -> dict[str, Path]:
    mounts: dict[str, Path] = {}
    for line in (_PROCESS / "mountinfo").read_text().splitlines():
        left, _, right = line.partition(" - ")
        kind, _, options = right.split()[:3]
        names = {"cgroup2": [_VERSION_2], "cgroup": options.split(",")}.get(kind, [])
        mounts |= dict.fromkeys(names, Path(left.split()[4]))
    if not mounts:
        raise OSError("no cgroup is mounted")
    return mounts


def _write(path: Path, value: str) -> bool:
    try:
        # Not ``write_text``, which would create a missing file.
        with path.open("r+") as file:
            file.write(value)
    except OSError:
        return False
    return True


# Above the ids that systems assign to users, below the largest that all file systems accept.
_FIRST_USER = 1 << 30
_USERS = 1 << 29
# The options of bash's ulimit with their units in bytes, by the names of the module resource.
_ULIMIT = {"CORE": ("c", 1), "FSIZE": ("f", 1024), "AS": ("v", 1024), "NPROC": ("u", 1)}


class Confinement(StrEnum):
    """What limits processes and memory, the strongest first."""

    CGROUP = "cgroup"
    OTHER_USER = "other-user"
    RLIMITS = "rlimits"
    RLIMITS_PER_PROCESS = "rlimits per process"


def find_confinement() -> Confinement:
    """Return the strongest way that works here.

    ``ulimit -u`` never limits root, so without cgroups root's tests run as another user.
    """
    if cgroups_work():
        return Confinement.CGROUP
    if not bubblewrap_works():
        return Confinement.RLIMITS_PER_PROCESS
    if os.geteuid() == 0 and shutil.which("setpriv"):
        return Confinement.OTHER_USER
    if process_limit_binds():
        return Confinement.RLIMITS
    return Confinement.RLIMITS_PER_PROCESS


def missing_limits(confinement: Confinement) -> Iterator[str]:
    remedy = "run as root or where cgroups may be made, or use --environment docker"
    if confinement is not Confinement.CGROUP:
        yield f"no cgroup can be made: memory of test code is limited per process only; {remedy}"
    if confinement is Confinement.RLIMITS_PER_PROCESS:
        yield f"the number of processes of test code is not limited; {remedy}"


@dataclass(frozen=True)
class Confined:
    """How commands are limited; ``check`` raises when the run ``run_key`` stops."""

    way: Confinement
    limits: ResourceLimits
    run_key: str
    check: Check

    def rlimits(self) -> dict[str, int]:
        """Return the limits that the cgroup does not set: ``FSIZE`` stands for RLIMIT_FSIZE."""
        rlimits = {"CORE": 0, "FSIZE": self.limits.file_size}
        if self.way is not Confinement.CGROUP:
            rlimits["AS"] = self.limits.memory
        if self.way in (Confinement.OTHER_USER, Confinement.RLIMITS):
            rlimits["NPROC"] = self.limits.processes
        return rlimits

    def limited_argv(self, argv: Sequence[str], *, memory: bool) -> list[str]:
        """Return what runs ``argv`` with ``rlimits``, without ``memory`` but that of memory.

        Runtimes of JavaScript reserve far more addresses than they use memory.
        """
        lines = ""
        for name, value in self.rlimits().items():
            flag, unit = _ULIMIT[name]
            if memory or name != "AS":
                lines += f"ulimit -{flag} {value // unit} 2>/dev/null; "
        return ["bash", "-c", lines + 'exec "$@"', "bash", *argv]

    def user(self) -> int | None:
        """Return an unused user id for a command, because processes are counted per id.

        None where the command runs as the harness's user.
        """
        if self.way is Confinement.OTHER_USER:
            return _FIRST_USER + secrets.randbelow(_USERS)
        return None

    @contextmanager
    def launch_argv(self, argv: Sequence[str]) -> Iterator[list[str]]:
        """Yield a command line that runs ``argv`` without keyrings, if possible in a cgroup."""
        with self.group() as group:
            launched = keyring_argv(list(argv))
            if group:
                launched = group.argv_inside(launched)
            yield launched

    @contextmanager
    def group(self) -> Iterator[ControlGroup | None]:
        """Make a cgroup for a command, if that is the way; it is removed with its processes."""
        if self.way is not Confinement.CGROUP:
            yield None
            return
        with contextlib.ExitStack() as stack:
            try:
                group = stack.enter_context(limited_group(self.limits, self.run_key))
            except OSError as error:
                raise InfrastructureError(f"cannot make a cgroup: {error}") from error
            yield group


def confine(
    limits: ResourceLimits, run_key: str, check: Check, warn_once: Say
) -> Confined:
    """Return the strongest way to limit commands here; ``warn_once`` takes what it lacks."""
    way = find_confinement()
    for warning in missing_limits(way):
        warn_once(warning)
    return Confined(way, limits, run_key, check)


SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"


def command_variables(python: Path | None, home: str) -> dict[str, str]:
    """Return the environment variables of a command that finds ``python`` first."""
    variables = {"PATH": SYSTEM_PATH, "HOME": home, **VARIABLES}
    if python:
        variables["PATH"] = f"{python.parent}:{variables['PATH']}"
        variables["VIRTUAL_ENV"] = str(python.parent.parent)
    return variables
