"""Connect to the engine, Docker's or Podman's, and translate its errors."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from swe_retry.core.errors import InfrastructureError

ENGINE_VARIABLE = "DOCKER_HOST"
_SECONDS = 120


@cache
def engine_error_types(*others: type[Exception]) -> tuple[type[Exception], ...]:
    """Return what the SDK raises, and ``others``; only who uses an engine imports the SDK."""
    import docker.errors

    # The errors of requests are OSErrors.
    return (docker.errors.DockerException, OSError, *others)


def connect() -> Any | None:  # noqa: ANN401 - the SDK has no types
    """Return a client of the engine; None if none answers.

    It is the one that ``DOCKER_HOST`` names, else Docker on its usual socket, else Podman's service
    (``podman system service``) on one of its usual sockets.
    """
    import docker

    variables = engine_variables()
    address = variables.get(ENGINE_VARIABLE)
    if address:
        return _answering(docker.DockerClient, base_url=address)
    return _answering(docker.from_env)


def engine_variables() -> dict[str, str]:
    """Return the variables by which other programs find the engine that ``connect`` finds.

    Empty where they find it by themselves, or where none answers.
    """
    import docker

    if os.environ.get(ENGINE_VARIABLE):
        return {}
    # Where Podman's service listens (podman-system-service(1)), the user's first.
    for folder in filter(None, (os.environ.get("XDG_RUNTIME_DIR"), "/run")):
        socket = Path(folder) / "podman/podman.sock"
        # Docker goes first where both answer.
        if socket.is_socket() and not _answers(_answering(docker.from_env)):
            address = f"unix://{socket}"
            if _answers(_answering(docker.DockerClient, base_url=address)):
                return {ENGINE_VARIABLE: address}
    return {}


def is_podman(client: Any) -> bool:  # noqa: ANN401
    components = client.version().get("Components") or ()
    names = [str(part.get("Name", "")) for part in components]
    return any("podman" in name.lower() for name in names)


def _answering(make: Any, **given: str) -> Any | None:  # noqa: ANN401
    try:
        client = make(timeout=_SECONDS, **given)
        # A socket has no proxy and no login. requests would look for them in the environment at
        # each call, which fails while another thread changes it.
        client.api.trust_env = not client.api.base_url.startswith("http+docker:")
        client.ping()
    except engine_error_types():
        return None
    return client


def _answers(client: Any | None) -> bool:  # noqa: ANN401
    if client:
        client.close()
    return client is not None


def engine_answers() -> bool:
    return _answers(connect())


@contextmanager
def engine_errors() -> Iterator[None]:
    """Raise InfrastructureError in place of the SDK's errors."""
    try:
        yield
    except engine_error_types() as error:
        raise InfrastructureError(f"the Docker engine failed: {error}") from error
