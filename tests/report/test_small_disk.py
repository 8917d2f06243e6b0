"""A harness and the report after it, with images that do not fit on the disk together."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from docker.errors import APIError

from swe_retry.demo.images import build_images
from swe_retry.demo.setup import DEMO_DATASET, build_mirrors
from swe_retry.environments.docker.engine import connect
from swe_retry.instances.dataset import load_dataset
from tests.support import read_json, wait_until, write_json
from tests.support.commands import Preloaded, Started
from tests.support.registry import (
    NEEDED,
    Fault,
    Proxy,
    Registry,
    layer_of,
    noise,
    remove_images,
    running_proxy,
    running_registry,
)

pytestmark = [*NEEDED, pytest.mark.long]
SIZE = 100_000_000
COUNT = 12
LIMIT = 500_000_000
WORKERS = 3
_SLACK = 10_000_000  # what the tests of candidates write


@dataclass
class Disk:
    """Asks the engine every moment how much room all its layers take."""

    client: Any
    before: int = 0
    sizes: list[int] = field(default_factory=list)
    _ended: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def watch(self) -> Iterator[None]:
        self.before = self.client.df()["LayersSize"]
        thread = threading.Thread(target=self._watch)
        thread.start()
        yield
        self._ended.set()
        thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(0.2):
            # An engine answers one such request at a time, and an image may go meanwhile.
            with contextlib.suppress(APIError):
                self.sizes.append(self.client.df()["LayersSize"] - self.before)


@dataclass
class Both:
    """Starts the two commands."""

    preloaded: Preloaded
    folder: Path
    cache: Path

    def harness(self) -> Started:
        return self._start(
            "harness.py",
            "--dataset",
            str(self.folder / "rows.json"),
            "--run",
            "r",
            "--models",
            "scripted-a,scripted-b",
            "--replay",
            str(self.folder / "replies"),
            "--set",
            "folders.repos=" + str(self.folder / "mirrors"),
            "--environment",
            "docker",
            "--workers",
            str(WORKERS),
            "--out",
            str(self.folder),
            "--set",
            f"folders.cache={self.cache}",
            "--set",
            f"images.disk={LIMIT // 1_000_000}MB",
        )

    def report(self) -> Started:
        folder = str(self.folder / "predictions/r")
        arguments = ("--evaluator", "docker", "--set", "report.page=false")
        return self._start("report.py", folder, *arguments)

    def _start(
        self,
        script: str,
        *arguments: str,
    ) -> Started:
        number = len(self._logs())
        log = self.folder / f"{script}.{number}.log"
        with log.open("wb") as output:
            return self.preloaded.start(
                *arguments,
                script=script,
                output=os.dup(output.fileno()),
            )

    def _logs(self) -> list[Path]:
        return sorted(self.folder.glob("*.log"))

    def output(self) -> str:
        return "\n".join(path.read_text() for path in self._logs())


def push_base(
    client: Any,
    registry: Registry,
    image: str,
    name: str,
) -> None:
    """Store an image of the engine in the registry."""
    client.images.get(image).tag(f"{registry.host}/{name}", "1")
    for line in client.api.push(
        f"{registry.host}/{name}", tag="1", stream=True, decode=True
    ):
        assert "error" not in line, line
    client.api.remove_image(f"{registry.host}/{name}:1", noprune=True)


def make_instances(
    folder: Path,
    client: Any,
    proxy: Proxy,
) -> dict[str, str]:
    """Write rows and replies of instances with large images; return the layer of each."""
    rows = []
    layers = {}
    (folder / "replies").mkdir()
    demo_rows = [dict(row) for row in load_dataset("demo", "test").rows]
    build_images([row["instance_id"] for row in demo_rows])
    for number in range(COUNT):
        row = dict(demo_rows[number % len(demo_rows)])
        old = row["instance_id"]
        new = f"{row['instance_id']}{number}"
        if number < len(demo_rows):
            push_base(client, proxy.registry, row["image"], f"base/{old}")
        name = f"large/{new}"
        layer = layer_of({f"noise/{new}": noise(SIZE)})
        (layers[new],) = proxy.registry.put(name, [layer], (f"base/{old}", "1"))
        image = f"{proxy.host}/{name}:1"
        rows.append({**row, "instance_id": new, "image": image})
        reply = read_json(DEMO_DATASET / f"replies/{old}.json")
        write_json(
            folder / f"replies/{new}.json",
            {**reply, "instance_id": new},
        )
    (folder / "rows.json").write_text(json.dumps(rows, default=str))
    return layers


def test_all_are_judged_below_the_limit_and_each_command_pulls_an_image_once(
    tmp_path: Path, cache: Path, preloaded: Preloaded
) -> None:
    client: Any = connect()
    build_mirrors(tmp_path / "mirrors")
    (tmp_path / "registry").mkdir()
    both = Both(preloaded, tmp_path, tmp_path / "cache")
    disk = Disk(client)
    with (
        running_registry(tmp_path / "registry") as registry,
        running_proxy(registry) as proxy,
    ):
        layers = make_instances(tmp_path, client, proxy)
        earlier = f"{proxy.host}/large/{[*layers][-1]}:1"
        client.images.pull(earlier.removesuffix(":1"), tag="1")
        there = tags_of_images(client)
        proxy.faults = [
            ("/large/", Fault(429, {"Retry-After": "2"})),
            *[("/large/", Fault(500))] * 3,
        ]
        try:
            with disk.watch():
                killed = both.harness()
                predicted = tmp_path / "predictions/r"
                wait_for_files(predicted, COUNT // 4)
                kill_with_children(killed.pid)
                harness = both.harness()
                assert harness.wait(1200) == 0, both.output()
                report = both.report()
                assert report.wait(1200) == 0, both.output()
            left = tags_of_images(client)
        finally:
            remove_images(client, proxy.host)
    verdicts = tmp_path / "predictions/r/verdicts"
    statuses = {}
    for path in verdicts.glob("*.json"):
        statuses[path.stem] = read_json(path)["status"]
    assert set(statuses) == set(layers)
    assert set(statuses.values()) <= {"resolved", "unresolved"}
    assert len(disk.sizes) > COUNT
    assert LIMIT - SIZE <= max(disk.sizes) <= LIMIT + SIZE + _SLACK
    pulls = 0
    for layer in layers.values():
        assert proxy.served[layer] in (1, 2, 3)
        pulls += proxy.started[layer]
    # When the harness was killed, a pull may have been in work and images in use.
    assert pulls <= 2 * COUNT + 1 + WORKERS
    assert there <= left
    assert not proxy.faults
    output = both.output()
    assert "rate limit is reached" in output
    assert "infrastructure failed" not in output


def tags_of_images(client: Any) -> set[str]:
    tags: set[str] = set()
    for image in client.api.images():
        tags.update(image["RepoTags"] or ())
    return tags


def wait_for_files(predicted: Path, count: int) -> None:
    def have_enough() -> bool:
        files = list(predicted.glob("*__*.json"))
        return len(files) >= count

    wait_until(have_enough, 1200)


def kill_with_children(pid: int) -> None:
    children = subprocess.run(
        ["pgrep", "-P", str(pid)],
        capture_output=True,
        text=True,
        check=False,
    )
    os.kill(pid, signal.SIGKILL)
    for child in children.stdout.split():
        kill_with_children(int(child))
