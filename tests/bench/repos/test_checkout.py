"""A fresh checkout is the base commit's tree, byte for byte, and holds no other commit."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import git as gitpython
import pytest

from bench.repos.checkout import (
    LeakError,
    Snapshot,
    Snapshots,
    make_checkout,
    renew_checkout,
    verify,
)
from core.git import git
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
    # The attributes would turn CRLF into LF: put the bytes into the index unchanged.
    blob = (
        git("hash-object", "-w", "--no-filters", "crlf.txt", cwd=work).decode().strip()
    )
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
    assert subprocess.run(
        ["git", "cat-file", "-e", fix], cwd=root, check=False
    ).returncode
    assert not (root / ".git" / "logs").exists()
    packed = b"".join(p.read_bytes() for p in (root / ".git").rglob("*") if p.is_file())
    assert fix.encode() not in packed
    everything = git("cat-file", "--batch-all-objects", "--batch", cwd=root)
    assert b"secret fix" not in everything


def _written(name: str, text: str) -> Callable[[Path, Path], object]:
    """Return a function that writes ``text`` to the file ``name`` of a checkout."""

    def write(root: Path, mirror: Path) -> None:
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(text)

    return write


def _pack_the_fix(root: Path, mirror: Path) -> None:
    tip = git("rev-parse", "HEAD", cwd=mirror)
    git("pack-objects", "-q", root / ".git/objects/pack/pack", cwd=mirror, stdin=tip)


def _grow_the_pack(root: Path, mirror: Path) -> None:
    (pack,) = root.glob(".git/objects/pack/*.pack")
    pack.write_bytes(pack.read_bytes() + b"x")


_LEAKS: dict[str, Callable[[Path, Path], object]] = {
    "tag": lambda root, _: git("tag", "v1", cwd=root),
    "remote": lambda root, mirror: git("remote", "add", "origin", mirror, cwd=root),
    "reflog": lambda root, _: (root / ".git/logs").mkdir(),
    "alternates": _written(".git/objects/info/alternates", "/elsewhere/objects\n"),
    "object": lambda root, _: git(
        "hash-object", "-w", "--stdin", cwd=root, stdin=b"from the future"
    ),
    "dirt": _written("new", "x"),
    "packed tag": _written(".git/packed-refs", f"{'1' * 40} refs/tags/v1\n"),
    "hook": _written(".git/hooks/post-checkout", "#!/bin/sh\n"),
    "fetched": _written(".git/FETCH_HEAD", "the future"),
    "other base": _written(".git/refs/heads/base", f"{'1' * 40}\n"),
    "other index": _written(".git/base-index", ""),
    "second pack": _pack_the_fix,
    "grown pack": _grow_the_pack,
    "exchanged file": _written("sub/form.py", "x = 'the secret fix'\n"),
    "lost file": lambda root, _: (root / "run.sh").unlink(),
    "link": lambda root, _: (root / ".git/refs/heads/more").symlink_to("base"),
}


@pytest.mark.parametrize("what", list(_LEAKS))
def test_verification_notices_every_leak(
    tmp_path: Path,
    history: tuple[Path, str, str],
    what: str,
) -> None:
    snapshot = a_snapshot(tmp_path, *history[:2])
    root = make_checkout(snapshot, tmp_path / "fresh").root
    verify(snapshot, root)
    _LEAKS[what](root, history[0])
    with pytest.raises(LeakError):
        verify(snapshot, root)


def _everything(root: Path) -> dict[str, tuple[int, bytes]]:
    """Return modes and contents of all files except git's index, which holds times."""
    places = [p for p in sorted(root.rglob("*")) if p != root / ".git/index"]
    return {
        str(p.relative_to(root)): (
            p.lstat().st_mode,
            os.readlink(bytes(p))
            if p.is_symlink()
            else p.read_bytes()
            if p.is_file()
            else b"",
        )
        for p in places
    }


def test_a_renewed_checkout_is_as_a_fresh_one(
    tmp_path: Path, history: tuple[Path, str, str]
) -> None:
    used = make_checkout(a_snapshot(tmp_path, *history[:2]), tmp_path / "fresh")
    root = used.root
    before = _everything(used.root)
    for round_ in range(2):
        used.settle()
        same_size = (root / "crlf.txt").read_bytes()[::-1]
        (root / "crlf.txt").write_bytes(same_size)
        (root / "run.sh").chmod(0o644)
        shutil.rmtree(root / "sub")
        (root / "sub").symlink_to("/")
        (root / "link").unlink()
        (root / "link").mkdir()
        (root / "link/new.py").write_text("x")
        (root / "deep/er").mkdir(parents=True)
        (root / "deep/er/new.py").write_text("x")
        git(
            "-c",
            "core.logAllRefUpdates=true",
            "commit",
            "-aqm",
            f"mine {round_}",
            cwd=root,
        )
        git("tag", f"v{round_}", cwd=root)
        used = renew_checkout(used)
        assert _everything(root) == before
        assert git("status", "--porcelain", "--ignored", cwd=root) == b""


def test_a_settled_checkout_is_older_than_the_clock_ticks(
    tmp_path: Path, history: tuple[Path, str, str]
) -> None:
    fresh = make_checkout(a_snapshot(tmp_path, *history[:2]), tmp_path / "fresh")
    fresh.settle()
    newest = max(
        stamp.changed for stamp in (*fresh.fresh.values(), *fresh.repository.values())
    )
    assert time.time_ns() - newest >= 10_000_000


def test_a_repository_is_kept_as_long_as_nothing_in_it_was_touched(
    tmp_path: Path, history: tuple[Path, str, str]
) -> None:
    used = make_checkout(a_snapshot(tmp_path, *history[:2]), tmp_path / "fresh")
    dot_git = used.root / ".git"
    number = dot_git.stat().st_ino
    used.settle()
    (used.root / "crlf.txt").write_text("mine")
    used = renew_checkout(used)
    assert dot_git.stat().st_ino == number
    for name in ("hooks", "objects/aa"):
        used.settle()
        (dot_git / name).mkdir()
        used = renew_checkout(used)
        assert not (dot_git / name).exists()
    used.settle()
    (dot_git / "config").write_text(
        (dot_git / "config").read_text().replace("true", "TRUE")
    )
    renew_checkout(used)
    assert "TRUE" not in (dot_git / "config").read_text()


@pytest.mark.parametrize(
    "broken", ["", "{}", '{"commit": 1, "pack": [], "entries": {}}']
)
def test_a_snapshot_of_another_layout_is_made_again(
    tmp_path: Path,
    history: tuple[Path, str, str],
    broken: str,
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
    theirs = (
        git("config", "--local", "--list", cwd=tmp_path / "theirs").decode().split()
    )
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
    tmp_path: Path,
    history: tuple[Path, str, str],
    monkeypatch: pytest.MonkeyPatch,
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


def test_a_half_made_snapshot_is_not_used(
    tmp_path: Path, history: tuple[Path, str, str]
) -> None:
    mirror, base, _ = history
    snapshots = Snapshots(tmp_path / "snapshots")
    folder = tmp_path / "snapshots" / "own__thing"
    (folder / f".{base[:12]}.killed").mkdir(parents=True)
    make_checkout(snapshots.get(mirror, "own/thing", base), tmp_path / "fresh")
