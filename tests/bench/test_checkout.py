"""A fresh checkout is the base commit's tree, byte for byte, and knows no other commit."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import git as gitpython
import pytest

from agent.errors import InfrastructureError, UserError
from agent.git import git
from bench.checkout import LeakError, Snapshots, make_checkout, verify
from bench.mirrors import Mirrors
from bench.snapshots import Snapshot
from demo.setup import commit_all

LATIN = os.fsdecode(b"caf\xe9.txt")


@pytest.fixture
def history(tmp_path: Path) -> tuple[Path, str, str]:
    """A mirror with a strange base commit and a later fix, tagged: (mirror, base, fix)."""
    work = tmp_path / "work"
    (work / "sub").mkdir(parents=True)
    (work / "crlf.txt").write_bytes(b"a\r\nb\r\n")
    (work / ".gitattributes").write_text("*.txt text eol=lf\n*.id ident\n")
    (work / "x.id").write_text("$Id$\n")
    (work / LATIN).write_bytes(b"\xe9\n")
    (work / "run.sh").write_bytes(b"#!/bin/sh\n")
    (work / "run.sh").chmod(0o755)
    (work / "link").symlink_to("run.sh")
    (work / "sub" / "form.py").write_bytes(b"x = 1\n\x0c\n")
    git("init", "-q", "--template=", ".", cwd=work)
    git("-c", "core.autocrlf=false", "add", "-A", cwd=work)
    # The attributes would make CRLF into LF: put the bytes into the index as they are.
    blob = git("hash-object", "-w", "--no-filters", "crlf.txt", cwd=work).decode().strip()
    git("update-index", "--cacheinfo", f"100644,{blob},crlf.txt", cwd=work)
    base = _commit(work, "base")
    (work / "sub" / "form.py").write_bytes(b"x = 'the secret fix'\n")
    fix = commit_all(work, "the fix")
    git("tag", "v2", cwd=work)
    mirror = tmp_path / "mirrors" / "own__thing.git"
    git("clone", "-q", "--mirror", work, mirror, cwd=tmp_path)
    return mirror, base, fix


def _commit(work: Path, message: str) -> str:
    git("commit", "-q", "-m", message, cwd=work)
    return git("rev-parse", "HEAD", cwd=work).decode().strip()


def checkout(tmp_path: Path, mirror: Path, commit: str) -> Path:
    return make_checkout(a_snapshot(tmp_path, mirror, commit), tmp_path / "fresh").root


def a_snapshot(tmp_path: Path, mirror: Path, commit: str) -> Snapshot:
    return Snapshots(tmp_path / "snapshots").get(mirror, "own/thing", commit)


def test_the_tree_is_the_base_commits_byte_for_byte(
    tmp_path: Path, history: tuple[Path, str, str]
) -> None:
    mirror, base, _ = history
    root = checkout(tmp_path, mirror, base)
    listing = git("ls-tree", "-r", "-z", base, cwd=mirror).split(b"\0")
    seen = set()
    for entry in filter(None, listing):
        meta, _, name = entry.partition(b"\t")
        mode, _, blob = meta.decode().split()
        place = root / os.fsdecode(name)
        data = os.readlink(bytes(place)) if mode == "120000" else place.read_bytes()
        assert data == git("cat-file", "blob", blob, cwd=mirror), name
        executable = mode == "100755"
        assert place.is_symlink() or bool(place.stat().st_mode & 0o100) is executable
        seen.add(os.fsdecode(name))
    here = {str(p.relative_to(root)) for p in root.rglob("*") if ".git" not in p.parts}
    assert {p for p in here if not (root / p).is_dir()} == seen


def test_nothing_of_another_commit_can_be_found(
    tmp_path: Path, history: tuple[Path, str, str]
) -> None:
    mirror, base, fix = history
    root = checkout(tmp_path, mirror, base)
    repository = gitpython.Repo(root)
    assert [commit.hexsha for commit in repository.iter_commits("--all")] == [base]
    assert (repository.remotes, repository.tags) == ([], [])
    assert subprocess.run(["git", "cat-file", "-e", fix], cwd=root, check=False).returncode
    assert not (root / ".git" / "logs").exists()
    packed = b"".join(p.read_bytes() for p in (root / ".git").rglob("*") if p.is_file())
    assert fix.encode() not in packed
    everything = git("cat-file", "--batch-all-objects", "--batch", cwd=root)
    assert b"secret fix" not in everything


@pytest.mark.parametrize(
    "what",
    [
        "tag", "remote", "reflog", "alternates", "object", "dirt", "packed tag", "hook", "fetched",
        "second pack", "grown pack", "other base", "exchanged file", "link",
    ],
)  # fmt: skip
def test_verification_notices_every_leak(
    tmp_path: Path, history: tuple[Path, str, str], what: str
) -> None:
    mirror, base, fix = history
    snapshot = a_snapshot(tmp_path, mirror, base)
    root = make_checkout(snapshot, tmp_path / "fresh").root
    dot_git = root / ".git"
    (pack,) = (dot_git / "objects/pack").glob("*.pack")
    verify(snapshot, root)
    if what == "tag":
        git("tag", "v1", cwd=root)
    elif what == "remote":
        git("remote", "add", "origin", mirror, cwd=root)
    elif what == "reflog":
        (dot_git / "logs").mkdir()
    elif what == "alternates":
        (dot_git / "objects/info").mkdir(exist_ok=True)
        (dot_git / "objects/info/alternates").write_text(f"{mirror}/objects\n")
    elif what == "object":
        git("hash-object", "-w", "--stdin", cwd=root, stdin=b"from the future")
    elif what == "packed tag":
        (dot_git / "packed-refs").write_text(f"{base} refs/tags/v1\n")
    elif what == "hook":
        (dot_git / "hooks").mkdir()
    elif what == "fetched":
        (dot_git / "FETCH_HEAD").write_text("the future")
    elif what == "second pack":
        git("pack-objects", "-q", pack.parent / "pack", cwd=mirror, stdin=fix.encode())
    elif what == "grown pack":
        pack.write_bytes(pack.read_bytes() + b"x")
    elif what == "other base":
        (dot_git / "refs/heads/base").write_text(f"{fix}\n")
    elif what == "exchanged file":
        (root / "sub" / "form.py").write_bytes(b"x = 'the secret fix'\n")
    elif what == "link":
        (dot_git / "refs/heads/more").symlink_to("base")
    else:
        (root / "new").write_text("x")
    with pytest.raises(LeakError):
        verify(snapshot, root)


@pytest.mark.parametrize("broken", ["", "{}", '{"commit": 1, "pack": [], "entries": {}}'])
def test_a_snapshot_of_another_layout_is_made_anew(
    tmp_path: Path, history: tuple[Path, str, str], broken: str
) -> None:
    mirror, base, _ = history
    folder = a_snapshot(tmp_path, mirror, base).folder
    (folder / "manifest.json").write_text(broken)
    (folder / "pack-0.pack").write_text("of an older harness")
    snapshot = a_snapshot(tmp_path, mirror, base)
    assert make_checkout(snapshot, tmp_path / "fresh").tracked_files()
    assert not (folder / "pack-0.pack").exists()


def test_git_finds_nothing_wrong_with_a_repository_that_it_did_not_make(
    tmp_path: Path, history: tuple[Path, str, str]
) -> None:
    root = checkout(tmp_path, *history[:2])
    assert git("fsck", "--full", "--strict", cwd=root) == b""
    assert git("status", "--porcelain", "--ignored", cwd=root) == b""
    settings = git("config", "--local", "--list", cwd=root).decode().split()
    git("init", "-q", "--template=", tmp_path / "theirs", cwd=tmp_path)
    theirs = git("config", "--local", "--list", cwd=tmp_path / "theirs").decode().split()
    assert settings == [s.replace("updates=true", "updates=false") for s in theirs]


def test_the_files_of_a_checkout_are_those_of_its_commit(
    tmp_path: Path, history: tuple[Path, str, str]
) -> None:
    mirror, base, _ = history
    fresh = make_checkout(a_snapshot(tmp_path, mirror, base), tmp_path / "fresh")
    listed = git("ls-tree", "-r", base, cwd=mirror).decode().splitlines()
    regular = [row.split() for row in listed if row.startswith("100")]
    blobs = fresh.snapshot.blobs
    assert sorted(blobs.values()) == sorted(row[2] for row in regular)
    assert fresh.tracked_files() == tuple(sorted(blobs))
    assert "link" not in blobs
    assert LATIN in blobs


def test_the_environment_and_global_settings_do_not_matter(
    tmp_path: Path, history: tuple[Path, str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    mirror, base, _ = history
    home = tmp_path / "home"
    home.mkdir()
    (home / ".gitconfig").write_text("[core]\nautocrlf = true\n[broken\n")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    monkeypatch.setenv("GIT_INDEX_FILE", "/nowhere/index")
    root = checkout(tmp_path, mirror, base)
    assert (root / "crlf.txt").read_bytes() == b"a\r\nb\r\n"
    assert (home / ".gitconfig").read_text() == "[core]\nautocrlf = true\n[broken\n"


def test_a_half_made_snapshot_is_not_used(tmp_path: Path, history: tuple[Path, str, str]) -> None:
    mirror, base, _ = history
    snapshots = Snapshots(tmp_path / "snapshots")
    folder = tmp_path / "snapshots" / "own__thing"
    (folder / f".{base[:12]}.killed").mkdir(parents=True)
    make_checkout(snapshots.get(mirror, "own/thing", base), tmp_path / "fresh")


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
