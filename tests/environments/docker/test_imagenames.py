"""Names of images at mirrors, sizes of layers, and what a record lets go. Pure."""

from __future__ import annotations

from typing import Any

import pytest

from core.errors import UserError
from core.options import built
from environments.docker.images import ImagePrefix, mirrored
from environments.docker.imagestore.record import (
    LINGER,
    ClaimKind,
    ImageRecord,
    PulledImage,
    layer_sizes,
)
from environments.options import ImageOptions

NOW = 1000.0


@pytest.mark.parametrize(
    ("image", "prefix", "pulled"),
    [
        ("swebench/a:1", "docker.io/=m.org/hub/", "m.org/hub/swebench/a:1"),
        ("swebench/a:1", "swebench/=m.org/swe/", "m.org/swe/a:1"),
        ("python:3", "docker.io/=m.org/hub/", "m.org/hub/library/python:3"),
        ("ghcr.io/own/a:1", "docker.io/=m.org/hub/", "ghcr.io/own/a:1"),
        ("ghcr.io/own/a:1", "ghcr.io/=127.0.0.1:5000/", "127.0.0.1:5000/own/a:1"),
        ("localhost/a:1", "docker.io/=m.org/", "localhost/a:1"),
    ],
)
def test_mirrors(image: str, prefix: str, pulled: str) -> None:
    assert mirrored(image, [ImagePrefix.parse("none/=x/"), ImagePrefix.parse(prefix)]) == pulled


@pytest.mark.parametrize(
    ("text", "size"),
    [("60GB", 60 * 10**9), ("1.5G", 15 * 10**8), ("2GiB", 2 << 30), ("500 MB", 5e8)],
)
def test_sizes_are_read(text: str, size: int) -> None:
    assert built(ImageOptions, {"image_disk": text}).image_disk == size


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"image_disk": "much"}, "--image-disk 'much': give a size with its unit, as 60GB"),
        ({"image_disk": "0GB"}, "--image-disk '0GB': give a size that is greater than 0"),
        ({"image_prefix": ["docker.io"]}, "--image-prefix 'docker.io': give FROM=TO"),
        ({"image_prefix": ["a= b"]}, "--image-prefix 'a= b': give FROM=TO"),
    ],
)
def test_wrong_options_are_named(values: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        built(ImageOptions, values)


def steps(*named: tuple[str, int]) -> list[dict[str, object]]:
    """Return a history as engines give it, the last step first."""
    return [{"CreatedBy": name, "Created": 5, "Size": size} for name, size in reversed(named)]


def test_layers_are_shared_where_nothing_differs_below() -> None:
    base = [("base", 7), ("WORKDIR", 0)]
    a = layer_sizes(["b", "w", "a"], steps(*base, ("a", 10)))
    other = layer_sizes(["b", "w", "o"], steps(*base, ("o", 10)))
    rebuilt = layer_sizes(["B", "w", "a"], steps(*base, ("a", 10)))
    assert sorted(a.values()) == [7, 10]
    assert sum((a | other).values()) == 27
    assert sum((a | rebuilt).values()) == 34
    assert a == layer_sizes(["b", "w", "a"], steps(*base, ("a", 10), ("CMD", 0)))


def record(**used: float) -> ImageRecord:
    images = {
        name: PulledImage(complete=True, pulled=1, used=when, layers={name: 5})
        for name, when in used.items()
    }
    return ImageRecord(images=images)


def test_what_is_not_needed_goes_by_its_last_use() -> None:
    held = record(a=30, b=10, c=20)
    assert held.removable(NOW) == ["b", "c", "a"]
    held.images["b"].complete = False
    assert held.removable(NOW) == ["c", "a"]
    assert held.size() == 15


@pytest.mark.parametrize(
    ("kind", "used", "stays", "stays_forced"),
    [
        (ClaimKind.USED, 0, True, True),
        (ClaimKind.DUE, 1, True, False),
        (ClaimKind.AHEAD, 1, True, False),
        (ClaimKind.AFTER, 0, True, False),
        (ClaimKind.AFTER, NOW - LINGER + 1, True, False),
        (ClaimKind.AFTER, NOW - LINGER - 1, False, False),
    ],
)
def test_claims_keep_images(kind: ClaimKind, used: float, stays: bool, stays_forced: bool) -> None:
    held = record(a=used)
    held.claim("a", "me", kind)
    assert (held.removable(NOW) == []) is stays
    assert (held.removable(NOW, forced=True) == []) is stays_forced
    held.release("a", "another", kind)
    assert (held.removable(NOW) == []) is stays
    held.release("a", "me", kind)
    assert held.removable(NOW) == ["a"]


def test_each_use_takes_a_claim_ahead_away() -> None:
    held = record(a=0)
    for _ in range(2):
        held.claim("a", "me", ClaimKind.AHEAD)
    for number in range(2):
        assert held.removable(NOW) == [], number
        held.claim("a", "me", ClaimKind.USED)
        held.release("a", "me", ClaimKind.USED)
    assert held.removable(NOW) == ["a"]


def test_claims_of_a_killed_process_count_until_it_may_have_started_again() -> None:
    held = record(a=0)
    held.claim("a", "me", ClaimKind.USED)
    assert held.in_use()
    held.orphan("me", NOW)
    assert not held.in_use()
    assert held.removable(NOW) == []
    assert held.removable(NOW, forced=True) == ["a"]
    held.forget_ended(NOW + LINGER - 1)
    assert held.removable(NOW) == []
    held.forget_ended(NOW + LINGER + 1)
    assert held.removable(NOW) == ["a"]
