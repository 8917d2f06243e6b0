"""A user's folder and a small repository in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.commands import Preloaded
from tests.support.ownworld import World, make_repository


@pytest.fixture
def world(tmp_path: Path, cache: Path, preloaded: Preloaded) -> World:
    return World(tmp_path, cache, preloaded)


@pytest.fixture
def calc(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "calc")
