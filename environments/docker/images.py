"""The images of instances: which are missing, and pulling them before the work begins."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from core.errors import InfrastructureError
from environments.docker.engine import connect, engine_error_types, engine_errors

_GB = 1e9
RESERVE = int(20 * _GB)
"""Bytes that stay free where the engine keeps its images: one image may take several gigabytes
unpacked, and containers write there as well."""

_NO_SUCH = "the registry has no such image"
# What engines and registries say, and what to do about it; the first that is found is meant.
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
    """Return those of ``images`` that the engine does not hold, sorted."""
    client = connect()
    if client is None:
        return sorted(images)
    held = {tag for image in client.images.list() for tag in image.tags}
    client.close()
    return sorted(image for image in images if image not in held)


def holds(client: Any, image: str) -> bool:  # noqa: ANN401 - the SDK has no types
    """Tell whether the engine holds ``image``."""
    from docker.errors import ImageNotFound

    try:
        client.images.get(image)
    except ImageNotFound:
        return False
    return True


def digest(client: Any, image: str) -> str:  # noqa: ANN401
    """Return the registry's digest of ``image``, the engine's id for one that was built here.

    Empty when the engine does not hold it.

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
    """Pull those of ``images`` that the engine does not hold, one after the other.

    ``free_bytes`` tells how much is free in a folder. What the engine has free is not known when
    it runs on another machine, and then not checked.

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
    """Pull ``images`` one after the other, and return why the others could not be had, by image.

    Once a registry will not go on (a limit is reached, it is gone, the disk is full) it is not
    asked for more.
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
        except engine_error_types(InfrastructureError) as error:
            failed[image] = str(error)
            if _NO_SUCH not in str(error):
                closed[registry] = str(error)
    return failed


def registry_of(image: str) -> str:
    """Return the host that ``image`` comes from: ``docker.io`` where its name says none."""
    from docker.auth import resolve_repository_name
    from docker.utils import parse_repository_tag

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
        InfrastructureError: naming the image, the reason and the mend.
    """
    from docker.errors import APIError
    from docker.utils import parse_repository_tag

    repository, tag = parse_repository_tag(image)
    try:
        lines = client.api.pull(repository, tag=tag or "latest", stream=True, decode=True)
        # The engine answers at once and tells of most errors only in what follows.
        error = next((str(line["error"]) for line in lines if "error" in line), "")
    except APIError as failure:
        error = str(failure.explanation or failure)
    if error:
        raise InfrastructureError(f"cannot pull {image}: {_reason(error)}")


def _reason(error: str) -> str:
    words = " ".join(error.split())[:200]
    mend = next((mend for pattern, mend in _REASONS if pattern.search(error)), "")
    return f"{mend} ({words})" if mend else words
