"""Folders whose subfolders are far apart on the disk."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from bench.repos.checkout import make_spread


def attributes(folder: Path) -> str:
    if shutil.which("lsattr") is None:
        pytest.skip("no lsattr")
    result = subprocess.run(["lsattr", "-d", folder], capture_output=True, text=True, check=False)
    return result.stdout.partition(" ")[0]


def test_ext4_is_asked_to_spread_subfolders(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    plain = attributes(tmp_path / "plain")
    if "e" not in plain:
        pytest.skip("no ext4")
    assert "T" not in plain
    for _ in range(2):
        make_spread(tmp_path / "a" / "work")
        assert "T" in attributes(tmp_path / "a" / "work")


def test_other_file_systems_do_without() -> None:
    folder = Path("/dev/shm")
    if not folder.is_dir():
        pytest.skip("no tmpfs")
    make_spread(folder / "spread-test" / "work")
    assert (folder / "spread-test" / "work").is_dir()
    shutil.rmtree(folder / "spread-test")
