"""Docker: each command in a container of its own, made of the instance's image, without network."""

from __future__ import annotations

import contextlib
import io
import secrets
import tarfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import docker
import docker.errors
import requests.exceptions

from agent.deadline import within
from agent.errors import InfrastructureError
from agent.output import Tail
from bench.checkout import Checkout
from bench.environments.base import Changes, CommandResult, Session, UnavailableError
from bench.evalscript import TestSetup
from bench.instances import Instance

LABEL = "swe-retry-harness"
_FOLDER = "/testbed"
_SCRIPT = "/tmp/harness-command.sh"
_MEMORY = "8g"
_PROCESSES = 1024
_GRACE = 15.0
_KILLED = 137
_ENGINE_ERRORS = (docker.errors.DockerException, requests.exceptions.RequestException, OSError)


def connect() -> Any | None:  # noqa: ANN401 - the SDK has no types
    """Return a client of the engine that the environment names, None when none answers."""
    try:
        client = docker.from_env(timeout=120)
        client.ping()
    except _ENGINE_ERRORS:
        return None
    return client


@contextmanager
def _engine() -> Iterator[None]:
    """Turn what the SDK raises into the harness's word for it."""
    try:
        yield
    except _ENGINE_ERRORS as error:
        raise InfrastructureError(f"the Docker engine failed: {error}") from error


@dataclass(frozen=True)
class DockerEnvironment:
    """Sessions in containers of one engine."""

    client: Any
    name: str = field(default="docker", init=False)

    def start(self, instance: Instance, base: Checkout) -> Session:
        """Return a session in the instance's image, pulled when the engine does not hold it."""
        if instance.test_setup is None:
            raise UnavailableError("the row has no eval_script whose test runner is known")
        with _engine():
            self._have(instance.image)
        return DockerSession(self.client, instance.image, instance.instance_id, instance.test_setup)

    def identity(self, instance: Instance) -> str:
        """Return the image's id."""
        with _engine():
            return f"docker:{self.client.images.get(instance.image).id}"

    def _have(self, image: str) -> None:
        try:
            self.client.images.get(image)
        except docker.errors.ImageNotFound:
            repository, _, tag = image.rpartition(":")
            self.client.images.pull(repository or tag, tag=tag if repository else "latest")


@dataclass(frozen=True)
class DockerSession:
    """Runs commands, each in a new container that is removed with all that runs in it."""

    client: Any
    image: str
    instance_id: str
    setup: TestSetup

    @property
    def test_command(self) -> str:
        """The command of the instance's ``eval_script`` without the tests that it names."""
        return self.setup.command

    def run(self, changes: Changes, command: str, timeout: float) -> CommandResult:
        """Run ``command`` after the set-up lines; see ``Session.run``."""
        # Named before it is made, so that it is removed whatever interrupts the making of it.
        name = f"{LABEL}-{secrets.token_hex(8)}"
        with _engine():
            try:
                return self._run_in(self._container(name), changes, command, timeout)
            finally:
                with contextlib.suppress(docker.errors.NotFound):
                    self.client.containers.get(name).remove(force=True, v=True)

    def stop(self) -> None:
        """Do nothing: no container outlives its command."""

    def _container(self, name: str) -> Any:  # noqa: ANN401
        return self.client.containers.run(
            self.image,
            ["sleep", "infinity"],
            name=name,
            entrypoint="",
            detach=True,
            init=True,
            network_mode="none",
            mem_limit=_MEMORY,
            pids_limit=_PROCESSES,
            security_opt=["no-new-privileges"],
            working_dir=_FOLDER,
            labels={LABEL: "1", f"{LABEL}.instance": self.instance_id},
        )

    def _run_in(
        self,
        container: Any,  # noqa: ANN401
        changes: Changes,
        command: str,
        timeout: float,
    ) -> CommandResult:
        # What the set-up prints must not be read as test results.
        token = secrets.token_hex(16)
        lines = ["exec 2>&1", *self.setup.setup, f"cd {_FOLDER}", f"echo {token}", command]
        gone = [path for path, data in changes.items() if data is None]
        container.put_archive("/", _tar(changes, "\n".join(lines) + "\n"))
        if gone:
            container.exec_run(["rm", "-f", "--", *gone], workdir=_FOLDER)
        argv = ["timeout", "-s", "KILL", f"{timeout:.0f}", "bash", _SCRIPT]
        started = time.monotonic()
        output, code = self._exec(container, argv, timeout + _GRACE)
        seconds = time.monotonic() - started
        late = code is None or (code == _KILLED and seconds >= timeout - 1)
        return CommandResult(output.partition(token)[2], None if late else code, seconds)

    def _exec(
        self,
        container: Any,  # noqa: ANN401
        argv: list[str],
        limit: float,
    ) -> tuple[str, int | None]:
        """Run ``argv`` and return its output and exit code; None when it did not end in time.

        ``timeout`` in the container cannot see children that left its process group, so the
        host keeps the time as well; removing the container ends them.
        """
        api = self.client.api
        exec_id = api.exec_create(container.id, argv, workdir=_FOLDER)["Id"]
        tail = Tail()

        def read() -> None:
            for chunk in api.exec_start(exec_id, stream=True):
                tail.add(chunk)

        try:
            within(read, limit)
        except TimeoutError:
            return tail.text(), None
        return tail.text(), api.exec_inspect(exec_id)["ExitCode"]


def _tar(changes: Changes, script: str) -> bytes:
    """Return an archive with the changed files under the work folder, and the script."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        _add(archive, _SCRIPT.lstrip("/"), script.encode("utf-8", "surrogateescape"))
        for path, data in changes.items():
            if data is not None:
                _add(archive, f"{_FOLDER.lstrip('/')}/{path}", data)
    return buffer.getvalue()


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mode, info.mtime = len(data), 0o755, int(time.time())
    archive.addfile(info, io.BytesIO(data))
