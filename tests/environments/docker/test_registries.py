"""Sizes of images in registries, and registries that refuse."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from swe_retry.environments.docker import images as images_module
from swe_retry.environments.docker import registries
from swe_retry.environments.docker.engine import connect
from swe_retry.environments.docker.registries import (
    packed_sizes,
    retry_after,
    split_name,
)
from tests.environments.docker.test_images import Registry, a_store


class CallCoordinator(Registry):
    """Docker Hub's interface for one image besides."""

    def do_GET(self) -> None:  # noqa: N802 - the name that http.server calls
        if self.path == "/v2/repositories/swebench/a/tags/1":
            images = [
                {"os": "linux", "architecture": "arm64", "size": 5},
                {"os": "linux", "architecture": "amd64", "size": 70},
            ]
            body = json.dumps({"full_size": 5, "images": images}).encode()
            self._answer(200, body, "application/json")
        elif self.path.startswith("/v2/moved/"):
            self.send_response(307)
            self.send_header("Location", self.path.replace("/moved/", "/good/"))
            self.end_headers()
        elif self.path.startswith("/v2/limited/"):
            self.send_response(429)
            self.send_header("Retry-After", "7")
            self.end_headers()
        else:
            super().do_GET()


@pytest.fixture
def server() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), CallCoordinator) as hub:
        Thread(target=hub.serve_forever, args=(0.02,), daemon=True).start()
        yield f"127.0.0.1:{hub.server_port}"
        hub.shutdown()


def test_sizes_are_known_where_registries_give_them(
    server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registries, "HUB_API", f"http://{server}")
    images = [
        f"{server}/good/a:1",
        f"{server}/moved/a:1",
        f"{server}/busy/a:1",
        "swebench/a:1",
        "swebench/b:1",
    ]
    sizes = packed_sizes([*images, "127.0.0.1:9/a:1", "127.0.0.1:99999/a:1"])
    assert set(sizes) == {*images[:2], images[3]}
    assert sizes["swebench/a:1"] == 70
    assert 0 < sizes[images[0]] < 1000
    assert sizes[images[1]] == sizes[images[0]]


def test_a_registry_says_how_long_to_wait(server: str) -> None:
    assert retry_after(f"{server}/limited/a:1") == 7
    for image in ("busy/a:1", "good/a:1", "moved/a:1"):
        assert retry_after(f"{server}/{image}") is None
    for host in ("127.0.0.1:9", "127.0.0.1:99999"):
        assert retry_after(f"{host}/a:1") is None


@pytest.mark.docker
def test_a_registry_that_is_not_reached_is_not_asked_again(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(images_module, "RESERVE", 0)
    client: Any = connect()
    lines: list[str] = []
    store = a_store(client, tmp_path, lines)
    images = ["127.0.0.1:9/a:1", "127.0.0.1:9/b:1"]
    failed = store.fetch_all(images)
    assert "is not reached" in failed[images[0]]
    assert failed[images[1]].startswith("not pulled after this: cannot pull")
    assert lines == ["image 1 of 2", f"pull image {images[0]}"]
    none = [f"{server}/none/a:1", f"{server}/none/b:1"]
    failed = store.fetch_all(none)
    assert all("has no such image" in failed[image] for image in none)
    assert split_name("swebench/a:1")[0] == "docker.io"
