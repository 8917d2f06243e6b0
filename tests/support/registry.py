from __future__ import annotations

import hashlib
import http.client
import json
import os
import shutil
import socket
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from swe_retry.environments.docker import images, imagestore
from swe_retry.environments.docker.engine import connect
from swe_retry.environments.docker.images import PullFailure
from swe_retry.environments.docker.imagestore import ImageStore
from tests.support import tar_of, write_json

REGISTRY = "docker-registry"
MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
_KIND = "application/vnd.docker"
_CHUNK = 1 << 16


def digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def layer_of(files: Mapping[str, bytes]) -> bytes:
    """Return a layer, as a plain archive."""
    return tar_of(files)


def noise(size: int) -> bytes:
    """Return bytes that cannot be packed, and that no image of an earlier session has."""
    return os.urandom(size)


@dataclass(frozen=True)
class Registry:
    """Debian's docker-registry, on a free port of loopback."""

    port: int

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    def _ask(
        self,
        method: str,
        path: str,
        data: bytes = b"",
        **headers: str,
    ) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, data or None, named)
            answer = connection.getresponse()
            body = answer.read()
        finally:
            connection.close()
        assert answer.status < 300, (method, path, answer.status, body[:300])
        return answer, body

    def put_blob(self, name: str, data: bytes) -> dict[str, Any]:
        answer, _ = self._ask("POST", f"/v2/{name}/blobs/uploads/")
        location = answer.headers["Location"].split(self.host, 1)[-1]
        mark = "?"
        if "?" in location:
            mark = "&"
        self._ask(
            "PUT",
            f"{location}{mark}digest={digest(data)}",
            data,
            Content_Type="application/octet-stream",
        )
        return {"size": len(data), "digest": digest(data)}

    def put(
        self,
        name: str,
        layers: Sequence[bytes],
        base: tuple[str, str] | None = None,
    ) -> list[str]:
        """Store an image ``name`` of plain ``layers`` on a ``base``; return the layers' digests."""
        config: dict[str, Any] = {
            "architecture": "amd64",
            "os": "linux",
            "config": {},
            "history": [],
            "rootfs": {"type": "layers", "diff_ids": []},
            "made_for": name,
        }
        below: list[dict[str, Any]] = []
        if base is not None:
            manifest = json.loads(
                self._ask("GET", f"/v2/{base[0]}/manifests/{base[1]}", Accept=MANIFEST)[
                    1
                ]
            )
            location = f"/v2/{base[0]}/blobs/{manifest['config']['digest']}"
            config = json.loads(self._ask("GET", location)[1])
            below = manifest["layers"]
            for blob in below:
                mount = (
                    f"/v2/{name}/blobs/uploads/?mount={blob['digest']}&from={base[0]}"
                )
                self._ask("POST", mount)
        parts = []
        for number, layer in enumerate(layers):
            kind = f"{_KIND}.image.rootfs.diff.tar.gzip"
            parts.append({"mediaType": kind, **self.put_blob(name, layer)})
            config["rootfs"]["diff_ids"].append(digest(layer))
            config["history"].append({"created_by": f"layer {number} {digest(layer)}"})
        kind = f"{_KIND}.container.image.v1+json"
        made = {"mediaType": kind, **self.put_blob(name, json.dumps(config).encode())}
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": made,
            "layers": [*below, *parts],
        }
        self._ask(
            "PUT",
            f"/v2/{name}/manifests/1",
            json.dumps(manifest).encode(),
            Content_Type=MANIFEST,
        )
        return [part["digest"] for part in parts]


@contextmanager
def running_registry(folder: Path) -> Iterator[Registry]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    settings = {
        "version": 0.1,
        "log": {"level": "error", "accesslog": {"disabled": True}},
        "storage": {"filesystem": {"rootdirectory": str(folder / "blobs")}},
        "http": {"addr": f"127.0.0.1:{port}"},
    }
    path = write_json(folder / "settings.yml", settings)
    process = subprocess.Popen(
        [str(shutil.which(REGISTRY)), "serve", str(path)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "OTEL_TRACES_EXPORTER": "none",
        },
    )
    try:
        while True:
            assert process.poll() is None, "the registry ended"
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.02)
        yield Registry(port)
    finally:
        process.kill()
        process.wait()


@dataclass(frozen=True)
class Fault:
    """An answer in place of the registry's to one request of the engine for a manifest."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Proxy:
    """Passes requests for reading on to a registry.

    Attributes:
        faults: that are still to be injected, by the part of the path that they wait for.
        closed_until: on the clock of ``time.monotonic``; every request is refused before.
        started, served: how often each blob was asked for, and was sent whole.
        refused: requests that came while the registry was closed, from engines.
        hold: blobs are sent while it is set.
    """

    registry: Registry
    faults: list[tuple[str, Fault]] = field(default_factory=list)
    closed_until: float = 0.0
    started: Counter[str] = field(default_factory=Counter)
    served: Counter[str] = field(default_factory=Counter)
    refused: list[str] = field(default_factory=list)
    hold: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)
    port: int = 0

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    def fault_for(self, path: str, agent: str) -> Fault | None:
        is_engine = not agent.startswith("python-httpx")
        with self.lock:
            left = self.closed_until - time.monotonic()
            if left > 0:
                self.refused += [path] if is_engine and "/manifests/" in path else []
                return Fault(429, {"Retry-After": str(int(left) + 1)})
            for index, (part, fault) in enumerate(self.faults):
                if is_engine and "/manifests/" in path and part in path:
                    del self.faults[index]
                    wait = int(fault.headers.get("Retry-After", 0))
                    if wait:
                        self.closed_until = time.monotonic() + wait
                    return fault
        return None


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    proxy: Proxy


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        fault = self.server.proxy.fault_for(
            self.path, self.headers.get("User-Agent", "")
        )
        if fault is not None:
            self._refuse(fault)
            return
        connection = http.client.HTTPConnection(
            "127.0.0.1", self.server.proxy.registry.port, timeout=60
        )
        # Engines name each kind that they accept in a header of its own.
        accepted = ", ".join(self.headers.get_all("Accept", ["*/*"]))
        ranges = {"Range": self.headers["Range"]} if "Range" in self.headers else {}
        connection.request(
            self.command, self.path, headers={"Accept": accepted, **ranges}
        )
        self._pass_on(connection.getresponse())
        connection.close()

    def _pass_on(self, answer: http.client.HTTPResponse) -> None:
        blob = ""
        if "/blobs/" in self.path:
            blob = self.path.rsplit("/", 1)[-1]
        reads = bool(blob) and self.command == "GET"
        if reads:
            with self.server.proxy.lock:
                self.server.proxy.started[blob] += 1
            self.server.proxy.hold.wait()
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("connection", "transfer-encoding"):
                self.send_header(name, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        try:
            while chunk := answer.read(_CHUNK):
                self.wfile.write(chunk)
        except OSError:
            return
        if reads:
            with self.server.proxy.lock:
                self.server.proxy.served[blob] += 1

    def _refuse(self, fault: Fault) -> None:
        code = "UNKNOWN"
        if fault.status == 429:
            code = "TOOMANYREQUESTS"
        body = json.dumps({"errors": [{"code": code, "message": "injected"}]}).encode()
        self.send_response(fault.status)
        for name, value in fault.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


@contextmanager
def running_proxy(registry: Registry) -> Iterator[Proxy]:
    proxy = Proxy(registry)
    proxy.hold.set()
    with _Server(("127.0.0.1", 0), _Handler) as server:
        server.proxy = proxy
        proxy.port = server.server_port
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield proxy
        proxy.hold.set()
        server.shutdown()


def remove_images(client: Any, host: str) -> None:
    """Remove the images of a registry from the engine."""
    for image in client.api.images():
        for tag in image.get("RepoTags") or ():
            if tag.startswith(f"{host}/"):
                client.api.remove_image(tag, force=True, noprune=True)


SIZE = 2_000_000
NAMES = ("a", "b", "c", "d")
NEEDED = [
    pytest.mark.docker,
    pytest.mark.skipif(
        not shutil.which(REGISTRY), reason="docker-registry is not installed"
    ),
]


@dataclass
class Disk:
    """A registry with images of ``SIZE`` bytes, one layer each, and an engine."""

    registry: Registry
    proxy: Proxy
    client: Any
    folder: Path
    layers: dict[str, str]
    lines: list[str] = field(default_factory=list)

    def image(self, name: str) -> str:
        return f"{self.proxy.host}/small/{name}:1"

    def images(self, names: Sequence[str] = NAMES) -> list[str]:
        return [self.image(name) for name in names]

    def present(self) -> str:
        """Return the names of the images that the engine has."""
        tags = self.tags()
        return "".join(name for name in self.layers if self.image(name) in tags)

    def tags(self) -> set[str]:
        # Others may remove images meanwhile, of which ``images.list`` asks for each.
        return {
            tag for image in self.client.api.images() for tag in image["RepoTags"] or ()
        }

    def pulls(self) -> dict[str, int]:
        return {name: self.proxy.served[layer] for name, layer in self.layers.items()}

    def store(self, **changes: Any) -> ImageStore:
        values: dict[str, Any] = {
            "limit": int(2.5 * SIZE),
            "say": self.lines.append,
        }
        return ImageStore(self.client, self.folder, **{**values, **changes})


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    with running_registry(tmp_path_factory.mktemp("registry")) as made:
        yield made


@pytest.fixture(scope="module")
def layers(registry: Registry) -> dict[str, str]:
    made = {name: [layer_of({f"noise-{name}": noise(SIZE)})] for name in NAMES}
    return {name: registry.put(f"small/{name}", made[name])[0] for name in NAMES}


@pytest.fixture
def disk(
    registry: Registry,
    layers: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Disk]:
    retries = {PullFailure.LIMIT: (0.05, 0.1, 0.1), PullFailure.BROKEN: (0.02,)}
    monkeypatch.setattr(imagestore, "RETRIES", retries)
    monkeypatch.setattr(images, "RESERVE", 0)
    monkeypatch.setattr(imagestore, "POLL_SECONDS", 0.02)
    client: Any = connect()
    with running_proxy(registry) as proxy:
        yield Disk(registry, proxy, client, tmp_path / "record", layers)
        remove_images(client, proxy.host)
    client.close()
