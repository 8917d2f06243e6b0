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
    snapshot = Snapshots(tmp_path / "snapshots").get(mirror, "own/thing", commit)
    return make_checkout(snapshot, commit, tmp_path / "fresh").root


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


@pytest.mark.parametrize("what", ["tag", "remote", "reflog", "alternates", "object", "dirt"])
def test_verification_notices_every_leak(
    tmp_path: Path, history: tuple[Path, str, str], what: str
) -> None:
    mirror, base, _ = history
    root = checkout(tmp_path, mirror, base)
    verify(root, base)
    if what == "tag":
        git("tag", "v1", cwd=root)
    elif what == "remote":
        git("remote", "add", "origin", mirror, cwd=root)
    elif what == "reflog":
        (root / ".git" / "logs").mkdir()
    elif what == "alternates":
        (root / ".git/objects/info").mkdir(exist_ok=True)
        (root / ".git/objects/info/alternates").write_text(f"{mirror}/objects\n")
    elif what == "object":
        git("hash-object", "-w", "--stdin", cwd=root, stdin=b"from the future")
    else:
        (root / "new").write_text("x")
    with pytest.raises(LeakError):
        verify(root, base)


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
    make_checkout(snapshots.get(mirror, "own/thing", base), base, tmp_path / "fresh")


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
