"""Limit a command in the strongest way that works on this machine."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from core.errors import InfrastructureError
from environments.limits import ResourceLimits
from environments.local.bubblewrap import bubblewrap_works, process_limit_binds
from environments.local.cgroups import ControlGroup, cgroups_work, limited_group
from environments.local.launcher import launched

# Above the ids that systems assign to users, below the largest that all file systems accept.
_FIRST_USER, _USERS = 1 << 30, 1 << 29
# The options of bash's ulimit with their units in bytes, by the names of the module resource.
_ULIMIT = {"CORE": ("c", 1), "FSIZE": ("f", 1024), "AS": ("v", 1024), "NPROC": ("u", 1)}


class Confinement(str, Enum):
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
    return Confinement.RLIMITS if process_limit_binds() else Confinement.RLIMITS_PER_PROCESS


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
    limits: ResourceLimits = field(default_factory=ResourceLimits)
    run_key: str = ""
    check: Callable[[], None] = lambda: None

    def rlimits(self) -> dict[str, int]:
        """Return the limits that the cgroup does not set: ``FSIZE`` stands for RLIMIT_FSIZE."""
        found = {"CORE": 0, "FSIZE": self.limits.file_size}
        if self.way is not Confinement.CGROUP:
            found["AS"] = self.limits.memory
        if self.way in (Confinement.OTHER_USER, Confinement.RLIMITS):
            found["NPROC"] = self.limits.processes
        return found

    def limited_bash(self) -> str:
        """Return a bash script that sets ``rlimits`` and runs the command that is its argument."""
        pairs = ((*_ULIMIT[name], value) for name, value in self.rlimits().items())
        lines = [f"ulimit -{flag} {value // unit} 2>/dev/null" for flag, unit, value in pairs]
        return "; ".join([*lines, 'exec bash -c "$1"'])

    def user(self) -> int | None:
        """Return an unused user id for a command, because processes are counted per id.

        None where the command runs as the harness's user.
        """
        other = self.way is Confinement.OTHER_USER
        return _FIRST_USER + secrets.randbelow(_USERS) if other else None

    @contextmanager
    def held(self, argv: Sequence[str]) -> Iterator[list[str]]:
        """Yield a command line that runs ``argv`` without keyrings, if possible in a cgroup."""
        with self.group() as group:
            words = launched([*argv])
            yield group.joined(words) if group else words

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


def command_variables(python: Path | None, home: str) -> dict[str, str]:
    """Return the environment variables of a command that finds ``python`` first."""
    system = "/usr/local/bin:/usr/bin:/bin"
    own = {"VIRTUAL_ENV": str(python.parent.parent)} if python else {}
    return {
        "PATH": f"{python.parent}:{system}" if python else system,
        **own,
        "HOME": home,
        "USER": "harness",
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
