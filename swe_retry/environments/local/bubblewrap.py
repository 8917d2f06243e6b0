"""Command lines for bubblewrap: no network, and nothing writable but limited memory."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from swe_retry.environments.base import ResourceLimits
from swe_retry.environments.programs import SYSTEM, VisiblePaths

HARNESS = "/run/harness"
"""What the harness itself shows in a sandbox lies below this folder."""
HOME = "/tmp/home"
_ETC = (
    "passwd",
    "group",
    "hosts",
    "nsswitch.conf",
    "ld.so.cache",
    "localtime",
    "alternatives",
    # Programs make no HTTP client without.
    "ssl/certs",
)
# Files for names and certificates.
_ETC_NETWORK = (
    "resolv.conf", "host.conf", "gai.conf", "services", "protocols", "ca-certificates",
    "ssl/openssl.cnf", "pki/tls/certs", "pki/ca-trust", "crypto-policies",
)  # fmt: skip
_LINKS = {
    "/bin": "usr/bin",
    "/lib": "usr/lib",
    "/lib64": "usr/lib64",
    "/sbin": "usr/sbin",
}
# Needed to give files to another user and to become that user, which drops them again.
_TO_CHANGE_USER = (
    "CAP_CHOWN",
    "CAP_FOWNER",
    "CAP_DAC_OVERRIDE",
    "CAP_SETUID",
    "CAP_SETGID",
)


@dataclass(frozen=True)
class View:
    """What a command sees of the machine besides the system's programs.

    Attributes:
        folder: working directory: an empty folder in memory. Besides it, only ``/tmp`` and
            ``/dev/shm`` are writable.
        readable: visible at their own paths.
        environment: all variables of the command.
        options: further options of bubblewrap.
    """

    folder: Path
    readable: tuple[Path, ...]
    environment: Mapping[str, str]
    options: tuple[str, ...] = ()


@cache
def bubblewrap_works() -> bool:
    """Return whether bubblewrap is installed and may make namespaces here."""
    if not shutil.which("bwrap"):
        return False
    argv = [*_base(ResourceLimits(), as_other=False), "true"]
    return subprocess.run(argv, capture_output=True, check=False).returncode == 0


@cache
def process_limit_binds() -> bool:
    """Return whether ``ulimit -u`` limits the processes in the sandbox, and counts no others.

    It never limits root. Before Linux 5.14 it counted all of the user's processes on the machine.
    """
    base = [*_base(ResourceLimits(), as_other=False), "bash", "-c"]
    refused, allowed = (
        subprocess.run(
            [*base, f"ulimit -u {n}; true & wait $!"], capture_output=True, check=False
        )
        for n in (1, 8)
    )
    return refused.returncode != 0 and allowed.returncode == 0


def sandbox_argv(
    command: Sequence[str], view: View, limits: ResourceLimits, as_other: bool
) -> list[str]:
    """Return the command line that runs ``command`` in a sandbox with ``view``.

    Everything else on the machine (data sets, keys, other checkouts) is invisible. Capabilities
    are dropped because root could remount the system writable. ``as_other`` keeps those that
    root needs to become another user.
    """
    argv = [*_base(limits, as_other), *_open_parents([view.folder])]
    argv += _show(view.readable)
    argv += view.options
    argv += _in_memory(str(view.folder), limits.written)
    # The root of the sandbox and /dev are in memory too, without a limit.
    argv += [
        "--remount-ro",
        "/dev",
        "--remount-ro",
        "/",
        "--chdir",
        str(view.folder),
        "--clearenv",
    ]
    for key, value in view.environment.items():
        argv += ["--setenv", key, value]
    return [*argv, *command]


def sandbox_argv_with(
    command: Sequence[str],
    writable: Mapping[Path, Path],
    readable: Sequence[Path],
    hidden: Iterable[Path] = (),
    *,
    network: bool,
) -> list[str]:
    """Return the command line that runs ``command`` in a sandbox with folders of the machine.

    ``writable`` has folders and files by their places in the sandbox, and it runs in the first of
    them. ``hidden`` are empty there, although they lie in what is shown. It inherits its
    environment variables, because every user of the machine can read a command line.
    """
    argv = _base(ResourceLimits(), as_other=False, network=network)
    argv += _open_parents([*writable])
    argv += _show(readable)
    for hidden_path in hidden:
        name = str(hidden_path)
        if hidden_path.is_dir():
            argv += ["--tmpfs", name, "--remount-ro", name]
        else:
            argv += ["--dev-bind", "/dev/null", name]
    for target, path in writable.items():
        argv += ["--bind", str(path), str(target)]
    argv += ["--remount-ro", "/dev", "--remount-ro", "/"]
    folders = [*writable, Path("/")]
    return [*argv, "--chdir", str(folders[0]), *command]


def _base(limits: ResourceLimits, as_other: bool, network: bool = False) -> list[str]:
    argv = [
        "bwrap",
        "--unshare-pid",
        "--unshare-ipc",
        "--unshare-uts",
        "--unshare-cgroup-try",
        "--die-with-parent",
        "--cap-drop",
        "ALL",
        *([] if network else ["--unshare-net"]),
    ]
    if as_other:
        argv += [word for name in _TO_CHANGE_USER for word in ("--cap-add", name)]
    else:
        # In its own namespaces a command could mount memory without a limit.
        argv += [
            "--unshare-user",
            *(["--disable-userns"] if _disables_userns() else []),
        ]
    argv += ["--ro-bind", "/usr", "/usr"]
    for name, target in _LINKS.items():
        if Path(name).is_symlink():
            argv += ["--symlink", target, name]
        elif Path(name).is_dir():
            argv += ["--ro-bind", name, name]
    argv += ["--perms", "0755", "--dir", "/etc"]
    for name in (*_ETC, *(_ETC_NETWORK if network else ())):
        argv += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    argv += ["--dev", "/dev", "--proc", "/proc"]
    # Keyrings have no namespace: the sandbox would show the names of the user's keys.
    for path in sorted(Path("/proc").glob("key*")):
        argv += ["--dev-bind", "/dev/null", str(path)]
    argv += ["--remount-ro", "/proc"]
    argv += _in_memory("/dev/shm", limits.temporary, "1777")
    return [*argv, *_in_memory("/tmp", limits.temporary, "1777"), "--dir", HOME]


def _show(readable: Sequence[Path]) -> list[str]:
    """Return the options that show ``readable``: what is a link here is a link there."""
    system_files = [Path("/etc") / name for name in _ETC]
    visible = VisiblePaths(readable, (*SYSTEM, *system_files))
    argv = _open_parents([*visible.real, *visible.links])
    for path in visible.real:
        argv += ["--ro-bind", str(path), str(path)]
    for link, target in visible.links.items():
        argv += ["--symlink", str(target), str(link)]
    return argv


def _open_parents(paths: Sequence[Path]) -> list[str]:
    above = {
        parent for path in [*paths, Path(HARNESS) / "any"] for parent in path.parents
    }
    folders = sorted(above - {Path("/tmp"), *Path("/usr/x").parents})
    return [
        word for path in folders for word in ("--perms", "0755", "--dir", str(path))
    ]


def _in_memory(path: str, size: int, mode: str = "0755") -> list[str]:
    return ["--perms", mode, "--size", str(size), "--tmpfs", path]


@cache
def _disables_userns() -> bool:
    """Return whether this bubblewrap has the option (since 0.8)."""
    result = subprocess.run(["bwrap", "--help"], capture_output=True, check=False)
    return b"--disable-userns" in result.stdout + result.stderr
