"""Docker: commands in fresh folders, in containers that are emptied between two commands.

A new container takes most of a second, a command in a running one a tenth. So a container is used
for one command after the other. Nothing in it can be written but folders in memory, kernel objects
for communication cannot be made, and after each command root kills all processes and empties the
folders. A container that is not seen to be clean is removed.
"""

from __future__ import annotations

import contextlib
import io
import secrets
import tarfile
import threading
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from swe_retry.core.errors import InfrastructureError
from swe_retry.core.shutdown import Check
from swe_retry.environments.base import ResourceLimits
from swe_retry.environments.docker.containers import (
    LABEL,
    Container,
    Containers,
    Sinks,
    add_file,
    in_memory,
)
from swe_retry.environments.docker.environment import label_of
from swe_retry.environments.docker.images import holds, pull
from swe_retry.environments.folders import (
    FOLDER,
    HOST,
    VARIABLES,
    FolderCommand,
    FolderResult,
    check_readable,
)

_USER = "65534:65534"
_HOME = "/tmp/home"
_INPUT = "/tmp/.input"
_SHARED = "/dev/shm"
_CLEAN_SECONDS = 20.0
_SHOWN = 300
# What root needs to end a user's processes, and to read and remove his files.
_CAPABILITIES = ["KILL", "DAC_OVERRIDE"]
# Outlives "kill -1", and waits for the processes that a command leaves.
_FIRST = "while :; do sleep 1000000 & wait; done"
# Arguments: the marker, the number of bytes of the archive, separate or merged, the command.
_RUN = f"""head -c "$2" | tar -xf - -C / && mkdir -p {_HOME} && cd {FOLDER} || exit 125
exec <{_INPUT}; rm {_INPUT}
[ "$3" = merged ] && exec 2>&1
printf %s "$1"; shift 3
exec "$@"
"""
# Arguments: the most bytes of a file, the files. Besides this shell, the first process and its
# sleep remain. Writes an archive of the files, then empties what can be written.
_CLEAN = f"""kill -9 -1
for round in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    set_of() {{ count=$#; }}; set_of /proc/[0-9]*
    [ "$count" -le 3 ] && break
    sleep 0.05
done
[ "$count" -le 3 ] || exit 1
most=$1; shift; number=$#
while [ "$number" -gt 0 ]; do
    name=$1; shift; number=$((number - 1)); place={FOLDER}/$name
    [ -f "$place" ] && [ ! -h "$place" ] && [ "$(wc -c <"$place")" -le "$most" ] \\
        && [ "$(cd -P "${{place%/*}}" && pwd -P)" = "${{place%/*}}" ] && set -- "$@" "./$name"
done
[ $# -eq 0 ] || tar -cf - -C {FOLDER} "$@" || exit 1
for folder in {FOLDER} /tmp {_SHARED}; do
    rm -rf "$folder"/..?* "$folder"/.[!.]* "$folder"/*
    [ -z "$(ls -A "$folder")" ] || exit 1
done
"""


def make_docker_folders(
    client: Any,  # noqa: ANN401 - the SDK has no types
    image: str,
    readable: Iterable[Path],
    limits: ResourceLimits | None,
    run_key: str,
    check: Check,
) -> DockerFolders:
    """Return folders in containers of ``image``, which is pulled if the engine lacks it.

    The image needs sh, tar, head, rm and sleep. The other arguments are those of
    ``make_local_folders``; ``readable`` needs an engine on this machine.
    """
    folders = check_readable(readable)
    if not holds(client, image):
        pull(client, image)
    limits = limits or ResourceLimits()
    labels = {LABEL: "1", **label_of(run_key)}
    containers = Containers(client, labels, limits, check, _options(limits, folders))
    return DockerFolders(containers, image)


def _options(limits: ResourceLimits, readable: Iterable[Path]) -> dict[str, Any]:
    temporary = in_memory(limits.temporary)
    return {
        "command": ["sh", "-c", _FIRST],
        "init": False,
        "read_only": True,
        "ipc_mode": "private",
        "hostname": HOST,
        "tmpfs": {
            FOLDER: in_memory(limits.written),
            "/tmp": temporary,
            _SHARED: temporary,
        },
        # Objects of System V and POSIX queues would outlive the processes.
        "sysctls": {
            "kernel.shmmni": "0",
            "kernel.msgmni": "0",
            "kernel.sem": "0 0 0 0",
            "fs.mqueue.queues_max": "0",
        },
        "cap_add": _CAPABILITIES,
        "environment": {"HOME": _HOME, **VARIABLES},
        "working_dir": "/",
        "volumes": {str(path): {"bind": str(path), "mode": "ro"} for path in readable},
    }


@dataclass(frozen=True)
class DockerFolders:
    containers: Containers
    image: str
    _free: list[tuple[Container, ExitStack]] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self, command: FolderCommand) -> FolderResult:
        limits = self.containers.limits
        output = limits.tail()
        errors = limits.tail()
        marker = secrets.token_hex(16)
        archive = _archive(command)
        how = "merged"
        if command.separate:
            how = "separate"
        argv = ["sh", "-c", _RUN, "sh", marker, str(len(archive)), how, *command.argv]
        with ExitStack() as removal:
            with self._lock:
                container, stack = (
                    self._free.pop() if self._free else (None, ExitStack())
                )
            removal.callback(stack.close)
            if not container:
                container = stack.enter_context(self.containers.start(self.image))
            sinks = Sinks(output.add, errors.add, marker.encode())
            exit_code, seconds = container.execute(
                argv,
                archive,
                sinks,
                command.timeout,
                user=_USER,
                environment=dict(command.variables),
            )
            if sinks.marker:
                message = " ".join(errors.text().split())[-_SHOWN:]
                raise InfrastructureError(
                    f"cannot fill a folder in {self.image}: {message}"
                )
            files = self._empty(container, command)
            if files is not None:
                removal.pop_all()
                with self._lock:
                    self._free.append((container, stack))
        return FolderResult(
            output.text(),
            exit_code,
            seconds,
            errors.text() if command.separate else "",
            files or {},
        )

    def stop(self) -> None:
        with self._lock:
            left = [*self._free]
            self._free.clear()
        for _, stack in left:
            stack.close()

    def _empty(
        self, container: Container, command: FolderCommand
    ) -> dict[str, bytes] | None:
        limit = str(self.containers.limits.collected)
        content = bytearray()
        argv = ["sh", "-c", _CLEAN, "sh", limit, *command.collect]
        sinks = Sinks(content.extend, lambda _: None)
        with contextlib.suppress(InfrastructureError, tarfile.TarError):
            exit_code = container.execute(argv, b"", sinks, _CLEAN_SECONDS, user="0:0")[
                0
            ]
            if exit_code != 0:
                return None
            files: dict[str, bytes] = {}
            if content:
                with tarfile.open(fileobj=io.BytesIO(content)) as archive:
                    for member in archive:
                        file = archive.extractfile(member)
                        if file:
                            files[member.name.removeprefix("./")] = file.read()
            return files
        return None


def _archive(command: FolderCommand) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        add_file(archive, _INPUT.lstrip("/"), command.stdin)
        for path, data in command.files.items():
            add_file(archive, f"{FOLDER.lstrip('/')}/{path}", data)
    return buffer.getvalue()
