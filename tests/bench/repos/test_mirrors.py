"""Mirrors: where they are found and spread, and trees with a planted bug."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from bench.repos.checkout import Snapshots, make_checkout, make_spread
from bench.repos.mirrors import Mirrors
from core.errors import InfrastructureError, UserError
from core.git import git
from tests.bench.repos.test_checkout import history as history  # a fixture
from tests.support.task_sets import FILES
from tests.support.task_sets import history as write_history


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


def test_the_bug_is_planted_or_already_there(tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    base, later = write_history(repository)
    bug = git("diff", later, base, cwd=repository).decode()
    made = []
    for number, commit in enumerate((later, base, later)):
        snapshots = Snapshots(tmp_path / f"snapshots-{number}")
        snapshot = snapshots.get(repository / ".git", "own/thing", commit, bug)
        assert snapshots.get(repository / ".git", "own/thing", commit, bug) == snapshot
        root = make_checkout(snapshot, tmp_path / f"checkout-{number}").root
        assert (root / "core.py").read_text() == FILES["core.py"]
        assert not (root / "ZQHIDDEN_NEW").exists()
        assert git("log", "--all", "--format=%an %s", cwd=root) == b"base base\n"
        assert b"ZQHIDDEN" not in git("log", "--all", "-p", cwd=root)
        made.append(snapshot.commit)
    assert len({*made}) == 1, "the same commit on every machine"
    assert not {*made} & {base, later}


def test_a_patch_that_does_not_fit_is_named(tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    base, _ = write_history(repository)
    misfit = "diff --git a/core.py b/core.py\n--- a/core.py\n+++ b/core.py\n@@ -1 +1 @@\n-x\n+y\n"
    with pytest.raises(InfrastructureError, match=f"fits neither {base} nor its fix"):
        Snapshots(tmp_path / "s").get(repository / ".git", "own/thing", base, misfit)
