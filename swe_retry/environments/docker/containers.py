"""Containers with all limits: start one, put files into it, run commands, and remove it.

``Container.execute`` runs every command, with input, a time limit and bounded output.
"""

from __future__ import annotations

import contextlib
import io
import os
import resource
import secrets
import socket
import tarfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from swe_retry.core.git import join_paths
from swe_retry.core.processes import CommandResult, Tail
from swe_retry.core.shutdown import Check
from swe_retry.core.worktree import Changes
from swe_retry.environments.base import ResourceLimits
from swe_retry.environments.docker.engine import (
    engine_error_types,
    engine_errors,
    is_podman,
)
from swe_retry.environments.docker.setupscript import FOLDER, HARNESS, HOME

_GONE = f"{HARNESS}/gone"
LABEL = "swe-retry-harness"
# What set-up lines of images need to own and change files as root.
_CAPABILITIES = [
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "SETGID",
    "SETUID",
]
_GRACE = 15.0
_POLL = 1.0
_KILLED = 137
# Linux's usual ``pid_max``, above which Podman does not set the limit of its own service.
_MOST = 32768


@dataclass(frozen=True)
class Containers:
    """Starts containers in one engine; ``check`` raises when the run stops.

    ``options`` of the engine's SDK take the place of those that are used otherwise; without a
    ``user`` commands run as the image's, and without a ``home`` they have its ``HOME``.
    """

    client: Any
    labels: Mapping[str, str]
    limits: ResourceLimits
    check: Check = lambda: None
    options: Mapping[str, Any] = field(default_factory=dict)
    folder: str = FOLDER
    user: str = ""
    home: str = HOME

    @contextmanager
    def start(self, image: str) -> Iterator[Container]:
        """Yield a running container of ``image``, and remove it with all its processes.

        Raises:
            InfrastructureError: the engine failed.
        """
        from docker.errors import NotFound

        # The name is chosen here, so that the container is removed even if starting it fails.
        name = f"{LABEL}-{secrets.token_hex(8)}"
        self.check()
        try:
            with engine_errors():
                made = self._make(image, name)
            yield Container(self, made)
        finally:
            with engine_errors(), contextlib.suppress(NotFound):
                self.client.api.remove_container(name, force=True, v=True)

    def _make(self, image: str, name: str) -> Any:  # noqa: ANN401
        from docker.types import Ulimit

        limits = self.limits
        options: dict[str, Any] = {
            "command": ["sleep", "infinity"],
            "entrypoint": "",
            "init": True,
            "network_mode": "none",
            "mem_limit": limits.memory,
            "memswap_limit": limits.memory,
            "pids_limit": limits.processes,
            "ulimits": [
                Ulimit(name="fsize", soft=limits.file_size, hard=limits.file_size),
                Ulimit(name="core", soft=0, hard=0),
                *_own_limits(self.client),
            ],
            "tmpfs": {"/tmp": in_memory(limits.temporary)},
            "cap_drop": ["ALL"],
            "cap_add": _CAPABILITIES,
            "security_opt": ["no-new-privileges"],
            "environment": {"HOME": self.home} if self.home else {},
            "user": self.user,
            "working_dir": self.folder,
            "labels": dict(self.labels),
        }
        options |= self.options
        return self.client.containers.run(image, name=name, detach=True, **options)


def _own_limits(client: Any) -> Iterator[Any]:  # noqa: ANN401 - no types
    from docker.types import Ulimit

    if is_podman(client):
        for name, number in (
            ("nofile", resource.RLIMIT_NOFILE),
            ("nproc", resource.RLIMIT_NPROC),
        ):
            hard = resource.getrlimit(number)[1]
            limit = _MOST
            if hard != resource.RLIM_INFINITY:
                limit = min(hard, _MOST)
            yield Ulimit(name=name, soft=limit, hard=limit)


@dataclass(frozen=True)
class Container:
    """A running container, as the engine's SDK has it in ``made``."""

    containers: Containers
    made: Any

    def put(self, changes: Changes, files: Mapping[str, str]) -> None:
        """Apply ``changes`` to the work tree and write ``files``, which have absolute paths."""
        folder = self.containers.folder
        gone = [path for path, data in changes.items() if data is None]
        with engine_errors():
            if gone:  # first: a folder may take the place of a file
                listing = {_GONE: os.fsdecode(join_paths(gone))}
                self.made.put_archive("/", _tar(folder, {}, listing))
                command = ["bash", "-c", f"xargs -0 rm -rf -- <{_GONE}"]
                self.made.exec_run(command, workdir=folder, user="0")
            self.made.put_archive("/", _tar(folder, changes, files))

    def bash(
        self,
        arguments: Sequence[str],
        timeout: float,
        environment: Mapping[str, str] | None = None,
    ) -> CommandResult:
        """Run bash with ``arguments``; after ``timeout`` seconds it is killed.

        ``timeout`` in the container does not see children that left its process group, so the host
        limits the time too; removing the container ends them.
        """
        argv = ["timeout", "-s", "KILL", f"{timeout:.0f}", "bash", *arguments]
        tail = Tail()
        with self.watch_disk():
            exit_code, seconds = self.execute(
                argv,
                b"",
                Sinks(tail.add, tail.add),
                timeout + _GRACE,
                workdir=self.containers.folder,
                environment=dict(environment or {}),
            )
        self.containers.check()
        if exit_code == _KILLED and seconds >= timeout - 1:
            exit_code = None
        return CommandResult(tail.text(), exit_code, seconds)

    def execute(
        self,
        argv: Sequence[str],
        stdin: bytes,
        sinks: Sinks,
        timeout: float,
        check: Check | None = None,
        **options: object,
    ) -> tuple[int | None, float]:
        """Run ``argv``; it and its children may still run at the end.

        ``timeout`` counts from the start marker. The end of ``stdin`` is seen only by what counts
        bytes. ``check`` takes the place of that of ``containers``. ``options`` are those of the
        SDK's ``exec_create``: user, environment, workdir.

        Returns the exit code, None if the time was over before, and the seconds from the start
        marker, or from the request without one.
        """
        api = self.containers.client.api
        with engine_errors(), contextlib.ExitStack() as stack:
            execution = api.exec_create(
                self.made.id, list(argv), stdin=bool(stdin), **options
            )["Id"]
            connection = api.exec_start(execution, socket=True)
            raw = getattr(connection, "_sock", connection)
            stack.callback(_disconnect, connection, raw)
            early = bytearray(early_bytes(connection))
            if stdin:
                raw.settimeout(_START_SECONDS)
                raw.sendall(stdin)
            raw.settimeout(_EXEC_POLL)
            check = check or self.containers.check
            inspect = partial(api.exec_inspect, execution)
            ended = _pump(inspect, raw, early, sinks, timeout, check)
            seconds = time.monotonic() - sinks.started
            if not ended:
                return None, seconds
            exit_code = exit_code_of(api, execution)
            return -1 if exit_code is None else exit_code, seconds

    def commit(self) -> str:
        """Return the id of a new image with the container's files and labels."""
        with engine_errors():
            return str(self.made.commit().id)

    @contextmanager
    def watch_disk(
        self, must_end: Callable[[], bool] = lambda: False
    ) -> Iterator[None]:
        """Kill the container when it has written too much, or ``must_end`` says so."""
        done = threading.Event()
        api = self.containers.client.api
        limit = self.containers.limits.written

        def watch() -> None:
            while not done.wait(_POLL):
                with contextlib.suppress(*engine_error_types()):
                    containers = api.containers(size=True, filters={"id": self.made.id})
                    written = sum(
                        int(container.get("SizeRw") or 0) for container in containers
                    )
                    if written > limit or must_end():
                        self.made.kill()
                        return

        threading.Thread(target=watch, daemon=True).start()
        try:
            yield
        finally:
            done.set()


def in_memory(size: int) -> str:
    """Return the options of a mounted folder of ``size`` bytes, in which every user can write."""
    return f"rw,exec,mode=1777,size={size}"


def _tar(root: str, changes: Changes, files: Mapping[str, str]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        folder = tarfile.TarInfo(HARNESS.lstrip("/"))
        # Images may run as any user.
        folder.type = tarfile.DIRTYPE
        folder.mode = 0o777
        archive.addfile(folder)
        for name, text in files.items():
            add_file(archive, name.lstrip("/"), text.encode("utf-8", "surrogateescape"))
        for path, data in changes.items():
            if data is not None:
                add_file(archive, f"{root.lstrip('/')}/{path}", data)
    return buffer.getvalue()


def add_file(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    info.mode = 0o755
    info.mtime = int(time.time())
    archive.addfile(info, io.BytesIO(data))


_EXEC_POLL = 0.2
_ASK = 0.5
_START_SECONDS = 60.0
_END_SECONDS = 5.0
_ERRORS = 2


@dataclass
class Sinks:
    """Take the bytes of standard output and error; output before ``marker`` is dropped."""

    output: Callable[[bytes], None]
    errors: Callable[[bytes], None]
    marker: bytes = b""
    started: float = field(default_factory=time.monotonic)

    def take(self, stream: int, data: bytes) -> None:
        if stream == _ERRORS:
            self.errors(data)
            return
        if self.marker and data.startswith(self.marker):
            data = data[len(self.marker) :]
            self.marker = b""
            self.started = time.monotonic()
        if data and not self.marker:
            self.output(data)

    def late(self, timeout: float) -> bool:
        """Return whether ``timeout`` seconds have passed; the start itself may take longer."""
        allowed = timeout + (_START_SECONDS if self.marker else 0)
        return time.monotonic() - self.started > allowed


def early_bytes(connection: Any) -> bytes:  # noqa: ANN401
    """Return the output that came in one piece with the head of the engine's reply.

    On a busy machine a command may have written before the head is read. The HTTP library then has
    these bytes in its buffer, and the SDK, which reads the socket below it, loses them.
    """
    buffered = getattr(connection, "_response", None)
    for name in ("raw", "_fp", "fp"):
        buffered = getattr(buffered, name, None)
    if buffered is None or not hasattr(buffered, "peek"):
        return b""
    raw = getattr(connection, "_sock", connection)
    raw.setblocking(False)
    try:
        return bytes(buffered.peek() or b"")
    except (OSError, ValueError):
        return b""
    finally:
        raw.settimeout(_START_SECONDS)


def _disconnect(connection: Any, raw: Any) -> None:  # noqa: ANN401
    # Others refer to it, and an engine waits for a reader of endless output.
    with contextlib.suppress(OSError):
        raw.shutdown(socket.SHUT_RDWR)
    raw.close()
    # The reply above it goes first: Python 3.13 warns of one whose file is closed.
    response = getattr(connection, "_response", None)
    if response:
        response.close()
    connection.close()


def _pump(
    inspect: Callable[[], Any],
    raw: Any,  # noqa: ANN401
    frames: bytearray,
    sinks: Sinks,
    timeout: float,
    check: Check,
) -> bool:
    inspected = time.monotonic()
    while not sinks.late(timeout):
        check()
        for stream, data in _frames(frames):
            sinks.take(stream, data)
        try:
            chunk = raw.recv(1 << 16)
            if not chunk:
                return True
            frames += chunk
        except TimeoutError:
            if time.monotonic() - inspected > _ASK:
                if not inspect()["Running"]:
                    return True
                inspected = time.monotonic()
    for stream, data in _frames(frames):
        sinks.take(stream, data)
    return False


def _frames(buffer: bytearray) -> Iterator[tuple[int, bytes]]:
    # A frame is: stream, three zeros, length in 4 bytes, data.
    while len(buffer) >= 8 and len(buffer) >= (
        end := 8 + int.from_bytes(buffer[4:8], "big")
    ):
        yield buffer[0], bytes(buffer[8:end])
        del buffer[:end]


def exit_code_of(api: Any, made: str) -> int | None:  # noqa: ANN401
    """Return an exit code, which the engine may know a moment after the end of the output.

    It is None where the command does not end although it has closed its output.
    """
    end = time.monotonic() + _END_SECONDS
    while (state := api.exec_inspect(made))["Running"] and time.monotonic() < end:
        time.sleep(_EXEC_POLL / 10)
    code: int | None = state["ExitCode"]
    return code
