"""Find out which images the engine lacks, pull them, and name them at mirrors."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, ByteSize

from swe_retry.core.errors import InfrastructureError
from swe_retry.core.settings import Commas, Section
from swe_retry.environments.docker.engine import engine_errors

_GB = 1e9
RESERVE = int(20 * _GB)
"""Bytes that stay free where the engine keeps its images: an unpacked image may take several
gigabytes, and containers write there too."""


class PullFailure(StrEnum):
    LIMIT = (
        "the registry's rate limit is reached: log in with `docker login`, or wait "
        "and run again"
    )
    FULL = "the engine's disk is full: free space with `docker image prune`"
    NONE = "the registry has no such image, or asks for a login: check the name, or `docker login`"
    BROKEN = "the registry failed: run again"
    UNREACHED = "the registry is not reached: check the network and the engine's proxy"
    OTHER = ""


# Errors of engines and registries; the first match counts.
_FAILURES = (
    (PullFailure.LIMIT, r"toomanyrequests|too many requests|rate limit|\b429\b"),
    (PullFailure.FULL, r"no space left|disk quota"),
    (
        PullFailure.BROKEN,
        r"http status:? 5\d\d|status code 5\d\d|internal server error|bad gateway"
        r"|service unavailable|gateway timeout|unexpected EOF|connection reset",
    ),
    (
        PullFailure.NONE,
        r"manifest.*(unknown|not found)|not found|repository does not exist|denied",
    ),
    (
        PullFailure.UNREACHED,
        r"no such host|dial tcp|connection refused|network is unreachable"
        r"|timeout|timed out|EOF",
    ),
)


def _failure_of(message: str) -> PullFailure:
    for failure, pattern in _FAILURES:
        if re.search(pattern, message, re.IGNORECASE):
            return failure
    return PullFailure.OTHER


class PullError(InfrastructureError):
    """An image cannot be pulled; the message has the image, the remedy and the engine's words."""

    def __init__(self, image: str, message: str) -> None:
        self.failure = _failure_of(message)
        summary = " ".join(message.split())[:200]
        remedy = self.failure.value
        super().__init__(
            f"cannot pull {image}: {f'{remedy} ({summary})' if remedy else summary}"
        )


def missing_images(client: Any, images: Iterable[str]) -> list[str]:  # noqa: ANN401 - no types
    """Return the ``images`` that the engine lacks, sorted."""
    return [image for image in sorted(set(images)) if not holds(client, image)]


@engine_errors()
def id_of(client: Any, image: str) -> str:  # noqa: ANN401
    """Return the engine's id of ``image``; empty if the engine lacks it."""
    from docker.errors import ImageNotFound

    try:
        return str(client.images.get(image).id)
    except ImageNotFound:
        return ""


def holds(client: Any, image: str) -> bool:  # noqa: ANN401
    return bool(id_of(client, image))


def digest(client: Any, image: str) -> str:  # noqa: ANN401
    """Return the registry's digest of ``image``, or the engine's id if it was built here.

    Empty if the engine lacks the image.
    """
    with engine_errors():
        if not holds(client, image):
            return ""
        local_image = client.images.get(image)
        for name in local_image.attrs.get("RepoDigests") or ():
            return str(name).partition("@")[2]
        return str(local_image.id)


def check_space(client: Any, image: str) -> None:  # noqa: ANN401
    """Check that ``RESERVE`` bytes are free where the engine keeps images.

    That is unknown if the engine runs on another machine.
    """
    root = Path(client.info()["DockerRootDir"])
    if not root.is_dir():
        return
    free = shutil.disk_usage(root).free
    if free < RESERVE:
        raise InfrastructureError(
            f"cannot pull {image}: {free / _GB:.1f} GB are free in {root} and {RESERVE / _GB:.1f} "
            "are kept in reserve; free space with `docker image prune`, or give images.disk"
        )


def repository_and_tag(image: str) -> tuple[str, str]:
    from docker.utils import parse_repository_tag

    repository, tag = parse_repository_tag(image)
    return str(repository), str(tag or "latest")


@engine_errors()
def pull(client: Any, image: str) -> None:  # noqa: ANN401
    from docker.errors import APIError

    repository, tag = repository_and_tag(image)
    error = ""
    try:
        lines = client.api.pull(repository, tag=tag, stream=True, decode=True)
        # The engine answers at once, and reports most errors in the stream only.
        for line in lines:
            if "error" in line:
                error = str(line["error"])
                break
    except APIError as failure:
        error = str(failure.explanation or failure)
    if error:
        raise PullError(image, error)


_HUB = "docker.io/"
_LIBRARY = "library/"


def _check_mirror(text: str) -> str:
    before, _, after = text.partition("=")
    if not (before and after) or re.search(r"\s", text):
        raise ValueError(
            f"{text!r}: give FROM=TO, as docker.io/=mirror.example.org/hub/"
        )
    return text


def _check_size(size: int) -> int:
    if size < 1:
        raise ValueError("give a size that is greater than 0, as 60GB")
    return size


class Images(Section):
    """How images are pulled, and how much room they may take."""

    disk: Annotated[ByteSize, AfterValidator(_check_size)] | None = None
    """Keep pulled images within this size, as 60GB: those used longest ago are removed,
    but none that was there before."""

    mirrors: Annotated[
        tuple[Annotated[str, AfterValidator(_check_mirror)], ...], Commas
    ] = ()
    """FROM=TO: pull images whose names start with FROM from a mirror."""


def whole_name(image: str) -> str:
    """Return ``image`` with its registry: names without one are Docker Hub's."""
    first, slash, _ = image.partition("/")
    if slash and (first == "localhost" or any(mark in first for mark in ".:")):
        return image
    return f"{_HUB}{'' if slash else _LIBRARY}{image}"


def mirror_name(image: str, mirrors: Sequence[str]) -> str:
    """Return the name to pull ``image`` by: that of the first mirror that fits, else its own.

    A mirror is FROM=TO; FROM may leave out ``docker.io/``, as names of images do.
    """
    for mirror in mirrors:
        before, _, after = mirror.partition("=")
        for name in (image, whole_name(image)):
            if name.startswith(before):
                return after + name.removeprefix(before)
    return image
