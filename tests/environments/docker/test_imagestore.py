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
from tests.support.registry import layers as layers  # fixtures
from tests.support.registry import place as place
from tests.support.registry import registry as registry

pytestmark = NEEDED


def test_the_image_not_used_for_longest_is_removed_and_each_is_pulled_once(
    place: Place,
) -> None:
    store = place.store()
    for name in NAMES:
        with store.pin(place.image(name)):
            assert name in place.held()
            assert len(place.held()) <= 2
    assert place.held() == "cd"
    with store.pin(place.image("d")):
        pass
    assert place.pulls() == dict.fromkeys(NAMES, 1)
    assert (
        f"removed image {place.image('a')}; images take 2.0 MB of 5.0 MB" in place.said
    )
    assert f"pull image {place.image('a')}" in place.said
    # The last use counts, not the pull.
    with store.pin(place.image("c")):
        pass
    with store.pin(place.image("a")):
        assert place.held() == "ac"


def test_what_was_there_before_is_never_removed(place: Place) -> None:
    place.client.images.pull(place.image("a").rpartition(":")[0], tag="1")
    place.client.images.get(place.image("a")).tag(f"{place.proxy.host}/small/mine", "1")
    store = place.store(limit=1)
    for name in "abcd":
        with store.pin(place.image(name)):
            pass
    assert place.held() == "ad"
    # The image that was there by another name is pulled as one more name of it, and stays.
    place.client.api.remove_image(place.image("a"), noprune=True)
    for name in "ab":
        with store.pin(place.image(name)):
            pass
    assert place.client.images.get(f"{place.proxy.host}/small/mine:1")


def test_a_name_that_means_another_image_now_is_left_alone(place: Place) -> None:
    store = place.store(limit=SIZE)
    with store.pin(place.image("a")):
        pass
    with store.pin(place.image("b")):
        place.client.images.get(place.image("b")).tag(
            f"{place.proxy.host}/small/a", "1"
        )
    with store.pin(place.image("c")):
        pass
    assert place.client.images.get(place.image("a"))


def test_an_image_in_use_stays_and_others_wait_for_its_room(place: Place) -> None:
    one = place.store()
    other = place.store()
    with ThreadPoolExecutor(1) as pool, contextlib.ExitStack() as pins:
        pins.enter_context(one.pin(place.image("a")))
        pins.enter_context(one.pin(place.image("b")))
        waiting = pool.submit(other.fetch, place.image("c"))
        container = place.client.api.create_container(place.image("a"), ["x"])
        assert place.held() == "ab"
        pins.close()
        waiting.result(30)
        # A container of the first one is left, as of a process that was killed.
        assert place.held() == "ac"
        place.client.api.remove_container(container["Id"])


def test_workers_of_two_processes_stay_below_the_limit(place: Place) -> None:
    stores = [place.store(), place.store()]
    most = 0
    sizes = threading.Lock()

    def use(number: int) -> None:
        nonlocal most
        with stores[number % 2].pin(place.image(NAMES[number % 4])), sizes:
            assert NAMES[number % 4] in place.held()
            most = max(most, len(place.held()))

    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(use, number) for number in range(12)]:
            done.result(60)
    assert most <= 3
    assert {*stores[0].read_record().images} == {*place.images(place.held())}


def test_shared_layers_count_once_and_those_of_others_not_at_all(
    place: Place, registry: Registry
) -> None:
    shared = layer_of({"shared": noise(SIZE, "shared")})
    for name in "xyz":
        registry.put(
            f"small/{name}", [shared, layer_of({}), layer_of({name: noise(SIZE, name)})]
        )
    x, y, z = (place.image(name) for name in "xyz")
    store = place.store(limit=None)
    store.fetch_all([x, y])
    assert 3 * SIZE <= store.read_record().size() < 3.1 * SIZE
    # As the engine counts it.
    sizes = {image: place.client.images.get(image).attrs["Size"] for image in (x, y)}
    assert sum(sizes.values()) >= 4 * SIZE
    other = replace(place.store(limit=None), folder=place.folder / "2")
    other.fetch(z)
    assert SIZE <= other.read_record().size() < 1.1 * SIZE


def test_an_image_that_is_there_waits_for_no_pull(place: Place) -> None:
    store = place.store()
    store.fetch(place.image("a"))
    place.proxy.hold.clear()
    with ThreadPoolExecutor(1) as pool:
        pulling = pool.submit(place.store().fetch, place.image("b"))
        wait_until(lambda: place.proxy.started[place.layers["b"]])
        with store.pin(place.image("a")):
            assert not pulling.done()
        place.proxy.hold.set()
        pulling.result(30)
    assert place.held() == "ab"


def test_some_are_pinned_as_far_as_there_is_room(place: Place) -> None:
    one = place.store()
    other = place.store()
    with one.pin_some(place.images(), 4) as pinned:
        assert pinned == {*place.images("ab")}
        assert place.held() == "ab"
    with one.pin_some(place.images("bcd"), 1) as pinned:
        assert pinned == {*place.images("b")}
    with (
        other.pin(place.image("b")),
        one.pin_some(place.images("cd"), 4) as pinned,
    ):
        assert pinned == {*place.images("c")}
        assert place.held() == "bc"
    # What cannot be pulled is there for its user to say why.
    missing = f"{place.proxy.host}/none/x:1"
    with one.pin_some([missing, *place.images("a")], 4) as pinned:
        assert pinned == {missing, place.image("a")}
    with one.pin_some([place.image("a"), missing, *place.images("b")], 4) as pinned:
        assert pinned == {missing, *place.images("ab")}


def test_a_stop_ends_each_wait(place: Place) -> None:
    stopped = threading.Event()

    def wait(seconds: float) -> None:
        if stopped.wait(seconds):
            raise StoppedError("stopped")

    place.proxy.faults = [("/d/", Fault(429, {"Retry-After": "600"}))]
    with contextlib.ExitStack() as pins, ThreadPoolExecutor(3) as pool:
        for name in "ab":
            pins.enter_context(place.store().pin(place.image(name)))
        room = pool.submit(place.store(wait=wait).fetch, place.image("c"))
        limit = pool.submit(place.store(wait=wait, limit=None).fetch, place.image("d"))
        wait_until(lambda: any("again in 600 s" in line for line in place.said))
        # The other one has the lock.
        lock = pool.submit(place.store(wait=wait).fetch, place.image("c"))
        assert not any(waiting.done() for waiting in (room, limit, lock))
        stopped.set()
        for waiting in (room, limit, lock):
            with pytest.raises(StoppedError):
                waiting.result(30)
    assert {*place.store().read_record().images} == {*place.images("ab")}


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
def other_process(place: Place, *images: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(place.folder), *images],
        cwd=TOP,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=dict(os.environ),
    )
    with process:
        yield process
        process.send_signal(signal.SIGKILL)


def test_pins_of_a_killed_process_end(place: Place) -> None:
    store = place.store()
    with ThreadPoolExecutor(1) as pool:
        with other_process(place, *place.images("ab")) as process:
            assert process.stdout
            wait_until(lambda: "pinned" in process.stdout.readline())
            waiting = pool.submit(store.fetch, place.image("c"))
            time.sleep(0.5)
            assert not waiting.done()
            assert place.held() == "ab"
        waiting.result(30)
    assert place.held() == "bc"


def test_a_pull_of_a_killed_process_is_known(place: Place) -> None:
    store = place.store()
    place.proxy.hold.clear()
    with other_process(place, *place.images("ab")):
        wait_until(lambda: place.proxy.started[place.layers["a"]])
    # The engine may end such a pull or not.
    place.proxy.hold.set()
    place.client.images.pull(place.image("a").rpartition(":")[0], tag="1")
    store.fetch(place.image("c"))
    record = store.read_record()
    assert {*record.images} == {*place.images("ac")}
    assert record.images[place.image("a")].layers
    store.fetch(place.image("d"))
    assert place.held() == "cd"


def test_a_rate_limit_is_waited_for_and_fails_none(place: Place) -> None:
    # An engine asks twice for one pull.
    limit = Fault(429, {"Retry-After": "1"})
    place.proxy.faults = [("/a/", limit), *[("/b/", Fault(500))] * 3]
    stores = [place.store(), place.store()]
    with ThreadPoolExecutor(2) as pool:
        for done in [
            pool.submit(s.fetch, place.image(n))
            for s, n in zip(stores, "ab", strict=True)
        ]:
            done.result(60)
    assert place.held() == "ab"
    assert not place.proxy.faults
    assert not [path for path in place.proxy.refused if "/b/" in path], place.said
    said = "\n".join(place.said)
    assert "the registry's rate limit is reached" in said and "again in 1 s" in said
    assert "the registry failed: run again (" in said and "again in 0 s" in said


def test_a_registry_that_says_nothing_is_asked_later(place: Place) -> None:
    place.proxy.faults = [("/a/", Fault(429))] * 4
    place.store().fetch(place.image("a"))
    waits = [line for line in place.said if "rate limit is reached" in line]
    assert 2 <= len(waits) <= 3


def test_a_rate_limit_that_does_not_end_is_an_error(place: Place) -> None:
    place.proxy.faults = [("/a/", Fault(429))] * 20
    with pytest.raises(InfrastructureError, match="rate limit is reached: log in with"):
        place.store().fetch(place.image("a"))
    assert len([line for line in place.said if "again in" in line]) == 3
    assert not place.store().read_record().images


def test_a_failing_registry_is_given_up(place: Place) -> None:
    place.proxy.faults = [("/a/", Fault(500))] * 20
    with pytest.raises(InfrastructureError, match="the registry failed"):
        place.store().fetch(place.image("a"))
    assert not place.store().read_record().images


def test_a_mirror_gives_images_their_own_names(place: Place) -> None:
    prefix = ImagePrefix("docker.io/own/", f"{place.proxy.host}/small/")
    store = place.store(prefixes=(prefix,), limit=SIZE)
    for name in "ab":
        with store.pin(f"own/{name}:1"):
            assert place.client.images.get(f"own/{name}:1")
    assert place.held() == "b"
    assert "own/a:1" not in place.tags()
    place.client.api.remove_image("own/b:1", noprune=True)


def test_a_damaged_record_is_named(place: Place) -> None:
    store = place.store()
    store.fetch(place.image("a"))
    (place.folder / "record.json").write_text('{"images": 5}')
    with pytest.raises(
        DamagedFileError, match=r"record\.json is not a record of images"
    ):
        store.fetch(place.image("b"))
