"""Connect to the Docker engine, and translate its errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import docker
import docker.errors
import requests.exceptions

from core.errors import InfrastructureError

ENGINE_ERRORS = (docker.errors.DockerException, requests.exceptions.RequestException, OSError)


def connect() -> Any | None:  # noqa: ANN401 - the SDK has no types
    """Return a client of the engine that the environment variables name; None if none answers."""
    try:
        client = docker.from_env(timeout=120)
        client.ping()
    except ENGINE_ERRORS:
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
    """Raise InfrastructureError in place of the SDK's errors."""
    try:
        yield
    except ENGINE_ERRORS as error:
        raise InfrastructureError(f"the Docker engine failed: {error}") from error
