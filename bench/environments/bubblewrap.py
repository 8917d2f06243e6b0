"""The command line that shuts a command in: no network, nothing to write but one folder."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

_ETC = ("passwd", "group", "hosts", "nsswitch.conf", "ld.so.cache", "localtime", "alternatives")
_LINKS = {"/bin": "usr/bin", "/lib": "usr/lib", "/lib64": "usr/lib64", "/sbin": "usr/sbin"}
_TMP_BYTES = 1 << 30


@cache
def bubblewrap_works() -> bool:
    """Tell whether bubblewrap is installed and may make namespaces here."""
    if not shutil.which("bwrap"):
        return False
    return subprocess.run([*_base(), "true"], capture_output=True, check=False).returncode == 0


def bubblewrapped(
    command: Sequence[str], folder: Path, readable: Sequence[Path], environment: Mapping[str, str]
) -> list[str]:
    """Return ``command`` shut in: ``folder`` is writable, ``readable`` and the system are not.

    Whatever else is on the machine (data sets, keys, other checkouts) is not there at all. The
    capabilities are dropped because root could mount the system writable again.
    """
    argv = _base()
    for path in readable:
        argv += ["--ro-bind", str(path), str(path)]
    argv += ["--bind", str(folder), str(folder), "--chdir", str(folder), "--clearenv"]
    for key, value in environment.items():
        argv += ["--setenv", key, value]
    return [*argv, *command]


def _base() -> list[str]:
    argv = [
        "bwrap", "--unshare-user", "--unshare-net", "--unshare-pid", "--unshare-ipc",
        "--unshare-uts", "--unshare-cgroup-try", "--cap-drop", "ALL", "--die-with-parent",
        "--new-session", "--ro-bind", "/usr", "/usr",
    ]  # fmt: skip
    for name, target in _LINKS.items():
        if Path(name).is_symlink():
            argv += ["--symlink", target, name]
        elif Path(name).is_dir():
            argv += ["--ro-bind", name, name]
    for name in _ETC:
        argv += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    return [
        *argv, "--dev", "/dev", "--proc", "/proc", "--remount-ro", "/proc",
        "--size", str(_TMP_BYTES), "--tmpfs", "/tmp", "--dir", "/tmp/home",
    ]  # fmt: skip
