"""Make the environment of a run, and the store of its images."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from swe_retry.core.errors import UserError
from swe_retry.core.hashing import sha256_of
from swe_retry.core.plaintext import Say
from swe_retry.core.shutdown import Check
from swe_retry.environments.base import (
    Environment,
    EnvironmentKind,
    Project,
    ResourceLimits,
    Session,
    UnavailableError,
    VenvSpec,
)
from swe_retry.environments.docker.engine import connect, engine_answers, engine_errors
from swe_retry.environments.docker.environment import DockerEnvironment
from swe_retry.environments.docker.folders import make_docker_folders
from swe_retry.environments.docker.images import Images, holds
from swe_retry.environments.docker.imagestore import ImageStore
from swe_retry.environments.folders import Folders
from swe_retry.environments.local.environment import LocalEnvironment
from swe_retry.environments.local.folders import make_local_folders
from swe_retry.environments.local.venvs import Venvs


@dataclass(frozen=True)
class NoEnvironment:
    """Refuses every session: no command runs."""

    def start(self, project: Project) -> Session:
        raise UnavailableError("tests are not run (--environment none)")


def default_environment() -> EnvironmentKind:
    """Return docker when an engine answers, else local."""
    if engine_answers():
        return EnvironmentKind.DOCKER
    return EnvironmentKind.LOCAL


def make_environment(
    kind: EnvironmentKind,
    cache: Path,
    warn_once: Say,
    run_key: str = "",
    check: Check = lambda: None,
    limits: ResourceLimits = ResourceLimits(),  # noqa: B008 - it is frozen
) -> Environment:
    """Return the environment of ``kind``; its containers and processes are marked with ``run_key``.

    ``check`` raises when the run stops: no command starts then, and running ones are killed.
    ``limits`` are those of each command.

    Raises:
        UserError: ``kind`` is Docker and no engine answers.
    """
    if kind is EnvironmentKind.NONE:
        return NoEnvironment()
    if kind is EnvironmentKind.LOCAL:
        root = cache / "environments"
        return LocalEnvironment(root, warn_once, run_key, limits, check=check)
    return DockerEnvironment(docker_engine(), run_key, limits, check)


def make_folders(
    kind: EnvironmentKind,
    python: Path | None = None,
    image: str = "",
    readable: Iterable[Path] = (),
    limits: ResourceLimits | None = None,
    run_key: str = "",
    check: Check = lambda: None,
    warn_once: Say = lambda _: None,
) -> Folders:
    """Return what runs commands in fresh folders in the environment of ``kind``.

    Args:
        kind: local or Docker.
        python: for local, the interpreter that is found first; None for the system's.
        image: for Docker, with the programs that commands need, sh and tar.
        readable: absolute paths, such as a toolchain, that commands see at their own places.
        limits: of each command.
        run_key: marks containers and cgroups, to remove them after a crash.
        check: raises when the run stops: running commands are killed then.
        warn_once: takes a message for each limit that cannot be set here.

    Raises:
        UnavailableError: bubblewrap does not work here, or ``kind`` runs nothing.
        UserError: no engine answers, or a path cannot be shown.
        InfrastructureError: the engine failed, or the image cannot be pulled.
    """
    if kind is EnvironmentKind.LOCAL:
        return make_local_folders(python, readable, limits, run_key, check, warn_once)
    if kind is EnvironmentKind.DOCKER:
        return make_docker_folders(
            docker_engine(), image, readable, limits, run_key, check
        )
    raise UnavailableError(
        f"--environment {kind.value} runs no commands in folders; use local or docker"
    )


def build_image(
    image: str, files: Mapping[str, bytes], arguments: Mapping[str, str], say: Say
) -> None:
    """Build an image of files, a Dockerfile among them, unless the engine has it."""
    client = docker_engine()
    with engine_errors(), tempfile.TemporaryDirectory() as folder:
        if holds(client, image):
            return
        say(f"building the image {image}; this takes minutes")
        for name, data in files.items():
            Path(folder, name).write_bytes(data)
        client.images.build(
            path=folder, tag=image, rm=True, forcerm=True, buildargs=dict(arguments)
        )


def install_packages(
    name: str, packages: Iterable[str], cache: Path, check: Check
) -> Path:
    """Return the interpreter of an environment with these packages, which the cache keeps.

    Raises:
        UnavailableError: they cannot be installed.
    """
    spec = VenvSpec(packages=tuple(packages))
    image = UnavailableError("no image")
    project = Project(name, name, "", cache, "", spec, image)
    return Venvs(cache / "environments", check=check).dependencies(project, spec)


def make_image_store(
    client: Any,  # noqa: ANN401 - the SDK has no types
    cache: Path,
    images: Images,
    say: Say,
    wait: Callable[[float], None] = time.sleep,
) -> ImageStore:
    """Return the images of the engine of ``client``, whose record lies in ``cache``.

    ``wait`` raises when the work stops.
    """
    with engine_errors():
        about = client.info()
    # Copies of a machine share the engine's id, and Podman makes a new one for each answer.
    engine = f"{about.get('Name')}:{about.get('DockerRootDir')}"
    folder = cache / "images" / sha256_of(engine)[:12]
    return ImageStore(client, folder, images.disk, images.mirrors, say, wait)


def docker_engine() -> Any:  # noqa: ANN401 - the SDK has no types
    """Return the client of the engine; a UserError where none answers."""
    client = connect()
    if not client:
        raise UserError(
            "no Docker engine answers: start one, or choose --environment local"
        )
    return client
