"""Images on a small disk: room, pins of several processes, and kills."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from swe_retry.core.errors import DamagedFileError, InfrastructureError, StoppedError
from swe_retry.environments.docker.imagestore import ImageStore
from tests.support import TOP, wait_until
from tests.support.registry import (
    NAMES,
    NEEDED,
    SIZE,
    Disk,
    Fault,
    Registry,
    layer_of,
    noise,
)
from tests.support.registry import disk as disk
from tests.support.registry import layers as layers  # fixtures
from tests.support.registry import registry as registry

pytestmark = NEEDED


def test_the_image_not_used_for_longest_is_removed_and_each_is_pulled_once(
    disk: Disk,
) -> None:
    store = disk.store()
    for name in NAMES:
        with store.pin(disk.image(name)):
            present = disk.present()
            assert name in present
            assert len(present) <= 2
    assert disk.present() == "cd"
    use(store, disk.image("d"))
    assert disk.pulls() == dict.fromkeys(NAMES, 1)
    a = disk.image("a")
    assert f"removed image {a}; images take 2.0 MB of 5.0 MB" in disk.lines
    assert f"pull image {a}" in disk.lines
    # The last use counts, not the pull.
    use(store, disk.image("c"))
    with store.pin(a):
        assert disk.present() == "ac"


def use(store: ImageStore, *images: str) -> None:
    """Pin images, one after the other."""
    for image in images:
        with store.pin(image):
            pass


def tag(disk: Disk, image: str, name: str) -> None:
    """Give an image one more name at the registry."""
    repository = f"{disk.proxy.host}/small/{name}"
    disk.client.images.get(image).tag(repository, "1")


def pull(disk: Disk, image: str) -> None:
    repository, _, version = image.rpartition(":")
    disk.client.images.pull(repository, tag=version)


def test_what_was_there_before_is_never_removed(disk: Disk) -> None:
    a, b, c, d = disk.images()
    pull(disk, a)
    tag(disk, a, "mine")
    store = disk.store(limit=1)
    use(store, a, b, c, d)
    assert disk.present() == "ad"
    # The image that was there by another name is pulled as one more name of it, and stays.
    disk.client.api.remove_image(a, noprune=True)
    use(store, a, b)
    assert disk.client.images.get(disk.image("mine"))


def test_a_name_that_means_another_image_now_is_left_alone(disk: Disk) -> None:
    a, b, c, _ = disk.images()
    store = disk.store(limit=SIZE)
    use(store, a)
    with store.pin(b):
        tag(disk, b, "a")
    use(store, c)
    assert disk.client.images.get(a)


def test_an_image_in_use_stays_and_others_wait_for_its_room(disk: Disk) -> None:
    store = disk.store()
    other = disk.store()
    a, b, c, _ = disk.images()
    with ThreadPoolExecutor(1) as pool, contextlib.ExitStack() as pins:
        pins.enter_context(store.pin(a))
        pins.enter_context(store.pin(b))
        waiting = pool.submit(other.fetch, c)
        container = disk.client.api.create_container(a, ["x"])
        assert disk.present() == "ab"
        pins.close()
        waiting.result(30)
        # A container of the first one is left, as of a process that was killed.
        assert disk.present() == "ac"
        disk.client.api.remove_container(container["Id"])


def test_workers_of_two_processes_stay_below_the_limit(disk: Disk) -> None:
    stores = [disk.store(), disk.store()]
    largest = 0
    sizes = threading.Lock()

    def work(number: int) -> None:
        nonlocal largest
        store = stores[number % 2]
        name = NAMES[number % 4]
        with store.pin(disk.image(name)), sizes:
            present = disk.present()
            assert name in present
            largest = max(largest, len(present))

    with ThreadPoolExecutor(2) as pool:
        results = [pool.submit(work, number) for number in range(12)]
        for result in results:
            result.result(60)
    assert largest <= 3
    assert images_in_record(disk) == set(disk.images(disk.present()))


def images_in_record(disk: Disk) -> set[str]:
    return set(disk.store().read_record().images)


def test_shared_layers_count_once_and_those_of_others_not_at_all(
    disk: Disk, registry: Registry
) -> None:
    shared = layer_of({"shared": noise(SIZE)})
    empty = layer_of({})
    for name in "xyz":
        own = layer_of({name: noise(SIZE)})
        registry.put(f"small/{name}", [shared, empty, own])
    x, y, z = disk.images("xyz")
    store = disk.store(limit=None)
    store.fetch_all([x, y])
    assert 3 * SIZE <= store.read_record().size() < 3.1 * SIZE
    # As the engine counts it.
    size = 0
    for image in (x, y):
        size += disk.client.images.get(image).attrs["Size"]
    assert size >= 4 * SIZE
    other = replace(store, folder=disk.folder / "2")
    other.fetch(z)
    assert SIZE <= other.read_record().size() < 1.1 * SIZE


def test_an_image_that_is_there_waits_for_no_pull(disk: Disk) -> None:
    store = disk.store()
    store.fetch(disk.image("a"))
    disk.proxy.hold.clear()
    with ThreadPoolExecutor(1) as pool:
        pulling = pool.submit(disk.store().fetch, disk.image("b"))
        wait_until(lambda: disk.proxy.started[disk.layers["b"]])
        with store.pin(disk.image("a")):
            assert not pulling.done()
        disk.proxy.hold.set()
        pulling.result(30)
    assert disk.present() == "ab"


def test_some_are_pinned_as_far_as_there_is_room(disk: Disk) -> None:
    store = disk.store()
    other = disk.store()
    a, b, c, d = disk.images()
    with store.pin_some([a, b, c, d], 4) as pinned:
        assert pinned == {a, b}
        assert disk.present() == "ab"
    with store.pin_some([b, c, d], 1) as pinned:
        assert pinned == {b}
    with other.pin(b), store.pin_some([c, d], 4) as pinned:
        assert pinned == {c}
        assert disk.present() == "bc"
    # What cannot be pulled is there for its user to say why.
    missing = f"{disk.proxy.host}/none/x:1"
    with store.pin_some([missing, a], 4) as pinned:
        assert pinned == {missing, a}
    with store.pin_some([a, missing, b], 4) as pinned:
        assert pinned == {missing, a, b}


def test_a_stop_ends_each_wait(disk: Disk) -> None:
    stopped = threading.Event()

    def wait(seconds: float) -> None:
        if stopped.wait(seconds):
            raise StoppedError("stopped")

    a, b, c, d = disk.images()
    disk.proxy.faults = [("/d/", Fault(429, {"Retry-After": "600"}))]
    with contextlib.ExitStack() as pins, ThreadPoolExecutor(3) as pool:
        for image in (a, b):
            pins.enter_context(disk.store().pin(image))
        room = pool.submit(disk.store(wait=wait).fetch, c)
        limit = pool.submit(disk.store(wait=wait, limit=None).fetch, d)
        wait_until(lambda: lines_with(disk, "again in 600 s"))
        # The other one has the lock.
        lock = pool.submit(disk.store(wait=wait).fetch, c)
        for waiting in (room, limit, lock):
            assert not waiting.done()
        stopped.set()
        for waiting in (room, limit, lock):
            with pytest.raises(StoppedError):
                waiting.result(30)
    assert images_in_record(disk) == {a, b}


def lines_with(disk: Disk, text: str) -> list[str]:
    return [line for line in disk.lines if text in line]


KILLED = """
import sys
from swe_retry.environments.docker.engine import connect
from swe_retry.environments.docker.imagestore import ImageStore
from pathlib import Path
store = ImageStore(connect(), Path(sys.argv[1]), limit=5_000_000)
with store.pin(sys.argv[2]), store.pin(sys.argv[3]):
    print("pinned", flush=True)
    sys.stdin.read()
"""


@contextlib.contextmanager
def other_process(disk: Disk, *images: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(disk.folder), *images],
        cwd=TOP,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=dict(os.environ),
    )
    with process:
        yield process
        process.send_signal(signal.SIGKILL)


def test_pins_of_a_killed_process_end(disk: Disk) -> None:
    store = disk.store()
    with ThreadPoolExecutor(1) as pool:
        with other_process(disk, *disk.images("ab")) as process:
            output = process.stdout
            assert output
            wait_until(lambda: "pinned" in output.readline())
            waiting = pool.submit(store.fetch, disk.image("c"))
            time.sleep(0.5)
            assert not waiting.done()
            assert disk.present() == "ab"
        waiting.result(30)
    assert disk.present() == "bc"


def test_a_pull_of_a_killed_process_is_known(disk: Disk) -> None:
    store = disk.store()
    a, b, c, d = disk.images()
    disk.proxy.hold.clear()
    with other_process(disk, a, b):
        wait_until(lambda: disk.proxy.started[disk.layers["a"]])
    # The engine may end such a pull or not.
    disk.proxy.hold.set()
    pull(disk, a)
    store.fetch(c)
    record = store.read_record()
    assert set(record.images) == {a, c}
    assert record.images[a].layers
    store.fetch(d)
    assert disk.present() == "cd"


def test_a_rate_limit_is_waited_for_and_fails_none(disk: Disk) -> None:
    # An engine asks twice for one pull.
    limit = Fault(429, {"Retry-After": "1"})
    disk.proxy.faults = [("/a/", limit), *[("/b/", Fault(500))] * 3]
    with ThreadPoolExecutor(2) as pool:
        pulls = [pool.submit(disk.store().fetch, image) for image in disk.images("ab")]
        for done in pulls:
            done.result(60)
    assert disk.present() == "ab"
    assert not disk.proxy.faults
    assert not [path for path in disk.proxy.refused if "/b/" in path], disk.lines
    text = "\n".join(disk.lines)
    assert "the registry's rate limit is reached" in text
    assert "again in 1 s" in text
    assert "the registry failed: run again (" in text
    assert "again in 0 s" in text


def test_a_registry_that_says_nothing_is_asked_later(disk: Disk) -> None:
    disk.proxy.faults = [("/a/", Fault(429))] * 4
    disk.store().fetch(disk.image("a"))
    assert 2 <= len(lines_with(disk, "rate limit is reached")) <= 3


def test_a_rate_limit_that_does_not_end_is_an_error(disk: Disk) -> None:
    disk.proxy.faults = [("/a/", Fault(429))] * 20
    with pytest.raises(InfrastructureError, match="rate limit is reached: log in with"):
        disk.store().fetch(disk.image("a"))
    assert len(lines_with(disk, "again in")) == 3
    assert not images_in_record(disk)


def test_a_failing_registry_is_given_up(disk: Disk) -> None:
    disk.proxy.faults = [("/a/", Fault(500))] * 20
    with pytest.raises(InfrastructureError, match="the registry failed"):
        disk.store().fetch(disk.image("a"))
    assert not images_in_record(disk)


def test_a_mirror_gives_images_their_own_names(disk: Disk) -> None:
    mirror = f"docker.io/own/={disk.proxy.host}/small/"
    store = disk.store(mirrors=(mirror,), limit=SIZE)
    for name in "ab":
        with store.pin(f"own/{name}:1"):
            assert disk.client.images.get(f"own/{name}:1")
    assert disk.present() == "b"
    assert "own/a:1" not in disk.tags()
    disk.client.api.remove_image("own/b:1", noprune=True)


def test_a_damaged_record_is_named(disk: Disk) -> None:
    store = disk.store()
    store.fetch(disk.image("a"))
    (disk.folder / "record.json").write_text('{"images": 5}')
    problem = r"record\.json is not a record of images"
    with pytest.raises(DamagedFileError, match=problem):
        store.fetch(disk.image("b"))
