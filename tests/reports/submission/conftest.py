"""A demo run, a function that packages it, and a valid package."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.repos.mirrors import Mirrors
from demo.setup import build_mirrors
from reports.submission.commands import package_command
from reports.submission.entry import read_meta
from tests.support.evaluated import (
    IDS,
    RESOLVED,
    Build,
    Package,
    package_options,
    replay_demo,
    write_meta,
    write_verdicts,
)


@pytest.fixture(scope="session")
def played(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Path:
    """A replayed run of the demo."""
    return replay_demo(tmp_path_factory.mktemp("played"), cache)


@pytest.fixture
def run(played: Path, tmp_path: Path) -> Path:
    """A copy of the run with verdicts."""
    shutil.copytree(played.parent.parent, tmp_path / "out")
    folder = tmp_path / "out/predictions/r"
    write_verdicts(folder, RESOLVED)
    return folder


@pytest.fixture
def build(run: Path, tmp_path: Path, cache: Path) -> Build:
    """Return a function that builds a package with changed options and metadata."""

    def make(
        split: str = "lite",
        place: str = "package",
        partial: bool = False,
        **meta: Any,
    ) -> tuple[int, Path, list[str]]:
        said: list[str] = []
        path = write_meta(tmp_path / "meta", meta)
        options = package_options(split, path, cache, allow_partial=partial)
        code = package_command(run, tmp_path / place, options, said.append)
        return code, tmp_path / place, said

    return make


@pytest.fixture(scope="session")
def clean(
    played: Path, tmp_path_factory: pytest.TempPathFactory, cache: Path
) -> Package:
    """The package of a real run with invented verdicts; one instance has no report."""
    place = shutil.copytree(
        played.parent.parent, tmp_path_factory.mktemp("clean") / "out"
    )
    run = place / "predictions/r"
    write_verdicts(run, IDS[1:3])
    (place / f"logs/r/{IDS[5]}.report.json").unlink()
    meta = write_meta(place / "meta", {})
    options = package_options("lite", meta, cache)
    said: list[str] = []
    assert package_command(run, place / "package", options, said.append) == 0, said
    mirrors = Mirrors(build_mirrors(cache / "demo-mirrors"))
    return Package(place / "package", mirrors, read_meta(meta))


@pytest.fixture
def package(clean: Package, tmp_path: Path) -> Package:
    shutil.copytree(clean.root, tmp_path / "package")
    return replace(clean, root=tmp_path / "package")
