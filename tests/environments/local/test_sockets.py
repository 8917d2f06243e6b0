"""A network namespace is left by no socket: those of other families are refused."""

from __future__ import annotations

import json
import platform
import socket
import subprocess
import sys

import pytest

from swe_retry.environments.local.bubblewrap import bubblewrap_works, sandbox_argv_with
from swe_retry.environments.local.launcher import keyring_argv

# io_uring makes sockets too, and no filter of system calls sees them.
SOCKETS = """
import ctypes, json, socket
made = {}
for family in range(64):
    for name in ("socket", "socketpair"):
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW):
            try:
                result = getattr(socket, name)(family, kind)
            except OSError as error:
                made.setdefault(str(family), error.errno)
            else:
                made[str(family)] = 0
libc = ctypes.CDLL(None, use_errno=True)
made["high"] = libc.syscall({number}, ctypes.c_ulong(2**32 + 40), 1, 0)
libc.syscall(425, 1, ctypes.create_string_buffer(120))
made["io_uring"] = ctypes.get_errno()
print(json.dumps(made))
""".replace("{number}", {"aarch64": "198"}.get(platform.machine(), "41"))
LISTED = {socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK}
REFUSED = 97  # EAFNOSUPPORT
ABSENT = 38  # ENOSYS

needs_filter = pytest.mark.skipif(
    platform.machine() not in ("x86_64", "aarch64"), reason="there is no filter here"
)


def sockets(argv: list[str]) -> dict[str, int]:
    """Return the error, or 0, by address family."""
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    errors: dict[str, int] = json.loads(done.stdout)
    return errors


@needs_filter
@pytest.mark.parametrize("shut_in", [False, True])
def test_only_sockets_of_listed_families_are_made(shut_in: bool) -> None:
    argv = ["python3", "-c", SOCKETS]
    if shut_in:
        if not bubblewrap_works():
            pytest.skip("bubblewrap is not installed")
        argv = sandbox_argv_with(argv, {}, (), network=False)
    else:
        argv[0] = sys.executable
    result = sockets(keyring_argv(argv))
    assert result.pop("io_uring") == ABSENT
    assert result.pop("high") == -1
    for name, error in result.items():
        listed = int(name) in LISTED
        assert (error != REFUSED) == listed, name


def test_without_the_filter_other_families_are_there() -> None:
    """Otherwise the other test would show nothing."""
    result = sockets([sys.executable, "-c", SOCKETS])
    families = set()
    for name, error in result.items():
        if name.isdigit() and not error:
            families.add(int(name))
    if families <= LISTED:
        pytest.skip("this machine has no other family")
    assert families - LISTED
