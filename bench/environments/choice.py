"""Make the environment that a run asks for."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from agent.errors import UserError
from bench.config import EnvironmentKind
from bench.environments.base import Environment
from bench.environments.docker import DockerEnvironment, connect
from bench.environments.local import LocalEnvironment
from bench.environments.none import NoEnvironment


def make_environment(
    kind: EnvironmentKind, cache: Path, warn_once: Callable[[str], None]
) -> Environment:
    """Return the environment of ``kind``.

    Raises:
        UserError: docker is asked for and no engine answers.
    """
    if kind is EnvironmentKind.NONE:
        return NoEnvironment()
    if kind is EnvironmentKind.LOCAL:
        return LocalEnvironment(cache / "environments", warn_once)
    client = connect()
    if client is None:
        raise UserError("no Docker engine answers: start one, or choose --environment local")
    return DockerEnvironment(client)


def engine_answers() -> bool:
    """Tell whether a Docker engine answers."""
    client = connect()
    if client is None:
        return False
    client.close()
    return True


def missing_images(images: Iterable[str]) -> list[str]:
    """Return those of ``images`` that the engine does not hold, sorted."""
    client = connect()
    if client is None:
        return sorted(images)
    held = {tag for image in client.images.list() for tag in image.tags}
    client.close()
    return sorted(image for image in images if image not in held)
