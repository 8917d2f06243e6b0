"""What a run needs breaks in the middle: it ends, says so, and goes on once that is repaired."""

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

from swe_retry.demo.images import build_images
from tests.runner.test_kill import Trial
from tests.support import wait_until
from tests.support.commands import Preloaded
from tests.support.killing import DemoProvider, Ended, Harness, Left, hashes

SOCKET = Path("/var/run/docker.sock")
FULL = ("o space left on device", "Out of diskspace", "unable to write")
"""What git says of a full disk: it depends on the file that does not fit."""


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    """Mount a file system of ``size`` at ``folder``; skip where that is not allowed."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(folder)]
    program = shutil.which("mount")
    if program is None:
        pytest.skip("no file system can be mounted here")
    mount = subprocess.run(command, capture_output=True)
    if mount.returncode:
        pytest.skip("no file system may be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def long(size: int) -> Any:
    """Leave a size to the long form."""
    return pytest.param(size, marks=pytest.mark.long)


def enlarge(folder: Path) -> None:
    command = ["mount", "-o", "remount,size=500m", str(folder)]
    subprocess.run(command, check=True)


@pytest.fixture(scope="module")
def trial(
    tmp_path_factory: pytest.TempPathFactory, cache: Path, preloaded: Preloaded
) -> Iterator[Trial]:
    provider = DemoProvider()
    folder = tmp_path_factory.mktemp("trial")
    harness = Harness(preloaded, folder)
    with provider:
        options = "--environment none --tries 3"
        yield Trial(harness, provider, folder, options, random.Random(0), cache)


@pytest.fixture(scope="module")
def undisturbed(trial: Trial) -> Left:
    """An undisturbed run."""
    return trial.run_undisturbed(warm=False).left


def check_stopped(ended: Ended) -> None:
    assert ended.code == 1, ended.output
    assert "Traceback" not in ended.output


def go_on(trial: Trial, undisturbed: Left, left: Left, argv: list[str]) -> None:
    """All is as in an undisturbed run, and no reply on record was asked for again."""
    ended = trial.harness.run(argv)
    assert ended.code == 0, ended.output
    assert left.results() == undisturbed.results()
    answered = left.count("answered")
    assert answered == undisturbed.count("answered")
    lost = left.count("lost") + left.count("failed")
    extra = hashes(trial.provider).total() - answered.total()
    assert 0 <= extra <= lost.total()


@pytest.mark.parametrize("kilobytes", [long(24), long(40), 64, long(90), long(120)])
def test_a_full_disk_of_results_ends_in_infra_error_and_goes_on_when_there_is_room(
    tmp_path: Path, trial: Trial, undisturbed: Left, kilobytes: int
) -> None:
    trial.provider.requests.clear()
    with small_disk(tmp_path / "small", f"{kilobytes}k") as disk:
        left = Left(disk)
        argv = trial.argv(disk)
        ended = trial.harness.run(argv)
        check_stopped(ended)
        assert "No space left on device" in ended.output
        finished = left.finished()
        enlarge(disk)
        go_on(trial, undisturbed, left, argv)
        assert finished.items() <= left.finished().items()
        assert left.litter(trial.cache_of(disk)) == []


@pytest.mark.parametrize("kilobytes", [long(60), long(300), 500])
def test_a_full_disk_of_the_cache_ends_in_infra_error_and_goes_on_when_there_is_room(
    tmp_path: Path, trial: Trial, undisturbed: Left, kilobytes: int
) -> None:
    trial.provider.requests.clear()
    left = Left(tmp_path / "out")
    with small_disk(tmp_path / "small", f"{kilobytes}k") as disk:
        argv = [*trial.argv(left.out), "--set", f"folders.cache={disk}"]
        ended = trial.harness.run(argv)
        check_stopped(ended)
        assert any(message in ended.output for message in FULL), ended.output
        enlarge(disk)
        go_on(trial, undisturbed, left, argv)
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
                pair = (client, engine)
                self._pairs.add(pair)
                threading.Thread(target=_relay, args=pair, daemon=True).start()

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
    for end in sockets:
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
        end.close()


@pytest.fixture
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    path = tmp_path_factory.mktemp("s") / "engine"
    made = Proxy(path)
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
    options = f"--environment docker --instances {IDS} --tries 3"
    harness = Harness(preloaded, tmp_path, engine)
    with provider:
        trial = Trial(harness, provider, tmp_path, options, random.Random(0), cache)
        undisturbed = trial.run_undisturbed(warm=False).left
        provider.requests.clear()
        left = Left(tmp_path / "broken")
        argv = trial.argv(left.out)
        started = harness.start(argv)
        wait_until(lambda: len(provider.requests) >= 4)
        proxy.break_down()
        ended = harness.wait_for_end(started)
        check_stopped(ended)
        assert "infra_error" in ended.output
        proxy.broken.clear()
        go_on(trial, undisturbed, left, argv)
        assert left.litter(cache) == []
