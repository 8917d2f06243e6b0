"""Mirrors: where they are found and spread, and trees with a planted bug."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from swe_retry.core.errors import InfrastructureError, UserError
from swe_retry.core.git import git
from swe_retry.repositories.checkout import make_checkout, make_spread
from swe_retry.repositories.mirrors import Mirrors
from swe_retry.repositories.snapshot import get_snapshot
from tests.repositories.test_checkout import History
from tests.repositories.test_checkout import history as history  # a fixture
from tests.support import TOP
from tests.support.task_sets import FILES
from tests.support.task_sets import history as write_history

LAYOUTS = ("own+thing/repo", "own__thing.git", "thing.git")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_mirrors_are_found_in_three_layouts(
    tmp_path: Path,
    history: History,
    layout: str,
) -> None:
    mirror, base, _ = history
    root = tmp_path / "others"
    copy = root / layout
    copy.parent.mkdir(parents=True)
    shutil.copytree(mirror, copy)
    assert Mirrors(root).get("own/thing", base) == copy


def test_a_missing_mirror_is_cloned_and_a_broken_source_is_infrastructure(
    tmp_path: Path, history: History
) -> None:
    mirror, base, _ = history
    sources = mirror.parent
    (sources / "own").mkdir()
    mirror.rename(sources / "own" / "thing.git")
    folder = tmp_path / "clones"
    clones = Mirrors(folder, f"{sources}/{{repo}}.git")
    assert clones.get("own/thing", base) == folder / "own__thing.git"
    with pytest.raises(InfrastructureError, match="cannot clone"):
        clones.get("own/other", base)
    assert not list(folder.glob(".own__other*"))


def test_a_mirror_without_the_base_commit_is_named(
    history: History,
) -> None:
    mirrors = Mirrors(history[0].parent)
    with pytest.raises(UserError, match=r"lacks the commit 1111"):
        mirrors.get("own/thing", "1" * 40)


def test_past_changes_hold_nothing_after_the_commit(
    history: History,
) -> None:
    mirror, base, fix = history
    mirrors = Mirrors(mirror.parent)
    path = "sub/form.py"
    # The first commit, which has everything, changed nothing together.
    assert mirrors.past_changes("own/thing", base, path) == []
    (change,) = mirrors.past_changes("own/thing", fix, path)
    assert path in change
    assert "run.sh" not in change
    # A model may choose the name.
    assert mirrors.past_changes("own/thing", fix, ":(top)") == []


def attributes(folder: Path) -> str:
    if shutil.which("lsattr") is None:
        pytest.skip("no lsattr")
    result = subprocess.run(
        ["lsattr", "-d", folder],
        capture_output=True,
        text=True,
        check=False,
    )
    return result.stdout.partition(" ")[0]


def test_ext4_is_asked_to_spread_subfolders(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.mkdir()
    letters = attributes(plain)
    if "e" not in letters:
        pytest.skip("no ext4")
    assert "T" not in letters
    work = tmp_path / "a" / "work"
    for _ in range(2):
        make_spread(work)
        assert "T" in attributes(work)


def test_other_file_systems_do_without() -> None:
    folder = Path("/dev/shm")
    if not folder.is_dir():
        pytest.skip("no tmpfs")
    root = folder / "spread-test"
    work = root / "work"
    make_spread(work)
    assert work.is_dir()
    shutil.rmtree(root)


def test_the_bug_is_planted_or_already_there(tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    base, later = write_history(repository)
    diff = git("diff", later, base, cwd=repository)
    bug = diff.decode()
    mirror = repository / ".git"
    commits = set()
    for number, commit in enumerate((later, base, later)):
        snapshots = tmp_path / f"snapshots-{number}"
        snapshot = get_snapshot(snapshots, mirror, "own/thing", commit, bug)
        assert get_snapshot(snapshots, mirror, "own/thing", commit, bug) == snapshot
        root = make_checkout(snapshot, tmp_path / f"checkout-{number}").root
        assert (root / "core.py").read_text() == FILES["core.py"]
        assert not (root / "ZQHIDDEN_NEW").exists()
        assert git("log", "--all", "--format=%an %s", cwd=root) == b"base base\n"
        assert b"ZQHIDDEN" not in git("log", "--all", "-p", cwd=root)
        commits.add(snapshot.commit)
    assert len(commits) == 1, "the same commit on every machine"
    assert not commits & {base, later}


def test_a_patch_that_does_not_fit_is_named(tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    base, _ = write_history(repository)
    misfit = "diff --git a/core.py b/core.py\n--- a/core.py\n+++ b/core.py\n@@ -1 +1 @@\n-x\n+y\n"
    mirror = repository / ".git"
    snapshots = tmp_path / "s"
    with pytest.raises(InfrastructureError, match=f"fits neither {base} nor its fix"):
        get_snapshot(snapshots, mirror, "own/thing", base, misfit)


# What a process does that sees ``mirrors`` as a mount of its own.
_IN_A_MOUNT = """
import sys
from pathlib import Path
from swe_retry.repositories.checkout import make_checkout
from swe_retry.repositories.snapshot import get_snapshot
from swe_retry.repositories.mirrors import Mirrors
from swe_retry.core.errors import UserError

mirrors, target, commit, bug = map(Path, sys.argv[1:])
mirror = Mirrors(mirrors).get("own/thing", str(commit))
for name, patch in (("plain", ""), ("planted", bug.read_text())):
    snapshot = get_snapshot(target / "snapshots", mirror, "own/thing", str(commit), patch)
    print(*sorted(make_checkout(snapshot, target / name).tracked_files()))
try:
    Mirrors(mirrors).get("own/thing", "1" * 40)
except UserError as error:
    print(error)
"""


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    "mount",
    [
        # The mirrors lie on a disk of their own, or are read-only, or both.
        'mount -t tmpfs none "$1" && cp -a "$0/." "$1"',
        'mount --bind "$0" "$1" && mount -o remount,ro,bind "$1"',
        'mount -t tmpfs none "$1" && cp -a "$0/." "$1" && mount -o remount,ro "$1"',
    ],
)
def test_mirrors_may_lie_on_another_mount_and_be_read_only(
    tmp_path: Path, mount: str, layout: str
) -> None:
    repository = tmp_path / "repository"
    base, later = write_history(repository)
    diff = git("diff", later, base, cwd=repository)
    bug = tmp_path / "bug.patch"
    bug.write_bytes(diff)
    source = tmp_path / "source"
    mirror = source / layout
    mirror.parent.mkdir(parents=True)
    shutil.copytree(repository / ".git", mirror)
    mounted = tmp_path / "mounted"
    mounted.mkdir()
    script = f'{mount} || exit 77; shift; exec "$@"'
    arguments = map(str, [mounted, tmp_path / "target", later, bug])
    program = [sys.executable, "-c", _IN_A_MOUNT, *arguments]
    result = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script, source, mounted, *program],
        cwd=TOP,
        capture_output=True,
        text=True,
        check=False,
    )
    # unshare itself fails with 1 and writes nothing else.
    unshare_failed = result.stderr.startswith("unshare:")
    if unshare_failed or result.returncode == 77:
        pytest.skip("mounts are not permitted here")
    assert result.returncode == 0, result.stderr
    plain, planted, missing = result.stdout.splitlines()
    assert "core.py" in plain
    assert "core.py" in planted
    named = f"the mirror {mounted / layout} of own/thing"
    assert f"{named} lacks the commit 1111" in missing


def test_relative_alternates_of_a_mirror_are_followed(
    tmp_path: Path, history: History
) -> None:
    mirror, base, _ = history
    borrowing = tmp_path / "borrowing" / "own__thing.git"
    git("clone", "-q", "--mirror", "--shared", mirror, borrowing, cwd=mirror)
    alternates = borrowing / "objects/info/alternates"
    objects = os.path.relpath(mirror / "objects", borrowing / "objects")
    alternates.write_text(f"{objects}\n")
    snapshots = tmp_path / "snapshots"
    snapshot = get_snapshot(snapshots, borrowing, "own/thing", base)
    checkout = make_checkout(snapshot, tmp_path / "checkout")
    assert checkout.base_commit == base
