"""Pulls that a registry refuses, mirrors, and a damaged record."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from core.errors import DamagedFileError, InfrastructureError
from environments.docker.images import ImagePrefix
from tests.support.registry import NEEDED, SIZE, Fault, Place
from tests.support.registry import layers as layers  # fixtures
from tests.support.registry import place as place
from tests.support.registry import registry as registry

pytestmark = NEEDED


def test_a_rate_limit_pauses_all_and_fails_none(place: Place) -> None:
    # An engine asks twice for one pull.
    limit = Fault(429, {"Retry-After": "1"})
    place.proxy.faults = [("/a/", limit), *[("/b/", Fault(500))] * 3]
    stores = [place.store("one"), place.store("other")]
    with ThreadPoolExecutor(2) as pool:
        for done in [
            pool.submit(s.fetch, place.image(n)) for s, n in zip(stores, "ab", strict=True)
        ]:
            assert done.result(60)
    assert place.held() == "ab"
    assert not place.proxy.faults
    assert not [path for path in place.proxy.refused if "/b/" in path], place.said
    said = "\n".join(place.said)
    assert f"no pulls from {place.proxy.host} for 1 s" in said
    assert "the registry failed: run again (" in said and "again in 0 s" in said


def test_a_registry_that_says_nothing_is_asked_later(place: Place) -> None:
    place.proxy.faults = [("/a/", Fault(429))] * 4
    assert place.store().fetch(place.image("a"))
    waits = [line.rpartition(" for ")[2] for line in place.said if "no pulls from" in line]
    assert 2 <= len(waits) <= 4


def test_a_failing_registry_is_given_up(place: Place) -> None:
    place.proxy.faults = [("/a/", Fault(500))] * 20
    with pytest.raises(InfrastructureError, match="the registry failed"):
        place.store().fetch(place.image("a"))
    with place.store().file.changed() as record:
        assert not record.images


def test_a_mirror_gives_images_their_own_names(place: Place) -> None:
    prefix = ImagePrefix("docker.io/own/", f"{place.proxy.host}/small/")
    store = place.store(prefixes=(prefix,), limit=SIZE)
    for name in "ab":
        with store.pinned(f"own/{name}:1"):
            assert place.client.images.get(f"own/{name}:1")
    assert place.held() == "b"
    assert "own/a:1" not in place.tags()
    place.client.api.remove_image("own/b:1", noprune=True)


def test_a_damaged_record_is_named(place: Place) -> None:
    store = place.store()
    store.fetch(place.image("a"))
    store.file.path.write_text('{"images": 5}')
    with pytest.raises(DamagedFileError, match=r"record\.json is not a record of images"):
        store.fetch(place.image("b"))
