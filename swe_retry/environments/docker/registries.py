"""Ask registries, without an engine and without a login: for sizes, and for how long to wait."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from swe_retry.environments.docker.images import repository_and_tag
from swe_retry.llm.provider_errors import retry_after as requested_wait

# Docker Hub's API: a manifest from its registry would count as a pull.
HUB_API = "https://hub.docker.com"
_HUB = "docker.io"
_LOOPBACK = ("127.", "localhost", "[::1]")
_MANIFESTS = (
    "application/vnd.docker.distribution.manifest.v2+json, "
    "application/vnd.docker.distribution.manifest.list.v2+json, "
    "application/vnd.oci.image.manifest.v1+json, "
    "application/vnd.oci.image.index.v1+json"
)
_SECONDS = 10.0


def packed_sizes(images: Iterable[str]) -> dict[str, int]:
    """Return the packed bytes of ``images`` (linux/amd64); unknown sizes are left out."""
    names = sorted(set(images))
    with ThreadPoolExecutor(8) as pool:
        sizes = zip(names, pool.map(_packed_size, names), strict=True)
    return {image: size for image, size in sizes if size is not None}


def _packed_size(image: str) -> int | None:
    import httpx

    registry, name, tag = split_name(image)
    try:
        if registry == _HUB:
            answer = _json(f"{HUB_API}/v2/repositories/{name}/tags/{tag}")
            return int(next(filter(_fits, answer["images"]))["size"])
        address = _manifests(registry, name)
        manifest = _json(address + tag)
        if "manifests" in manifest:
            fitting = next(
                entry for entry in manifest["manifests"] if _fits(entry["platform"])
            )
            manifest = _json(address + fitting["digest"])
        return sum(int(layer["size"]) for layer in manifest["layers"])
    except (httpx.HTTPError, httpx.InvalidURL, OSError):
        return None
    except (ValueError, LookupError, TypeError, AttributeError, StopIteration):
        return None


def retry_after(image: str) -> float | None:
    """Return the seconds for which a registry that answers 429 asks to wait; None without.

    The engine does not pass the registry's answer on, so the registry is asked once more.
    """
    import httpx

    registry, name, tag = split_name(image)
    try:
        answer = httpx.head(_manifests(registry, name) + tag, timeout=_SECONDS)
    except (httpx.HTTPError, httpx.InvalidURL, OSError):
        return None
    if answer.status_code == 429:
        return requested_wait(answer.headers)
    return None


def _json(address: str) -> Any:  # noqa: ANN401
    import httpx

    answer = httpx.get(
        address, headers={"Accept": _MANIFESTS}, timeout=_SECONDS, follow_redirects=True
    )
    answer.raise_for_status()
    return answer.json()


def split_name(image: str) -> tuple[str, str, str]:
    """Return the registry of ``image`` (``docker.io`` if the name has none), its name and tag."""
    from docker.auth import resolve_repository_name

    repository, tag = repository_and_tag(image)
    registry, name = resolve_repository_name(repository)
    if registry == _HUB and "/" not in name:
        name = f"library/{name}"
    return str(registry), str(name), tag


def _manifests(registry: str, name: str) -> str:
    scheme = "https"
    if registry.startswith(_LOOPBACK):
        scheme = "http"
    host = registry
    if registry == _HUB:
        host = "registry-1.docker.io"
    return f"{scheme}://{host}/v2/{name}/manifests/"


def _fits(platform: Mapping[str, object]) -> bool:
    return (platform.get("os"), platform.get("architecture")) == ("linux", "amd64")
