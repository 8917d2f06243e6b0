"""A folder in which repositories are mined."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.commands import Preloaded
from tests.support.histories import History, Mine


@pytest.fixture
def history(tmp_path: Path) -> History:
    return History(tmp_path / "calc")


@pytest.fixture
def mine(tmp_path: Path, cache: Path, preloaded: Preloaded) -> Mine:
    return Mine(tmp_path, cache, preloaded)
