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

from core.errors import DamagedFileError, InfrastructureError, StoppedError
from environments.docker.images import ImagePrefix
from tests.support import TOP, wait_until
from tests.support.registry import (
    NAMES,
    NEEDED,
    SIZE,
    Fault,
    Place,
    Registry,
    layer_of,
    noise,
)
from tests.support.registry import disk as disk
from tests.support.registry import layers as layers  # fixtures
from tests.support.registry import registry as registry

pytestmark = NEEDED


def test_the_image_not_used_for_longest_is_removed_and_each_is_pulled_once(
    disk: Place,
) -> None:
    store = disk.store()
    for name in NAMES:
        with store.pin(disk.image(name)):
            assert name in disk.held()
            assert len(disk.held()) <= 2
    assert disk.held() == "cd"
    with store.pin(disk.image("d")):
        pass
    assert disk.pulls() == dict.fromkeys(NAMES, 1)
    assert f"removed image {disk.image('a')}; images take 2.0 MB of 5.0 MB" in disk.said
    assert f"pull image {disk.image('a')}" in disk.said
    # The last use counts, not the pull.
    with store.pin(disk.image("c")):
        pass
    with store.pin(disk.image("a")):
        assert disk.held() == "ac"


def test_what_was_there_before_is_never_removed(disk: Place) -> None:
    disk.client.images.pull(disk.image("a").rpartition(":")[0], tag="1")
    disk.client.images.get(disk.image("a")).tag(f"{disk.proxy.host}/small/mine", "1")
    store = disk.store(limit=1)
    for name in "abcd":
        with store.pin(disk.image(name)):
            pass
    assert disk.held() == "ad"
    # The image that was there by another name is pulled as one more name of it, and stays.
    disk.client.api.remove_image(disk.image("a"), noprune=True)
    for name in "ab":
        with store.pin(disk.image(name)):
            pass
    assert disk.client.images.get(f"{disk.proxy.host}/small/mine:1")


def test_a_name_that_means_another_image_now_is_left_alone(disk: Place) -> None:
    store = disk.store(limit=SIZE)
    with store.pin(disk.image("a")):
        pass
    with store.pin(disk.image("b")):
        disk.client.images.get(disk.image("b")).tag(f"{disk.proxy.host}/small/a", "1")
    with store.pin(disk.image("c")):
        pass
    assert disk.client.images.get(disk.image("a"))


def test_an_image_in_use_stays_and_others_wait_for_its_room(disk: Place) -> None:
    store = disk.store()
    other = disk.store()
    with ThreadPoolExecutor(1) as pool, contextlib.ExitStack() as pins:
        pins.enter_context(store.pin(disk.image("a")))
        pins.enter_context(store.pin(disk.image("b")))
        waiting = pool.submit(other.fetch, disk.image("c"))
        container = disk.client.api.create_container(disk.image("a"), ["x"])
        assert disk.held() == "ab"
        pins.close()
        waiting.result(30)
        # A container of the first one is left, as of a process that was killed.
        assert disk.held() == "ac"
        disk.client.api.remove_container(container["Id"])


def test_workers_of_two_processes_stay_below_the_limit(disk: Place) -> None:
    stores = [disk.store(), disk.store()]
    largest = 0
    sizes = threading.Lock()

    def use(number: int) -> None:
        nonlocal largest
        with stores[number % 2].pin(disk.image(NAMES[number % 4])), sizes:
            assert NAMES[number % 4] in disk.held()
            largest = max(largest, len(disk.held()))

    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(use, number) for number in range(12)]:
            done.result(60)
    assert largest <= 3
    assert {*stores[0].read_record().images} == {*disk.images(disk.held())}


def test_shared_layers_count_once_and_those_of_others_not_at_all(
    disk: Place, registry: Registry
) -> None:
    shared = layer_of({"shared": noise(SIZE)})
    for name in "xyz":
        registry.put(
            f"small/{name}", [shared, layer_of({}), layer_of({name: noise(SIZE)})]
        )
    x, y, z = (disk.image(name) for name in "xyz")
    store = disk.store(limit=None)
    store.fetch_all([x, y])
    assert 3 * SIZE <= store.read_record().size() < 3.1 * SIZE
    # As the engine counts it.
    sizes = {image: disk.client.images.get(image).attrs["Size"] for image in (x, y)}
    assert sum(sizes.values()) >= 4 * SIZE
    other = replace(disk.store(limit=None), folder=disk.folder / "2")
    other.fetch(z)
    assert SIZE <= other.read_record().size() < 1.1 * SIZE


def test_an_image_that_is_there_waits_for_no_pull(disk: Place) -> None:
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
    assert disk.held() == "ab"


def test_some_are_pinned_as_far_as_there_is_room(disk: Place) -> None:
    store = disk.store()
    other = disk.store()
    with store.pin_some(disk.images(), 4) as pinned:
        assert pinned == {*disk.images("ab")}
        assert disk.held() == "ab"
    with store.pin_some(disk.images("bcd"), 1) as pinned:
        assert pinned == {*disk.images("b")}
    with (
        other.pin(disk.image("b")),
        store.pin_some(disk.images("cd"), 4) as pinned,
    ):
        assert pinned == {*disk.images("c")}
        assert disk.held() == "bc"
    # What cannot be pulled is there for its user to say why.
    missing = f"{disk.proxy.host}/none/x:1"
    with store.pin_some([missing, *disk.images("a")], 4) as pinned:
        assert pinned == {missing, disk.image("a")}
    with store.pin_some([disk.image("a"), missing, *disk.images("b")], 4) as pinned:
        assert pinned == {missing, *disk.images("ab")}


def test_a_stop_ends_each_wait(disk: Place) -> None:
    stopped = threading.Event()

    def wait(seconds: float) -> None:
        if stopped.wait(seconds):
            raise StoppedError("stopped")

    disk.proxy.faults = [("/d/", Fault(429, {"Retry-After": "600"}))]
    with contextlib.ExitStack() as pins, ThreadPoolExecutor(3) as pool:
        for name in "ab":
            pins.enter_context(disk.store().pin(disk.image(name)))
        room = pool.submit(disk.store(wait=wait).fetch, disk.image("c"))
        limit = pool.submit(disk.store(wait=wait, limit=None).fetch, disk.image("d"))
        wait_until(lambda: any("again in 600 s" in line for line in disk.said))
        # The other one has the lock.
        lock = pool.submit(disk.store(wait=wait).fetch, disk.image("c"))
        assert not any(waiting.done() for waiting in (room, limit, lock))
        stopped.set()
        for waiting in (room, limit, lock):
            with pytest.raises(StoppedError):
                waiting.result(30)
    assert {*disk.store().read_record().images} == {*disk.images("ab")}


KILLED = """
import sys
from environments.docker.engine import connect
from environments.docker.imagestore import ImageStore
from pathlib import Path
store = ImageStore(connect(), Path(sys.argv[1]), limit=5_000_000)
with store.pin(sys.argv[2]), store.pin(sys.argv[3]):
    print("pinned", flush=True)
    sys.stdin.read()
"""


@contextlib.contextmanager
def other_process(disk: Place, *images: str) -> Iterator[subprocess.Popen[str]]:
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


def test_pins_of_a_killed_process_end(disk: Place) -> None:
    store = disk.store()
    with ThreadPoolExecutor(1) as pool:
        with other_process(disk, *disk.images("ab")) as process:
            assert process.stdout
            wait_until(lambda: "pinned" in process.stdout.readline())
            waiting = pool.submit(store.fetch, disk.image("c"))
            time.sleep(0.5)
            assert not waiting.done()
            assert disk.held() == "ab"
        waiting.result(30)
    assert disk.held() == "bc"


def test_a_pull_of_a_killed_process_is_known(disk: Place) -> None:
    store = disk.store()
    disk.proxy.hold.clear()
    with other_process(disk, *disk.images("ab")):
        wait_until(lambda: disk.proxy.started[disk.layers["a"]])
    # The engine may end such a pull or not.
    disk.proxy.hold.set()
    disk.client.images.pull(disk.image("a").rpartition(":")[0], tag="1")
    store.fetch(disk.image("c"))
    record = store.read_record()
    assert {*record.images} == {*disk.images("ac")}
    assert record.images[disk.image("a")].layers
    store.fetch(disk.image("d"))
    assert disk.held() == "cd"


def test_a_rate_limit_is_waited_for_and_fails_none(disk: Place) -> None:
    # An engine asks twice for one pull.
    limit = Fault(429, {"Retry-After": "1"})
    disk.proxy.faults = [("/a/", limit), *[("/b/", Fault(500))] * 3]
    stores = [disk.store(), disk.store()]
    with ThreadPoolExecutor(2) as pool:
        for done in [
            pool.submit(s.fetch, disk.image(n))
            for s, n in zip(stores, "ab", strict=True)
        ]:
            done.result(60)
    assert disk.held() == "ab"
    assert not disk.proxy.faults
    assert not [path for path in disk.proxy.refused if "/b/" in path], disk.said
    text = "\n".join(disk.said)
    assert "the registry's rate limit is reached" in text and "again in 1 s" in text
    assert "the registry failed: run again (" in text and "again in 0 s" in text


def test_a_registry_that_says_nothing_is_asked_later(disk: Place) -> None:
    disk.proxy.faults = [("/a/", Fault(429))] * 4
    disk.store().fetch(disk.image("a"))
    waits = [line for line in disk.said if "rate limit is reached" in line]
    assert 2 <= len(waits) <= 3


def test_a_rate_limit_that_does_not_end_is_an_error(disk: Place) -> None:
    disk.proxy.faults = [("/a/", Fault(429))] * 20
    with pytest.raises(InfrastructureError, match="rate limit is reached: log in with"):
        disk.store().fetch(disk.image("a"))
    assert len([line for line in disk.said if "again in" in line]) == 3
    assert not disk.store().read_record().images


def test_a_failing_registry_is_given_up(disk: Place) -> None:
    disk.proxy.faults = [("/a/", Fault(500))] * 20
    with pytest.raises(InfrastructureError, match="the registry failed"):
        disk.store().fetch(disk.image("a"))
    assert not disk.store().read_record().images


def test_a_mirror_gives_images_their_own_names(disk: Place) -> None:
    prefix = ImagePrefix("docker.io/own/", f"{disk.proxy.host}/small/")
    store = disk.store(prefixes=(prefix,), limit=SIZE)
    for name in "ab":
        with store.pin(f"own/{name}:1"):
            assert disk.client.images.get(f"own/{name}:1")
    assert disk.held() == "b"
    assert "own/a:1" not in disk.tags()
    disk.client.api.remove_image("own/b:1", noprune=True)


def test_a_damaged_record_is_named(disk: Place) -> None:
    store = disk.store()
    store.fetch(disk.image("a"))
    (disk.folder / "record.json").write_text('{"images": 5}')
    with pytest.raises(
        DamagedFileError, match=r"record\.json is not a record of images"
    ):
        store.fetch(disk.image("b"))
