"""Ask registries for the sizes of images, without an engine and without a login."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import Any

from environments.docker.images import repository_and_tag

_HUB = "docker.io"
_LOOPBACK = ("127.", "localhost", "[::1]")
_MANIFESTS = ", ".join(
    f"application/vnd.{kind}"
    for kind in (
        "docker.distribution.manifest.v2+json",
        "docker.distribution.manifest.list.v2+json",
        "oci.image.manifest.v1+json",
        "oci.image.index.v1+json",
    )
)
_TOO_MANY = 429
_PLATFORM = {"os": "linux", "architecture": "amd64"}


@dataclass(frozen=True)
class Registries:
    """Looks up sizes of images.

    Attributes:
        hub: Docker Hub's API; a manifest from its registry would count as a pull.
        timeout: seconds for one request.
        parallel: requests at a time.
    """

    hub: str = "https://hub.docker.com"
    timeout: float = 10.0
    parallel: int = 8

    def sizes(self, images: Iterable[str]) -> dict[str, int]:
        """Return the packed bytes of ``images`` (linux/amd64); unknown sizes are left out."""
        names = sorted({*images})
        with ThreadPoolExecutor(self.parallel) as pool:
            found = dict(zip(names, pool.map(self.size, names), strict=True))
        return {image: size for image, size in found.items() if size is not None}

    def size(self, image: str) -> int | None:
        """Return the packed bytes of ``image``; None if its registry does not say."""
        registry, name, tag = _parts(image)
        try:
            if registry == _HUB:
                found = self._json(f"{self.hub}/v2/repositories/{name}/tags/{tag}")
                sizes = [int(one["size"]) for one in found["images"] if _fits(one)]
                return sizes[0] if sizes else int(found["full_size"])
            address = _manifests(registry, name)
            manifest = self._json(f"{address}/{tag}")
            if "manifests" in manifest:
                fitting = [m["digest"] for m in manifest["manifests"] if _fits(m["platform"])]
                manifest = self._json(f"{address}/{fitting[0]}")
            return sum(int(layer["size"]) for layer in manifest["layers"])
        except (OSError, ValueError, LookupError, TypeError, AttributeError):
            return None

    def retry_after(self, image: str) -> float | None:
        """Return the seconds for which a registry that answers 429 asks to wait; None without.

        The engine does not pass the registry's answer on, so the registry is asked once more.
        """
        import requests

        registry, name, tag = _parts(image)
        host = "registry-1.docker.io" if registry == _HUB else registry
        try:
            answer = requests.head(f"{_manifests(host, name)}/{tag}", timeout=self.timeout)
        except OSError:
            return None
        text = answer.headers.get("Retry-After", "") if answer.status_code == _TOO_MANY else ""
        return _seconds(text, datetime.now(timezone.utc))

    def _json(self, address: str) -> Any:  # noqa: ANN401
        import requests

        answer = requests.get(address, headers={"Accept": _MANIFESTS}, timeout=self.timeout)
        answer.raise_for_status()
        return answer.json()


def _parts(image: str) -> tuple[str, str, str]:
    from docker.auth import resolve_repository_name

    repository, tag = repository_and_tag(image)
    registry, name = resolve_repository_name(repository)
    whole = f"library/{name}" if registry == _HUB and "/" not in name else name
    return str(registry), whole, tag


def _manifests(registry: str, name: str) -> str:
    scheme = "http" if registry.startswith(_LOOPBACK) else "https"
    return f"{scheme}://{registry}/v2/{name}/manifests"


def _seconds(text: str, now: datetime) -> float | None:
    # RFC 9110, 10.2.3: a number, or a date.
    if text.strip().isdecimal():
        return float(text)
    try:
        return max((parsedate_to_datetime(text) - now).total_seconds(), 0.0)
    except (ValueError, TypeError):
        return None


def _fits(platform: Mapping[str, object]) -> bool:
    return all(platform.get(key) == value for key, value in _PLATFORM.items())
