"""A registry with small images, an engine, and stores of several processes."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from environments.docker.engine import connect, engine_answers
from environments.docker.imagestore.record import RecordFile
from environments.docker.imagestore.store import ImageStore, Patience
from tests.environments.docker.loopback import (
    REGISTRY,
    Proxy,
    Registry,
    layer_of,
    noise,
    remove_images,
    running_proxy,
    running_registry,
)

SIZE = 2_000_000
NAMES = ("a", "b", "c", "d")
NEEDED = [
    pytest.mark.docker,
    pytest.mark.skipif(not engine_answers(), reason="no Docker engine answers"),
    pytest.mark.skipif(not shutil.which(REGISTRY), reason="docker-registry is not installed"),
]


@dataclass
class Place:
    """A registry with images of ``SIZE`` bytes, one layer each, and an engine."""

    registry: Registry
    proxy: Proxy
    client: Any
    folder: Path
    layers: dict[str, str]
    said: list[str] = field(default_factory=list)

    def image(self, name: str) -> str:
        return f"{self.proxy.host}/small/{name}:1"

    def images(self, names: Sequence[str] = NAMES) -> list[str]:
        return [self.image(name) for name in names]

    def held(self) -> str:
        """Return the names of the images that the engine has."""
        tags = self.tags()
        return "".join(name for name in self.layers if self.image(name) in tags)

    def tags(self) -> set[str]:
        # Others may remove images meanwhile, of which ``images.list`` asks for each.
        return {tag for found in self.client.api.images() for tag in found["RepoTags"] or ()}

    def pulls(self) -> dict[str, int]:
        return {name: self.proxy.served[layer] for name, layer in self.layers.items()}

    def store(self, owner: str = "one", **changes: Any) -> ImageStore:
        values: dict[str, Any] = {
            "limit": int(2.5 * SIZE), "say": self.said.append,
            "patience": Patience(poll=0.02, stuck=0.3, retries=(0.02,), paused=(0.05, 0.1)),
        }  # fmt: skip
        file = RecordFile(self.folder, owner).live()
        return ImageStore(self.client, file, **{**values, **changes})


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    with running_registry(tmp_path_factory.mktemp("registry")) as made:
        yield made


@pytest.fixture(scope="module")
def layers(registry: Registry) -> dict[str, str]:
    made = {name: [layer_of({f"noise-{name}": noise(SIZE, name)})] for name in NAMES}
    return {name: registry.put(f"small/{name}", made[name])[0] for name in NAMES}


@pytest.fixture
def place(registry: Registry, layers: dict[str, str], tmp_path: Path) -> Iterator[Place]:
    client: Any = connect()
    with running_proxy(registry) as proxy:
        yield Place(registry, proxy, client, tmp_path / "record", layers)
        remove_images(client, proxy.host)
    client.close()


def wait_for(done: Callable[[], object]) -> None:
    end = time.monotonic() + 60
    while not done():
        assert time.monotonic() < end
        time.sleep(0.02)
