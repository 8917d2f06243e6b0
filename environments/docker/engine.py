"""The Docker engine: connecting to it, and its errors in the harness's words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from core.errors import InfrastructureError


@cache
def engine_error_types(*others: type[Exception]) -> tuple[type[Exception], ...]:
    """Return what the SDK raises, and ``others``; only who uses an engine imports the SDK."""
    import docker.errors

    # The errors of requests are OSErrors.
    return (docker.errors.DockerException, OSError, *others)


def connect() -> Any | None:  # noqa: ANN401 - the SDK has no types
    """Return a client of the engine that the environment names, None when none answers."""
    import docker

    try:
        client = docker.from_env(timeout=120)
        client.ping()
    except engine_error_types():
        return None
    return client


def engine_answers() -> bool:
    """Tell whether a Docker engine answers."""
    client = connect()
    if client is None:
        return False
    client.close()
    return True


@contextmanager
def engine_errors() -> Iterator[None]:
    """Turn what the SDK raises into the harness's word for it."""
    try:
        yield
    except engine_error_types() as error:
        raise InfrastructureError(f"the Docker engine failed: {error}") from error
