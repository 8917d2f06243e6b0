"""Docker: set a changed project up once in its image, and run commands in containers of that."""

from __future__ import annotations

import contextlib
import io
import json
import secrets
import tarfile
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from swe_retry.core.errors import InfrastructureError
from swe_retry.core.hashing import sha256_of
from swe_retry.core.processes import CommandResult
from swe_retry.core.shutdown import Check
from swe_retry.core.worktree import Changes
from swe_retry.environments.base import (
    AS_GIVEN,
    FailedCommand,
    ImageSpec,
    Project,
    ResourceLimits,
    Session,
    Setup,
    SetupWay,
    UnavailableError,
)
from swe_retry.environments.docker.containers import LABEL, Container, Containers
from swe_retry.environments.docker.engine import engine_errors
from swe_retry.environments.docker.images import holds, pull
from swe_retry.environments.docker.setupscript import (
    HARNESS,
    HOME,
    SETUP_SCRIPT,
    SETUP_VARIABLES,
    command_script,
    failed_commands,
    installs_project,
    setup_lines,
    setup_script,
)
from swe_retry.environments.programs import HostProgram

_Started = tuple[Container, ExitStack]
# Set-up may compile extensions; its time is not the tests'.
_SETUP_SECONDS = 1800.0


def label_of(run_key: str) -> dict[str, str]:
    """Return the label of all containers and images of a run."""
    return {f"{LABEL}.run": run_key}


@dataclass(frozen=True)
class DockerEnvironment:
    """Sessions in containers of one engine, labelled with ``run_key``."""

    client: Any
    run_key: str = ""
    limits: ResourceLimits = field(default_factory=ResourceLimits)
    check: Check = lambda: None

    def start(self, project: Project) -> Session:
        image = project.image
        if isinstance(image, UnavailableError):
            raise image
        try:
            if not holds(self.client, image.name):
                pull(self.client, image.name)
        except InfrastructureError as error:
            message = str(error).replace(image.name, image.public_name or image.name)
            raise InfrastructureError(message) from None
        labels = {
            LABEL: "1",
            f"{LABEL}.instance": project.key,
            **label_of(self.run_key),
        }
        containers = Containers(
            self.client,
            labels,
            self.limits,
            self.check,
            folder=image.folder,
            user=image.user,
            home="" if image.keeps_home else HOME,
        )
        if image.installation is not None:
            image = replace(image, name=installed_image(containers, image, project))
        cleaned = ""
        if image.fresh_tree or image.cleaning:
            cleaned = cleaned_image(containers, image, project.root)
        return DockerSession(containers, image, project.revision, cleaned)


@dataclass(frozen=True)
class AgentImage:
    """The image in which an agent's containers start.

    Attributes:
        built: a folder with what the installation built in the work tree.
        hidden: what was removed for the agent.
        mounts: where the agent's files lie in it, by their paths in the machine.
    """

    name: str
    built: Path
    hidden: tuple[str, ...]
    mounts: dict[Path, Path]


@dataclass(frozen=True)
class DockerSession:
    """Sets trees up in containers of an image with the shell lines of its set-up.

    ``cleaned`` is the id of the image that was made of ``image``; empty if there is none.
    ``agent_images`` has those for agents, by the agent's program.
    """

    containers: Containers
    image: ImageSpec
    revision: str
    cleaned: str
    agent_images: dict[HostProgram | None, AgentImage] = field(default_factory=dict)

    @property
    def test_command(self) -> str:
        return self.image.test_command

    @property
    def identity(self) -> str:
        with engine_errors():
            identity = f"docker:{self.containers.client.images.get(self.image.name).id}"
        identity += self.containers.limits.mark
        if not self.cleaned:
            return identity
        spec = self.image
        made = json.dumps([spec.cleaning, spec.fresh_tree and self.revision])
        return f"{identity}:{sha256_of(made)[:16]}"

    @property
    def ways(self) -> tuple[SetupWay, ...]:
        if any(map(installs_project, self.image.setup)):
            return tuple(SetupWay)
        return (SetupWay.AS_GIVEN, SetupWay.ON_PATH)

    def installs(self, setup: Setup) -> bool:
        return any(map(installs_project, setup_lines(self.image.setup, setup)))

    @contextmanager
    def set_up(
        self, changes: Changes, setup: Setup
    ) -> Iterator[tuple[Container, tuple[FailedCommand, ...]]]:
        """Yield a container with a tree that is set up, and the commands that failed."""
        token = secrets.token_hex(16)
        folder = self.image.folder
        script = setup_script(
            [*setup_lines(self.image.setup, setup, folder)], token, folder
        )
        with self.containers.start(self.cleaned or self.image.name) as container:
            container.put(changes, {SETUP_SCRIPT: script})
            result = container.bash([SETUP_SCRIPT], _SETUP_SECONDS, SETUP_VARIABLES)
            yield container, failed_commands(result.output, token)

    @contextmanager
    def prepare(
        self, changes: Changes, setup: Setup = AS_GIVEN, commands: int = 1
    ) -> Iterator[DockerPrepared]:
        with self.set_up(changes, setup) as (container, failed):
            image = container.commit()
        prepared = DockerPrepared(self.containers, image, failed, commands)
        try:
            with prepared.workers:
                yield prepared
        finally:
            prepared.remove_containers()
            self._remove(image)

    def stop(self) -> None:
        for agent_image in self.agent_images.values():
            self._remove(agent_image.name)
        if self.cleaned:
            self._remove(self.cleaned)

    def _remove(self, image: str) -> None:
        from docker.errors import ImageNotFound

        with engine_errors(), contextlib.suppress(ImageNotFound):
            self.containers.client.images.remove(image, force=True, noprune=True)


@dataclass
class DockerPrepared:
    """A tree that is set up, as an image; each command runs in a new container of it.

    So nothing that a command leaves (processes; files of the tree, site-packages, the home folder
    and ``/tmp``) reaches the next one. To start a container and to remove it takes half a second:
    while a command runs, the container of the next of ``commands`` is started, and that of the
    last is removed.
    """

    containers: Containers
    image: str
    failed_commands: tuple[FailedCommand, ...]
    commands: int
    workers: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(2))
    _ready: list[Future[_Started]] = field(default_factory=list)
    _removals: list[Future[None]] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self, command: str, timeout: float) -> CommandResult:
        with self._lock:
            ready = None
            if self._ready:
                ready = self._ready.pop()
            self.commands -= 1
        container, removal = ready.result() if ready else self._start()
        try:
            with self._lock:
                if self.commands > len(self._ready):
                    self._ready.append(self.workers.submit(self._start))
            script = command_script(command, self.containers.folder)
            return container.bash(["-c", script], timeout)
        finally:
            self._removals.append(self.workers.submit(removal.close))

    def _start(self) -> _Started:
        with ExitStack() as stack:
            return stack.enter_context(
                self.containers.start(self.image)
            ), stack.pop_all()

    def remove_containers(self) -> None:
        """Remove what is left, after the end of ``workers``."""
        with ExitStack() as left:
            for removal in self._removals:
                left.callback(removal.result)
            for ready in self._ready:
                if ready.exception() is None:
                    left.callback(ready.result()[1].close)


_SECONDS = 900.0
_SCRIPT = f"{HARNESS}/clean.sh"
# Links of the image's repository would lead files of the new tree elsewhere, so all go first.
_EMPTY = """git -c safe.directory='*' ls-files -z >/harness/tracked || exit 1
xargs -0 rm -f -- </harness/tracked; rm /harness/tracked"""


def cleaned_image(containers: Containers, spec: ImageSpec, root: Path) -> str:
    """Return the id of a new image: ``spec``'s with the tree in ``root``, cleaned."""
    as_root = replace(containers, user="0:0", home="/root")
    with as_root.start(spec.name) as container:
        _run(
            container,
            spec,
            f"test -e .git || {{ echo no repository in {spec.folder}; exit 1; }}",
        )
        if spec.fresh_tree:
            _run(container, spec, _EMPTY)
            _put_tree(container, spec, root)
        _run(container, spec, "\n".join(spec.cleaning))
        return container.commit()


INSTALLED = f"{LABEL}-installed"
"""The repository of the images with an installed project; no run removes them."""


def installed_image(containers: Containers, spec: ImageSpec, project: Project) -> str:
    """Return the tag of an image with the files of ``project``, installed; it stays."""
    client = containers.client
    lines = spec.installation or ()
    with engine_errors():
        base = client.images.get(spec.name).id
    made = json.dumps([base, project.revision, spec.folder, lines])
    tag = sha256_of(made)[:16]
    if not holds(client, f"{INSTALLED}:{tag}"):
        online = replace(
            containers, user="0:0", home="", options={"network_mode": "default"}
        )
        with online.start(spec.name) as container:
            _put_tree(container, spec, project.root)
            _run(container, spec, "\n".join(["(set -e", *lines, ":)"]))
            # What is labelled with a run goes with it.
            with engine_errors():
                container.made.commit(INSTALLED, tag, changes=f"LABEL {LABEL}.run=")
    return f"{INSTALLED}:{tag}"


def _put_tree(container: Container, spec: ImageSpec, root: Path) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        archive.add(root, ".", filter=_without_owner)
    with engine_errors():
        container.made.put_archive(spec.folder, buffer.getvalue())


def _run(container: Container, spec: ImageSpec, script: str) -> None:
    token = secrets.token_hex(8)
    container.put({}, {_SCRIPT: f"exec 2>&1\n{script}\n[ $? = 0 ] && echo {token}\n"})
    result = container.bash([_SCRIPT], _SECONDS)
    if token not in result.output:
        output = " ".join(result.output.split())[-300:]
        raise UnavailableError(
            f"the image {spec.public_name or spec.name} cannot be prepared: {output}"
        )


def _without_owner(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    if entry.name == "./.git" or entry.name == ".git":
        return None
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    if entry.isdir():
        entry.mode = 0o755
    return entry
