"""Mirrors: where they are found, and what is said of those that are missing."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from bench.repos.mirrors import Mirrors
from core.errors import InfrastructureError, UserError
from tests.bench.repos.test_checkout import history as history  # a fixture


@pytest.mark.parametrize("layout", ["own+thing/repo", "own__thing.git", "thing.git"])
def test_mirrors_are_found_in_three_layouts(
    tmp_path: Path, history: tuple[Path, str, str], layout: str
) -> None:
    root = tmp_path / "others"
    (root / layout).parent.mkdir(parents=True)
    shutil.copytree(history[0], root / layout)
    assert Mirrors(root).get("own/thing", history[1]) == root / layout


def test_a_missing_mirror_is_cloned_and_a_broken_source_is_infrastructure(
    tmp_path: Path, history: tuple[Path, str, str]
) -> None:
    mirror, base, _ = history
    source = str(mirror.parent) + "/{repo}.git"
    (mirror.parent / "own").mkdir()
    mirror.rename(mirror.parent / "own" / "thing.git")
    found = Mirrors(tmp_path / "clones", source).get("own/thing", base)
    assert found == tmp_path / "clones" / "own__thing.git"
    with pytest.raises(InfrastructureError, match="cannot clone"):
        Mirrors(tmp_path / "clones", source).get("own/other", base)
    assert not list((tmp_path / "clones").glob(".own__other*"))


def test_a_mirror_without_the_base_commit_is_named(
    tmp_path: Path, history: tuple[Path, str, str]
) -> None:
    with pytest.raises(UserError, match=r"lacks the base commit 1111"):
        Mirrors(history[0].parent).get("own/thing", "1" * 40)
