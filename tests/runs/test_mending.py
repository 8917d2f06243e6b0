"""What a run needs breaks in the middle: it ends, says so, and goes on once that is mended."""

from __future__ import annotations

import random
import selectors
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from demo.images import build_images
from runs.calls.journal import EntryKind
from tests.runs.test_kill import Trial
from tests.support import wait_until
from tests.support.commands import Preloaded
from tests.support.killing import DemoProvider, Harness, Left, hashes

SOCKET = Path("/var/run/docker.sock")
FULL = ("o space left on device", "Out of diskspace", "unable to write")
"""What git says of a full disk: it depends on the file that does not fit."""


@contextmanager
def small_disk(place: Path, size: str) -> Iterator[Path]:
    """Mount a file system of ``size`` at ``place``; skip where that is not allowed."""
    place.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(place)]
    if (
        shutil.which("mount") is None
        or subprocess.run(words, capture_output=True).returncode
    ):
        pytest.skip("no file system may be mounted here")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def long(size: int) -> Any:
    """Leave a size to the long form."""
    return pytest.param(size, marks=pytest.mark.long)


def enlarge(place: Path) -> None:
    words = ["mount", "-o", "remount,size=500m", str(place)]
    subprocess.run(words, check=True)


@pytest.fixture(scope="module")
def trial(
    tmp_path_factory: pytest.TempPathFactory, cache: Path, preloaded: Preloaded
) -> Iterator[Trial]:
    provider = DemoProvider()
    place = tmp_path_factory.mktemp("trial")
    harness = Harness(preloaded, place)
    with provider:
        options = ("--environment", "none", "--tries", "3")
        yield Trial(harness, provider, place, options, random.Random(0), cache)


@pytest.fixture(scope="module")
def whole(trial: Trial) -> Left:
    """An undisturbed run."""
    return trial.undisturbed(warm=False).left


def check_mended(
    trial: Trial,
    whole: Left,
    left: Left,
    asked: int,
) -> None:
    """All is as in an undisturbed run, and no reply on record was asked for again."""
    assert left.results() == whole.results()
    answered = left.count(EntryKind.ANSWERED)
    assert answered == whole.count(EntryKind.ANSWERED)
    lost = left.count(EntryKind.LOST) + left.count(EntryKind.FAILED)
    extra = asked - whole.count(EntryKind.ANSWERED).total()
    assert 0 <= extra <= lost.total()


@pytest.mark.parametrize("kilobytes", [*map(long, (24, 40, 90, 120)), 64])
def test_a_full_disk_of_results_ends_in_infra_error_and_goes_on_when_there_is_room(
    tmp_path: Path, trial: Trial, whole: Left, kilobytes: int
) -> None:
    trial.provider.requests.clear()
    with small_disk(tmp_path / "small", f"{kilobytes}k") as disk:
        left = Left(disk)
        ended = trial.harness.run(trial.words(disk))
        assert ended.code == 1, ended.said
        assert "Traceback" not in ended.said
        assert "No space left on device" in ended.said
        finished = left.finished()
        enlarge(disk)
        again = trial.harness.run(trial.words(disk))
        assert again.code == 0, again.said
        assert finished.items() <= left.finished().items()
        check_mended(trial, whole, left, hashes(trial.provider).total())
        assert left.litter(trial.cache_of(disk)) == []


@pytest.mark.parametrize("kilobytes", [*map(long, (60, 300)), 500])
def test_a_full_disk_of_the_cache_ends_in_infra_error_and_goes_on_when_there_is_room(
    tmp_path: Path, trial: Trial, whole: Left, kilobytes: int
) -> None:
    trial.provider.requests.clear()
    left = Left(tmp_path / "out")
    with small_disk(tmp_path / "small", f"{kilobytes}k") as disk:
        words = [*trial.words(left.out), "--set", f"folders.cache={disk}"]
        ended = trial.harness.run(words)
        assert ended.code == 1, ended.said
        assert "Traceback" not in ended.said
        assert any(words in ended.said for words in FULL), ended.said
        enlarge(disk)
        again = trial.harness.run(words)
        assert again.code == 0, again.said
        check_mended(trial, whole, left, hashes(trial.provider).total())
        assert left.litter(disk) == []


class Proxy:
    """Stands before a Docker engine's socket; ``broken``, nobody gets through any more."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.broken = threading.Event()
        self._pairs: set[tuple[socket.socket, socket.socket]] = set()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen(64)
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                if self.broken.is_set():
                    client.close()
                    continue
                engine = socket.socket(socket.AF_UNIX)
                engine.connect(str(SOCKET))
                self._pairs.add((client, engine))
                threading.Thread(
                    target=_relay, args=(client, engine), daemon=True
                ).start()

    def break_down(self) -> None:
        self.broken.set()
        for pair in list(self._pairs):
            _close(*pair)

    def close(self) -> None:
        self.break_down()
        _close(self._listener)


def _relay(client: socket.socket, engine: socket.socket) -> None:
    """Pass bytes on both ways until one end is closed."""
    with suppress(OSError, ValueError), selectors.DefaultSelector() as ready:
        ready.register(client, selectors.EVENT_READ, engine)
        ready.register(engine, selectors.EVENT_READ, client)
        while ready.get_map():
            for key, _ in ready.select():
                source: socket.socket = key.fileobj  # type: ignore[assignment]
                data = source.recv(65536)
                if data:
                    key.data.sendall(data)
                else:
                    ready.unregister(source)
                    key.data.shutdown(socket.SHUT_WR)
    _close(client, engine)


def _close(*sockets: socket.socket) -> None:
    for one in sockets:
        with suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
        one.close()


@pytest.fixture
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    place = tmp_path_factory.mktemp("s") / "engine"
    made = Proxy(place)
    yield made
    made.close()


IDS = "demo__textkit-1,demo__bank-2,demo__units-2"


@pytest.mark.docker
@pytest.mark.skipif(not SOCKET.exists(), reason=f"no engine listens at {SOCKET}")
def test_an_engine_that_dies_in_the_middle_is_an_infra_error_and_the_run_goes_on_afterwards(
    tmp_path: Path, cache: Path, proxy: Proxy, preloaded: Preloaded
) -> None:
    build_images(IDS.split(","))
    provider = DemoProvider()
    engine = {"DOCKER_HOST": f"unix://{proxy.path}"}
    options = ("--environment", "docker", "--instances", IDS, "--tries", "3")
    harness = Harness(preloaded, tmp_path, engine)
    with provider:
        trial = Trial(harness, provider, tmp_path, options, random.Random(0), cache)
        whole = trial.undisturbed(warm=False).left
        provider.requests.clear()
        left = Left(tmp_path / "broken")
        started = harness.start(trial.words(left.out))
        wait_until(lambda: len(provider.requests) >= 4)
        proxy.break_down()
        ended = harness.ended(started)
        assert ended.code == 1, ended.said
        assert "Traceback" not in ended.said
        assert "infra_error" in ended.said
        proxy.broken.clear()
        again = harness.run(trial.words(left.out))
        assert again.code == 0, again.said
        check_mended(trial, whole, left, hashes(provider).total())
        assert left.litter(cache) == []
