"""Start a command that shares no keys with other processes: ``python launcher.py ARGV…``.

All processes of a user share the kernel's keyrings, across namespaces: test code could read the
caller's keys (keyctl(2)) and leave text for later commands. So the command gets a new, anonymous
session keyring and a filter of system calls (seccomp(2)). The filter refuses keyrings, system
calls of other architectures, which have other numbers, and sockets that a network namespace does
not hold, such as AF_VSOCK. bubblewrap installs the filter itself as
its last step; without bubblewrap it is installed here.

This file runs by itself in an isolated interpreter and imports nothing else of the harness.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys

# linux/audit.h; asm/unistd.h: add_key, request_key, keyctl; socket, socketpair.
_ARCHITECTURES = {
    "x86_64": (0xC000003E, (248, 249, 250), (41, 53)),
    "aarch64": (0xC00000B7, (217, 218, 219), (198, 199)),
}
_IO_URING = 425  # it makes sockets without such a call
# linux/socket.h: AF_UNIX, AF_INET, AF_INET6, and AF_NETLINK, which lists interfaces.
_FAMILIES = (1, 2, 10, 16)
_X32 = 0x40000000
_JOIN_SESSION_KEYRING = 1
_NO_NEW_PRIVILEGES = 38
_SET_SECCOMP = 22
_FILTER = 2
# linux/bpf_common.h and linux/seccomp.h
_LOAD = 0x20
_EQUAL = 0x15
_AT_LEAST = 0x35
_RETURN = 0x06
_ALLOW = 0x7FFF0000
_ERROR = 0x00050000
_KILL = 0x80000000
# Offsets in struct seccomp_data; of an argument the lower half, which is all that socket(2) reads.
_NUMBER = 0
_ARCHITECTURE = 4
_ARGUMENT = 16


def key_filter(machine: str) -> bytes:
    """Return the filter program for ``machine`` (``uname -m``); empty for an unknown one.

    It kills a process that makes a system call of another architecture, and answers ENOSYS to
    calls of x32 and to io_uring, EPERM to those of keyrings, and EAFNOSUPPORT to sockets of other
    families.
    """
    if machine not in _ARCHITECTURES:
        return b""
    architecture, keyrings, sockets = _ARCHITECTURES[machine]
    lines = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
    ]
    if machine == "x86_64":
        lines += [(_AT_LEAST, 0, 1, _X32), (_RETURN, 0, 0, _ERROR | errno.ENOSYS)]
    for number in keyrings:
        lines += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _ERROR | errno.EPERM)]
    lines += [(_EQUAL, 0, 1, _IO_URING), (_RETURN, 0, 0, _ERROR | errno.ENOSYS)]
    # From a family in the list, and from other calls, to the last line.
    rest = len(_FAMILIES)
    socket = sockets[0]
    socketpair = sockets[1]
    lines += [
        (_EQUAL, 1, 0, socket),
        (_EQUAL, 0, rest + 2, socketpair),
        (_LOAD, 0, 0, _ARGUMENT),
    ]
    for position, family in enumerate(_FAMILIES):
        lines.append((_EQUAL, rest - position, 0, family))
    lines.append((_RETURN, 0, 0, _ERROR | errno.EAFNOSUPPORT))
    lines.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("=HBBI", *line) for line in lines)


def keyring_argv(argv: list[str]) -> list[str]:
    """Return the command line that starts ``argv`` with its own keyring."""
    return [sys.executable, "-I", "-S", __file__, *argv]


def main(argv: list[str]) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    _join_new_keyring(libc)
    program = key_filter(platform.machine())
    if program and os.path.basename(argv[0]) == "bwrap":  # noqa: PTH119 - quick to start
        argv = [argv[0], "--seccomp", str(_as_file(program)), *argv[1:]]
    elif program:
        _install(libc, program)
    os.execvp(argv[0], argv)


def _join_new_keyring(libc: ctypes.CDLL) -> None:
    keyctl = 0
    if platform.machine() in _ARCHITECTURES:
        keyctl = _ARCHITECTURES[platform.machine()][1][2]
    if keyctl and libc.syscall(keyctl, _JOIN_SESSION_KEYRING, None) < 0:
        error = ctypes.get_errno()
        # Without keyrings in the kernel, or with a filter that refuses them, none are shared.
        if error not in (errno.ENOSYS, errno.EPERM):
            raise OSError(error, f"cannot join a new keyring: {os.strerror(error)}")


def _as_file(program: bytes) -> int:
    descriptor = os.memfd_create("filter", 0)
    os.write(descriptor, program)
    os.lseek(descriptor, 0, os.SEEK_SET)
    os.set_inheritable(descriptor, True)
    return descriptor


def _install(libc: ctypes.CDLL, program: bytes) -> None:
    class HostProgram(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("lines", ctypes.c_char_p))

    filter_program = HostProgram(len(program) // 8, program)
    enabled = ctypes.c_ulong(1)
    zero = ctypes.c_ulong(0)
    if libc.prctl(_NO_NEW_PRIVILEGES, enabled, zero, zero, zero) or libc.prctl(
        _SET_SECCOMP, ctypes.c_ulong(_FILTER), ctypes.byref(filter_program), zero, zero
    ):
        error = ctypes.get_errno()
        raise OSError(error, f"cannot filter system calls: {os.strerror(error)}")


if __name__ == "__main__":
    main(sys.argv[1:])
