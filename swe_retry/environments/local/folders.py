"""Local: commands in fresh folders, each in a bubblewrap sandbox of its own.

``run_shut_in`` runs every command in a sandbox, for tests and for exercises.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import platform
import resource
import secrets
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from swe_retry.core.errors import InfrastructureError
from swe_retry.core.plaintext import Say
from swe_retry.core.processes import RUN_VARIABLE, Tail
from swe_retry.core.shutdown import Check
from swe_retry.environments.base import ResourceLimits, UnavailableError
from swe_retry.environments.folders import (
    FOLDER,
    HOST,
    NOT_STARTED,
    FolderCommand,
    FolderResult,
    check_readable,
)
from swe_retry.environments.layout import read_collected, write_files
from swe_retry.environments.local.bubblewrap import (
    HARNESS,
    HOME,
    View,
    bubblewrap_works,
    sandbox_argv,
)
from swe_retry.environments.local.confinement import (
    Confined,
    ControlGroup,
    command_variables,
    confine,
)
from swe_retry.environments.local.launcher import key_filter
from swe_retry.environments.programs import HostProgram


def make_local_folders(
    python: Path | None,
    readable: Iterable[Path] = (),
    limits: ResourceLimits | None = None,
    run_key: str = "",
    check: Check = lambda: None,
    warn_once: Say = lambda _: None,
) -> LocalFolders:
    """Return folders whose commands find ``python`` first, and see ``readable`` besides it.

    The arguments are those of ``make_folders``.
    """
    if not bubblewrap_works():
        raise UnavailableError(
            "bubblewrap is not installed, or it may not make namespaces here; install it (package "
            "bubblewrap), or use --environment docker"
        )
    confined = confine(limits or ResourceLimits(), run_key, check, warn_once)
    folders = check_readable(readable)
    if python:
        folders += tuple(HostProgram(python).folders)
    return LocalFolders(
        tuple(dict.fromkeys(folders)), command_variables(python, HOME), confined
    )


@dataclass(frozen=True)
class LocalFolders:
    readable: tuple[Path, ...]
    variables: Mapping[str, str]
    confined: Confined

    def run(self, command: FolderCommand) -> FolderResult:
        variables = {**self.variables, **command.variables}
        view = View(
            Path(FOLDER), self.readable, variables, options=("--hostname", HOST)
        )
        return run_shut_in(
            self.confined,
            view,
            command,
            lambda folder: write_files(folder, command.files),
        )

    def stop(self) -> None:
        """Do nothing: a sandbox ends with its command."""


def run_shut_in(
    confined: Confined, view: View, command: FolderCommand, fill: Callable[[Path], None]
) -> FolderResult:
    """Run ``command`` in a new sandbox with ``view``, whose folder ``fill`` has filled before."""
    confined.check()
    user = confined.user()
    limits = confined.limits
    output = limits.tail()
    errors = limits.tail()
    try:
        with (
            confined.group() as group,
            start_sandbox(
                view, command, limits, user, group, output, errors
            ) as sandbox,
        ):
            sandbox.limit(confined.rlimits())
            folder = Path(f"/proc/{os.getpid()}/fd/{sandbox.folder}")
            fill(folder)
            if user is not None:
                home = f"/proc/{sandbox.pid}/root{HOME}"
                own = ["chown", "-Rh", f"{user}:{user}", f"{folder}/.", home]
                subprocess.run(own, check=True)
            started = time.monotonic()
            in_time = sandbox.run(command.timeout, confined.check)
            seconds = time.monotonic() - started
            sandbox.kill()
            confined.check()
            sandbox.drain()
            code = sandbox.exit_code()
            files = {}
            for path in command.collect:
                data = read_collected(sandbox.folder, path, limits.collected)
                if data is not None:
                    files[path] = data
    except (OSError, subprocess.CalledProcessError) as error:
        raise InfrastructureError(
            f"cannot run a command in a sandbox: {error}"
        ) from error
    return FolderResult(
        output=output.text(),
        exit_code=(NOT_STARTED if code is None else code) if in_time else None,
        seconds=seconds,
        errors=errors.text(),
        files=files,
    )


_PIDFD_OPEN = 434  # asm-generic/unistd.h: the same on all architectures
_SET_UP_SECONDS = 60.0
_BREATH = 0.0005
_POLL = 0.2
_DEATH_SECONDS = 30.0
_CHUNK = 1 << 16
_SHOWN = 300


@dataclass(frozen=True)
class Gated:
    """A sandbox that waits to start its command.

    All processes in it end with the first, ``pid``; ``folder`` is a descriptor of the command's.
    """

    process: subprocess.Popen[bytes]
    pid: int
    folder: int
    outputs: Sequence[tuple[IO[bytes], Tail]]
    _watched: tuple[int, int]
    _gate: IO[bytes]
    _status: IO[bytes]

    def limit(self, limits: dict[str, int]) -> None:
        """Set resource limits for the command; keys are ``FSIZE`` for RLIMIT_FSIZE."""
        for name, value in limits.items():
            number = getattr(resource, f"RLIMIT_{name}")
            _, hard = resource.prlimit(self.pid, number)
            least = value
            if hard != resource.RLIM_INFINITY:
                least = min(value, hard)
            resource.prlimit(self.pid, number, (least, least))

    def run(self, timeout: float, check: Check) -> bool:
        """Start the command and collect its output; tell whether it ended in time.

        ``check`` may end the wait by raising.
        """
        self._gate.write(b"x")
        end = time.monotonic() + timeout
        with selectors.DefaultSelector() as waiting:
            waiting.register(self._watched[0], selectors.EVENT_READ)
            for stream, sink in self.outputs:
                waiting.register(stream, selectors.EVENT_READ, sink)
            while (left := end - time.monotonic()) > 0:
                check()
                for key, _ in waiting.select(min(left, _POLL)):
                    if key.data is None:
                        return True
                    if not _read_once(key.fd, key.data):
                        waiting.unregister(key.fileobj)
        return False

    def kill(self) -> None:
        """Kill everything in the sandbox, and wait until the kernel has ended it."""
        for pidfd in reversed(self._watched):
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        with selectors.DefaultSelector() as waiting:
            waiting.register(self._watched[1], selectors.EVENT_READ)
            if not waiting.select(_DEATH_SECONDS):
                raise InfrastructureError(
                    f"process {self.pid} of a sandbox cannot be killed"
                )
        self.process.wait()

    def exit_code(self) -> int | None:
        """Return the code of the command, after its end; None if it could not be started."""
        for line in self._status.read().splitlines():
            code = json.loads(line).get("exit-code")
            if code is not None:
                return int(code)
        return None

    def drain(self) -> None:
        for stream, sink in self.outputs:
            while _read_once(stream.fileno(), sink):
                pass


@contextmanager
def start_sandbox(
    view: View,
    command: FolderCommand,
    limits: ResourceLimits,
    user: int | None,
    group: ControlGroup | None,
    output: Tail,
    errors: Tail,
) -> Iterator[Gated]:
    """Set a sandbox up that waits before its command; at the end nothing of it is left.

    It joins ``group`` before anything runs in it, and becomes ``user`` before its command.
    """
    argv = ["--"]
    if user is not None:
        argv += ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"]
    argv += command.argv
    marker = f"{HARNESS}/{secrets.token_hex(16)}"
    with contextlib.ExitStack() as stack:
        blocked, gate = _pipe(stack)
        status, reports = _pipe(stack)
        filtered = _as_file(stack, key_filter(platform.machine()))
        read = _as_file(stack, command.stdin)
        # The folder of the marker exists when all is mounted. Keys of others have names.
        options = ["--dir", marker, "--ro-bind", "/dev/null", "/proc/keys"]
        options += [
            "--block-fd",
            str(blocked.fileno()),
            "--json-status-fd",
            str(reports.fileno()),
        ]
        passed = [blocked.fileno(), reports.fileno()]
        if filtered is not None:
            options += ["--seccomp", str(filtered)]
            passed.append(filtered)
        seen = replace(view, options=(*options, *view.options))
        process = subprocess.Popen(
            sandbox_argv(argv, seen, limits, as_other=user is not None),
            pass_fds=passed,
            start_new_session=True,
            bufsize=0,
            # Processes in the sandbox may read the variables that bubblewrap was started with.
            env={
                name: os.environ[name]
                for name in ("PATH", RUN_VARIABLE)
                if name in os.environ
            },
            stdin=subprocess.DEVNULL if read is None else read,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if command.separate else subprocess.STDOUT,
        )
        stack.enter_context(process)
        stack.callback(process.kill)
        blocked.close()
        reports.close()
        try:
            pid = int(json.loads(status.readline())["child-pid"])
        except (ValueError, KeyError) as error:
            raise _not_set_up(process) from error
        if group:
            group.add(pid)
        watched = (_pidfd(stack, process.pid), _pidfd(stack, pid))
        end = time.monotonic() + _SET_UP_SECONDS
        root = f"/proc/{pid}/root"
        while not os.path.exists(root + marker):  # noqa: PTH110 - quick
            if process.poll() is not None or time.monotonic() > end:
                raise _not_set_up(process)
            time.sleep(_BREATH)
        opened = os.open(
            f"{root}{view.folder}", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
        )
        stack.callback(os.close, opened)
        outputs = []
        for stream, tail in ((process.stdout, output), (process.stderr, errors)):
            if stream:
                outputs.append((stream, tail))
        made = Gated(process, pid, opened, outputs, watched, gate, status)
        stack.callback(made.kill)
        yield made


def _not_set_up(process: subprocess.Popen[bytes]) -> InfrastructureError:
    process.kill()
    stream = process.stderr or process.stdout
    output = stream.read().decode("utf-8", "replace").split() if stream else []
    message = " ".join(output)[:_SHOWN] or "bubblewrap says nothing"
    return InfrastructureError(f"cannot start the sandbox: {message}")


def _pipe(stack: contextlib.ExitStack) -> tuple[IO[bytes], IO[bytes]]:
    reading, writing = os.pipe()
    return (
        stack.enter_context(os.fdopen(reading, "rb", 0)),
        stack.enter_context(os.fdopen(writing, "wb", 0)),
    )


def _as_file(stack: contextlib.ExitStack, data: bytes) -> int | None:
    if not data:
        return None
    descriptor = os.memfd_create("harness")
    stack.callback(os.close, descriptor)
    with open(descriptor, "wb", closefd=False) as file:
        file.write(data)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _pidfd(stack: contextlib.ExitStack, pid: int) -> int:
    # Not all Pythons have ``os.pidfd_open``.
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = int(libc.syscall(_PIDFD_OPEN, pid, 0))
    if descriptor < 0:
        raise OSError(ctypes.get_errno(), "cannot watch a process (Linux 5.3 can)")
    stack.callback(os.close, descriptor)
    return descriptor


def _read_once(descriptor: int, tail: Tail) -> bool:
    chunk = os.read(descriptor, _CHUNK)
    tail.add(chunk)
    return bool(chunk)
