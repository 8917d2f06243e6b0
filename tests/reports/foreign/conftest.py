"""One replay of the demo for all tests of this folder: it takes seconds."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.evaluated import replay_demo


@pytest.fixture(scope="session")
def ours(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Path:
    """A run of ours with six attempts on each instance; tests only read it."""
    return replay_demo(tmp_path_factory.mktemp("ours"), cache)
