"""Find out which images the engine lacks, and pull them."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import docker.errors
from docker.auth import resolve_repository_name
from docker.utils import parse_repository_tag

from core.errors import InfrastructureError
from environments.docker.engine import ENGINE_ERRORS, connect, engine_errors

_GB = 1e9
RESERVE = int(20 * _GB)
"""Bytes that stay free where the engine keeps its images: an unpacked image may take several
gigabytes, and containers write there too."""

_NO_SUCH = "the registry has no such image"
# Errors of engines and registries with the remedy; the first match counts.
_REASONS = (
    (
        re.compile(r"toomanyrequests|too many requests|rate limit|\b429\b", re.I),
        "the registry's rate limit is reached: log in with `docker login`, or wait and run again",
    ),
    (
        re.compile(r"no space left|disk quota", re.I),
        "the engine's disk is full: free space with `docker image prune`",
    ),
    (
        re.compile(
            r"manifest.*(unknown|not found)|not found|repository does not exist|denied", re.I
        ),
        f"{_NO_SUCH}, or asks for a login: check the name, or `docker login`",
    ),
    (
        re.compile(
            r"no such host|dial tcp|connection refused|network is unreachable|timeout|timed out"
            r"|EOF|connection reset",
            re.I,
        ),
        "the registry is not reached: check the network and the engine's proxy",
    ),
)


def missing_images(images: Iterable[str]) -> list[str]:
    """Return the ``images`` that the engine lacks, sorted."""
    client = connect()
    if client is None:
        return sorted(images)
    held = {tag for image in client.images.list() for tag in image.tags}
    client.close()
    return sorted(image for image in images if image not in held)


def holds(client: Any, image: str) -> bool:  # noqa: ANN401 - the SDK has no types
    """Tell whether the engine holds ``image``."""
    try:
        client.images.get(image)
    except docker.errors.ImageNotFound:
        return False
    return True


def digest(client: Any, image: str) -> str:  # noqa: ANN401
    """Return the registry's digest of ``image``, or the engine's id if it was built here.

    Empty if the engine lacks the image.

    Raises:
        InfrastructureError: the engine failed.
    """
    with engine_errors():
        if not holds(client, image):
            return ""
        held = client.images.get(image)
        digests = [str(name).partition("@")[2] for name in held.attrs.get("RepoDigests") or ()]
        return digests[0] if digests else str(held.id)


def pull_ahead(
    client: Any,  # noqa: ANN401
    images: Iterable[str],
    say: Callable[[str], None],
    free_bytes: Callable[[Path], int] | None = None,
    reserve: int = RESERVE,
) -> None:
    """Pull the ``images`` that the engine lacks, one after the other.

    ``free_bytes`` returns the free bytes of a folder. The space is not checked if the engine runs
    on another machine.

    Raises:
        InfrastructureError: an image cannot be pulled, or less than ``reserve`` bytes are free.
    """
    with engine_errors():
        wanted = sorted({image for image in images if not holds(client, image)})
        root = Path(client.info()["DockerRootDir"])
        for number, image in enumerate(wanted, 1):
            _check_space(image, root, free_bytes or _free, reserve)
            say(f"pull image {number} of {len(wanted)}: {image}")
            pull(client, image)


def pull_each(
    client: Any,  # noqa: ANN401
    images: Iterable[str],
    say: Callable[[str], None],
    reserve: int = RESERVE,
) -> dict[str, str]:
    """Pull ``images`` one after the other; return those that failed, each with the reason.

    A registry that refuses (rate limit, not reached, disk full) gets no further requests.
    """
    wanted, failed = sorted({*images}), dict[str, str]()
    closed: dict[str, str] = {}
    for number, image in enumerate(wanted, 1):
        registry = registry_of(image)
        if registry in closed:
            failed[image] = f"not pulled after this: {closed[registry]}"
            continue
        try:
            _check_space(image, Path(client.info()["DockerRootDir"]), _free, reserve)
            say(f"pull image {number} of {len(wanted)}: {image}")
            pull(client, image)
        except (*ENGINE_ERRORS, InfrastructureError) as error:
            failed[image] = str(error)
            if _NO_SUCH not in str(error):
                closed[registry] = str(error)
    return failed


def registry_of(image: str) -> str:
    """Return the registry's host of ``image``: ``docker.io`` if the name has none."""
    registry, _ = resolve_repository_name(parse_repository_tag(image)[0])
    return str(registry)


def _free(folder: Path) -> int:
    return shutil.disk_usage(folder).free


def _check_space(image: str, root: Path, free_bytes: Callable[[Path], int], reserve: int) -> None:
    if not root.is_dir():
        return
    free = free_bytes(root)
    if free < reserve:
        raise InfrastructureError(
            f"cannot pull {image}: {free / _GB:.1f} GB are free in {root} and {reserve / _GB:.1f} "
            "are kept in reserve; free space with `docker image prune`"
        )


def pull(client: Any, image: str) -> None:  # noqa: ANN401
    """Pull ``image``.

    Raises:
        InfrastructureError: with the image, the reason and the remedy.
    """
    repository, tag = parse_repository_tag(image)
    try:
        lines = client.api.pull(repository, tag=tag or "latest", stream=True, decode=True)
        # The engine answers at once, and reports most errors in the stream only.
        error = next((str(line["error"]) for line in lines if "error" in line), "")
    except docker.errors.APIError as failure:
        error = str(failure.explanation or failure)
    if error:
        raise InfrastructureError(f"cannot pull {image}: {_reason(error)}")


def _reason(error: str) -> str:
    words = " ".join(error.split())[:200]
    remedy = next((remedy for pattern, remedy in _REASONS if pattern.search(error)), "")
    return f"{remedy} ({words})" if remedy else words
