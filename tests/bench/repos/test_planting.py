"""Trees with a planted bug: one commit without parents, and nothing of the fix."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.repos.checkout import Snapshots, make_checkout
from core.errors import InfrastructureError
from core.git import git
from tests.support.task_sets import FILES, history


def test_the_bug_is_planted_or_already_there(tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    base, later = history(repository)
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
    base, _ = history(repository)
    misfit = "diff --git a/core.py b/core.py\n--- a/core.py\n+++ b/core.py\n@@ -1 +1 @@\n-x\n+y\n"
    with pytest.raises(InfrastructureError, match=f"fits neither {base} nor its fix"):
        Snapshots(tmp_path / "s").get(repository / ".git", "own/thing", base, misfit)
