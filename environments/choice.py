"""Make the environment of a run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from core.errors import UserError
from environments.base import Environment, EnvironmentKind
from environments.docker.engine import connect
from environments.docker.environment import DockerEnvironment
from environments.local.environment import LocalEnvironment
from environments.none import NoEnvironment


def make_environment(
    kind: EnvironmentKind,
    cache: Path,
    warn_once: Callable[[str], None],
    run_key: str = "",
    check: Callable[[], None] = lambda: None,
) -> Environment:
    """Return the environment of ``kind``; its containers and processes are marked with ``run_key``.

    ``check`` raises when the run stops: no command starts then, and running ones are killed.

    Raises:
        UserError: ``kind`` is Docker and no engine answers.
    """
    if kind is EnvironmentKind.NONE:
        return NoEnvironment()
    if kind is EnvironmentKind.LOCAL:
        return LocalEnvironment(cache / "environments", warn_once, run_key, check=check)
    client = connect()
    if client is None:
        raise UserError("no Docker engine answers: start one, or choose --environment local")
    return DockerEnvironment(client, run_key, check=check)
