"""Pull images from a registry on loopback with a real engine, and failures of that."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import shutil
import tarfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pytest

from swe_retry.core.errors import InfrastructureError
from swe_retry.environments.docker import images as images_module
from swe_retry.environments.docker.engine import connect
from swe_retry.environments.docker.images import check_space, holds, missing_images
from swe_retry.environments.docker.imagestore import ImageStore

pytestmark = [
    pytest.mark.docker,
]
MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"


def _blobs() -> tuple[dict[str, bytes], bytes]:
    """Return the blobs of an image with one file, by digest, and its manifest."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("empty"), io.BytesIO())
    packed = gzip.compress(layer.getvalue(), mtime=0)
    plain = f"sha256:{hashlib.sha256(layer.getvalue()).hexdigest()}"
    config = json.dumps(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {},
            "history": [{}],
            "rootfs": {"type": "layers", "diff_ids": [plain]},
        }
    ).encode()
    parts = [
        {
            "mediaType": f"application/vnd.docker.{kind}",
            "size": len(data),
            "digest": _digest(data),
        }
        for kind, data in (
            ("container.image.v1+json", config),
            ("image.rootfs.diff.tar.gzip", packed),
        )
    ]
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": parts[0],
        "layers": parts[1:],
    }
    return {_digest(data): data for data in (config, packed)}, json.dumps(
        manifest
    ).encode()


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


class Registry(BaseHTTPRequestHandler):
    """The part of a registry that a pull needs: ``good/…`` exists, ``busy/…`` is refused."""

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        blobs, manifest = _blobs()
        name = self.path.rsplit("/", 1)[-1]
        if self.path == "/v2/":
            self._answer(200, b"{}", "application/json")
        elif "/busy/" in self.path:
            self._refuse(
                429, "TOOMANYREQUESTS", "You have reached your pull rate limit."
            )
        elif "/good/" not in self.path:
            self._refuse(404, "MANIFEST_UNKNOWN", "manifest unknown")
        elif "/manifests/" in self.path:
            self._answer(200, manifest, MANIFEST)
        else:
            self._answer(200, blobs[name], "application/octet-stream")

    def _refuse(
        self,
        status: int,
        code: str,
        message: str,
    ) -> None:
        errors = {"errors": [{"code": code, "message": message}]}
        self._answer(status, json.dumps(errors).encode(), "application/json")

    def _answer(
        self,
        status: int,
        body: bytes,
        kind: str,
    ) -> None:
        self.send_response(status)
        self.send_header("Docker-Distribution-Api-Version", "registry/2.0")
        self.send_header("Docker-Content-Digest", _digest(body))
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def registry() -> Iterator[str]:
    """Engines accept registries on 127.0.0.1 without encryption."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Registry) as server:
        Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a client of the engine, whose disk may be small."""
    monkeypatch.setattr(images_module, "RESERVE", 0)
    return connect()


def a_store(
    engine: Any,
    folder: Path,
    lines: list[str],
) -> ImageStore:
    """Return the images of the engine, without a limit."""
    return ImageStore(engine, folder, say=lines.append)


def test_missing_images_are_pulled_once_and_said(
    registry: str, engine: Any, tmp_path: Path
) -> None:
    images = [f"{registry}/good/b:1", f"{registry}/good/a:latest"]
    lines: list[str] = []
    try:
        assert missing_images(engine, images) == sorted(images)
        store = a_store(engine, tmp_path, lines)
        store.fetch_all(images)
        assert [line for line in lines if not line.startswith("pulled ")] == [
            "image 1 of 2",
            f"pull image {registry}/good/a:latest",
            "image 2 of 2",
            f"pull image {registry}/good/b:1",
        ]
        assert sum(line.startswith("pulled ") for line in lines) == 2
        assert missing_images(engine, images) == []
        store.fetch_all(images)
        assert len(lines) == 6
    finally:
        for image in images:
            if holds(engine, image):
                engine.images.remove(image, force=True)


def test_what_a_registry_refuses_is_told(
    registry: str, engine: Any, tmp_path: Path
) -> None:
    image = f"{registry}/none/a:1"
    with pytest.raises(
        InfrastructureError, match=f"cannot pull {image}: .*has no such image"
    ) as caught:
        a_store(engine, tmp_path, []).fetch(image)
    assert "\n" not in str(caught.value)


def test_a_registry_that_is_not_reached_is_told(engine: Any, tmp_path: Path) -> None:
    with pytest.raises(
        InfrastructureError, match=r"127\.0\.0\.1:9/a/b:1: .*is not reached"
    ):
        a_store(engine, tmp_path, []).fetch("127.0.0.1:9/a/b:1")


def test_nothing_is_pulled_onto_a_full_disk(
    engine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(images_module, "RESERVE", 20 * 10**9)
    if not Path(engine.info()["DockerRootDir"]).is_dir():
        pytest.skip("the engine runs on another machine")
    usage = SimpleNamespace(free=5 * 10**9)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(
        InfrastructureError, match=r"5\.0 GB are free .* 20\.0 are kept in reserve"
    ):
        check_space(engine, "a:1")
