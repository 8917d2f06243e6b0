"""Images of installed projects are listed with their age, and removed when they are old."""

from __future__ import annotations

import json
import re

import pytest

from swe_retry.cli.listing import list_images
from swe_retry.environments.docker.containers import LABEL
from swe_retry.environments.docker.engine import connect
from swe_retry.environments.leftovers import installed_images
from swe_retry.runner.housekeeping import clean_images_command

pytestmark = pytest.mark.docker


def test_old_images_are_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    client = connect()
    if client is None:
        pytest.skip("no Docker engine answers")
    # Under a name of its own: images of others stay.
    name = f"{LABEL}-installed-by-a-test"
    monkeypatch.setattr("swe_retry.environments.leftovers.INSTALLED", name)
    archive = b"\0" * 10_240
    client.api.import_image_from_data(archive, repository=name, tag="old")
    lines: list[str] = []
    assert clean_images_command(1, lines.append, yes=True) == 0
    assert lines == ["removed images: 0 (0.0 GB)"]
    assert [image.name for image in installed_images(client)] == [f"{name}:old"]
    lines.clear()
    list_images(lines.append)
    assert lines[0].split() == ["image", "days", "old", "MB"]
    assert re.fullmatch(rf"{name}:old +0 +0", lines[1])
    lines.clear()
    list_images(lines.append, as_json=True)
    assert json.loads(lines[0])[0]["image"] == f"{name}:old"
    assert len(installed_images(client)) == 1
    lines.clear()
    assert clean_images_command(0, lines.append, yes=True) == 0
    assert lines[0].startswith(f"{name}:old (0 days old, ")
    assert lines[-1].startswith("removed images: 1 ")
    assert installed_images(client) == []
