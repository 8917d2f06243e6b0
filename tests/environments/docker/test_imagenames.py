"""Names of images at mirrors, and sizes of layers. Pure."""

from __future__ import annotations

import pytest

from swe_retry.core.errors import UserError
from swe_retry.core.settings import Section
from swe_retry.core.sources import check_settings, of_texts
from swe_retry.environments.docker.images import Images, mirror_name
from swe_retry.environments.docker.imagestore import (
    ImageRecord,
    PulledImage,
    layer_sizes,
)


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
    assert mirror_name(image, ["none/=x/", prefix]) == pulled


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("60GB", 60 * 10**9),
        ("1.5G", 15 * 10**8),
        ("2GiB", 2 << 30),
        ("500 MB", 5e8),
    ],
)
def test_sizes_are_read(text: str, size: int) -> None:
    assert read_settings(f"images.disk={text}").images.disk == size


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("images.disk=much", "images.disk much: could not parse value and unit"),
        ("images.disk=0GB", "images.disk 0GB: give a size that is greater than 0"),
        ("images.mirrors=docker.io", "'docker.io': give FROM=TO"),
        ("images.mirrors=a= b", "'a= b': give FROM=TO"),
    ],
)
def test_wrong_settings_are_named(text: str, problem: str) -> None:
    with pytest.raises(UserError, match=problem):
        read_settings(text)


class ImageRoot(Section):
    images: Images = Images()


def read_settings(text: str) -> ImageRoot:
    return check_settings(ImageRoot, of_texts(ImageRoot, [text]))


def steps(*named: tuple[str, int]) -> list[dict[str, object]]:
    """Return a history as engines give it, the last step first."""
    history: list[dict[str, object]] = []
    for name, size in reversed(named):
        history.append({"CreatedBy": name, "Created": 5, "Size": size})
    return history


def test_layers_are_shared_where_nothing_differs_below() -> None:
    base = [("base", 7), ("WORKDIR", 0)]
    history = steps(*base, ("a", 10))
    a = layer_sizes(["b", "w", "a"], history)
    rebuilt = layer_sizes(["B", "w", "a"], history)
    other = layer_sizes(["b", "w", "o"], steps(*base, ("o", 10)))
    assert sorted(a.values()) == [7, 10]
    assert sum((a | other).values()) == 27
    assert sum((a | rebuilt).values()) == 34
    with_command = steps(*base, ("a", 10), ("CMD", 0))
    assert a == layer_sizes(["b", "w", "a"], with_command)


def test_a_shared_layer_counts_once() -> None:
    images = {
        "a": PulledImage(layers={"base": 7, "a": 5}),
        "b": PulledImage(layers={"base": 7, "b": 5}),
    }
    assert ImageRecord(images=images).size() == 17


def test_a_record_of_version_0_12_is_read() -> None:
    text = """{
        "images": {
            "a:1": {
                "complete": true, "id": "sha256:1", "digest": "sha256:2", "source": "m.org/a:1",
                "pulled": 1.5, "used": 2.5, "layers": {"x": 5}
            },
            "b:1": {
                "complete": false, "id": "", "digest": "", "source": "",
                "pulled": 0.0, "used": 0.0, "layers": {}
            }
        },
        "claims": [{"image": "a:1", "owner": "one.7", "kind": "after", "until": null}],
        "paused": {"docker.io": 3.5}
    }"""
    assert ImageRecord.model_validate_json(text).images == {
        "a:1": PulledImage(id="sha256:1", source="m.org/a:1", layers={"x": 5}),
        "b:1": PulledImage(),
    }
