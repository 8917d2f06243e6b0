"""Docker: a candidate is set up once in its instance's image; commands run in copies of that."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from bench.instances.evalscript import TestSetup
from bench.instances.instances import Instance
from bench.repos.checkout import Checkout
from environments.base import (
    AS_GIVEN,
    Changes,
    CommandResult,
    FailedCommand,
    Session,
    Setup,
    SetupWay,
    UnavailableError,
)
from environments.docker.containers import LABEL, Containers
from environments.docker.engine import engine_errors
from environments.docker.images import holds, pull
from environments.docker.setupscript import (
    SETUP_SCRIPT,
    SETUP_VARIABLES,
    command_script,
    failed_commands,
    installs_project,
    setup_lines,
    setup_script,
)
from environments.limits import ResourceLimits

__all__ = ["LABEL", "DockerEnvironment", "DockerSession", "label_of"]

# Set-up may compile extensions; it does not count as time of the tests.
_SETUP_SECONDS = 1800.0


def label_of(run_key: str) -> dict[str, str]:
    """Return the label that all of a run's containers and images carry."""
    return {f"{LABEL}.run": run_key}


@dataclass(frozen=True)
class DockerEnvironment:
    """Sessions in containers of one engine, which carry ``run_key`` as a label."""

    client: Any
    run_key: str = ""
    limits: ResourceLimits = field(default_factory=ResourceLimits)
    check: Callable[[], None] = lambda: None
    name: str = field(default="docker", init=False)

    def start(self, instance: Instance, base: Checkout) -> Session:
        """Return a session in the instance's image, pulled when the engine does not hold it."""
        if instance.test_setup is None:
            raise UnavailableError("the row has no eval_script whose test runner is known")
        with engine_errors():
            if not holds(self.client, instance.image):
                pull(self.client, instance.image)
        labels = {LABEL: "1", f"{LABEL}.instance": instance.instance_id}
        labels |= label_of(self.run_key) if self.run_key else {}
        containers = Containers(self.client, labels, self.limits, self.check)
        return DockerSession(containers, instance.image, instance.test_setup)

    def identity(self, instance: Instance) -> str:
        """Return the image's id."""
        with engine_errors():
            return f"docker:{self.client.images.get(instance.image).id}"


@dataclass(frozen=True)
class DockerSession:
    """Sets candidates up in containers of ``image``."""

    containers: Containers
    image: str
    setup: TestSetup

    @property
    def test_command(self) -> str:
        """The command of the instance's ``eval_script`` without the tests that it names."""
        return self.setup.command

    @property
    def ways(self) -> tuple[SetupWay, ...]:
        """All, where the set-up installs the project; see ``Session``."""
        alone = not any(map(installs_project, self.setup.setup))
        return (SetupWay.AS_GIVEN, SetupWay.ON_PATH) if alone else tuple(SetupWay)

    def installs(self, setup: Setup) -> bool:
        """Return True unless the installation is left out; see ``Session``."""
        lines = setup_lines(self.setup.setup, setup)
        return any(map(installs_project, lines))

    @contextmanager
    def prepare(self, changes: Changes, setup: Setup = AS_GIVEN) -> Iterator[DockerPrepared]:
        """Set ``changes`` up in one container and keep its files as an image; see ``Session``."""
        from docker.errors import ImageNotFound

        token = secrets.token_hex(16)
        script = setup_script([*setup_lines(self.setup.setup, setup)], token)
        with self.containers.started(self.image) as container:
            container.put(changes, {SETUP_SCRIPT: script})
            result = container.bash([SETUP_SCRIPT], _SETUP_SECONDS, SETUP_VARIABLES)
            image = container.commit()
        try:
            yield DockerPrepared(self.containers, image, failed_commands(result.output, token))
        finally:
            with engine_errors(), contextlib.suppress(ImageNotFound):
                self.containers.client.images.remove(image, force=True, noprune=True)

    def stop(self) -> None:
        """Do nothing: no container and no image outlives its use."""


@dataclass(frozen=True)
class DockerPrepared:
    """A tree that is set up, as an image; each command runs in a new container of it.

    So what a command leaves behind (processes, files of the tree, of site-packages, of the home
    folder and of ``/tmp``) is gone before the next one.
    """

    containers: Containers
    image: str
    failed: tuple[FailedCommand, ...]

    def run(self, command: str, timeout: float) -> CommandResult:
        """Run ``command`` in a container of its own; see ``Prepared``."""
        with self.containers.started(self.image) as container:
            return container.bash(["-c", command_script(command)], timeout)
