"""Control groups, version 1 or 2: limit all processes of a command together, also root's."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from environments.limits import ResourceLimits

_NAME = "swe-retry-harness"
_CONTROLLERS = ("memory", "pids")
_VERSION_2 = ""
_PROCESS = Path("/proc/self")
_ROUNDS, _BREATH = 250, 0.02
# Joins the groups before ``--``, then becomes the command after it.
_JOIN = (
    'until [ "$1" = -- ]; do echo $$ >"$1/cgroup.procs" || exit 125; shift; done; shift; exec "$@"'
)


@dataclass(frozen=True)
class ControlGroup:
    """The folders of one group: a single one in version 2, one per controller in version 1."""

    folders: tuple[Path, ...]

    def joined(self, argv: Sequence[str]) -> list[str]:
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
            joined = group.joined(["true"])
            return subprocess.run(joined, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


@contextmanager
def limited_group(limits: ResourceLimits, run_key: str) -> Iterator[ControlGroup]:
    """Make a group with ``limits`` below this process's own, and remove it at the end."""
    name = f"{_prefix(run_key)}{secrets.token_hex(8)}"
    group = ControlGroup(tuple(dict.fromkeys(parent / name for parent in _parents().values())))
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
        parents = set(_parents().values())
    except OSError:
        return []
    found = [f for parent in parents for f in sorted(parent.glob(f"{_prefix(run_key)}*"))]
    for folder in found:
        ControlGroup((folder,)).remove()
    return [str(folder) for folder in found]


def _prefix(run_key: str) -> str:
    return f"{_NAME}.{hashlib.sha256(run_key.encode()).hexdigest()[:16]}."


def _limit(group: ControlGroup, limits: ResourceLimits) -> None:
    values = {"pids.max": limits.processes, "memory.max": limits.memory}
    values |= {"memory.limit_in_bytes": limits.memory}
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


def _parents() -> Mapping[str, Path]:
    mounts = _mounts()
    fields = [line.split(":", 2) for line in (_PROCESS / "cgroup").read_text().splitlines()]
    own = {name: path for _, names, path in fields for name in names.split(",")}
    if all(name in mounts and name in own for name in _CONTROLLERS):
        return {name: _existing(mounts[name], own[name]) for name in _CONTROLLERS}
    if _VERSION_2 not in mounts:
        raise OSError("no group has the controllers memory and pids")
    top = mounts[_VERSION_2]
    for folder in (_existing(top, own.get(_VERSION_2, "/")), top):
        if set(_CONTROLLERS) <= set((folder / "cgroup.subtree_control").read_text().split()):
            return dict.fromkeys(_CONTROLLERS, folder)
    raise OSError("no group has the controllers memory and pids")


def _existing(mount: Path, own: str) -> Path:
    """Return the folder of this process's group; in a container it may be outside the mount."""
    folder = mount / own.lstrip("/")
    return folder if folder.is_dir() else mount


def _mounts() -> dict[str, Path]:
    found: dict[str, Path] = {}
    for line in (_PROCESS / "mountinfo").read_text().splitlines():
        left, _, right = line.partition(" - ")
        kind, _, options = right.split()[:3]
        names = {"cgroup2": [_VERSION_2], "cgroup": options.split(",")}.get(kind, [])
        found |= {name: Path(left.split()[4]) for name in names}
    if not found:
        raise OSError("no cgroup is mounted")
    return found


def _write(path: Path, value: str) -> bool:
    try:
        # Not ``write_text``, which would create a missing file.
        with path.open("r+") as file:
            file.write(value)
    except OSError:
        return False
    return True
