"""The strongest way to limit a command on this machine."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from enum import Enum

from environments.limits import ResourceLimits
from environments.local.bubblewrap import bubblewrap_works, process_limit_binds
from environments.local.cgroups import cgroups_work

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


def rlimits(confinement: Confinement, limits: ResourceLimits) -> dict[str, int]:
    """Return the limits that the cgroup does not set: ``FSIZE`` stands for RLIMIT_FSIZE."""
    found = {"CORE": 0, "FSIZE": limits.file_size}
    if confinement is not Confinement.CGROUP:
        found["AS"] = limits.memory
    if confinement in (Confinement.OTHER_USER, Confinement.RLIMITS):
        found["NPROC"] = limits.processes
    return found


def rlimit_lines(confinement: Confinement, limits: ResourceLimits) -> str:
    """Return bash lines that set ``rlimits``."""
    pairs = ((*_ULIMIT[name], value) for name, value in rlimits(confinement, limits).items())
    return "; ".join(f"ulimit -{flag} {value // unit} 2>/dev/null" for flag, unit, value in pairs)


def other_user() -> int:
    """Return an unused user id: processes are counted per id."""
    return _FIRST_USER + secrets.randbelow(_USERS)
