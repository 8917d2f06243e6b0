"""Make the environment that a run asks for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from agent.errors import UserError
from bench.config import EnvironmentKind
from bench.environments.base import Environment
from bench.environments.docker import DockerEnvironment
from bench.environments.engine import connect
from bench.environments.local import LocalEnvironment
from bench.environments.none import NoEnvironment


def make_environment(
    kind: EnvironmentKind,
    cache: Path,
    warn_once: Callable[[str], None],
    run_key: str = "",
    check: Callable[[], None] = lambda: None,
) -> Environment:
    """Return the environment of ``kind``; what it makes is marked as that of ``run_key``.

    ``check`` raises when the run stops: no command begins then, and running ones are killed.

    Raises:
        UserError: docker is asked for and no engine answers.
    """
    if kind is EnvironmentKind.NONE:
        return NoEnvironment()
    if kind is EnvironmentKind.LOCAL:
        return LocalEnvironment(cache / "environments", warn_once, run_key, check=check)
    client = connect()
    if client is None:
        raise UserError("no Docker engine answers: start one, or choose --environment local")
    return DockerEnvironment(client, run_key, check=check)
