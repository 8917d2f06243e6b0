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

from swe_retry.core.git import git
from swe_retry.demo.setup import commit_all
from swe_retry.repositories.checkout import (
    Checkout,
    LeakError,
    make_checkout,
    renew_checkout,
    verify,
)
from swe_retry.repositories.snapshot import Snapshot, get_snapshot

History = tuple[Path, str, str]
LATIN = os.fsdecode(b"caf\xe9.txt")


@pytest.fixture
def history(tmp_path: Path) -> History:
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
    data = git("hash-object", "-w", "--no-filters", "crlf.txt", cwd=work)
    blob = data.decode().strip()
    git("update-index", "--cacheinfo", f"100644,{blob},crlf.txt", cwd=work)
    git("commit", "-q", "-m", "base", cwd=work)
    commit = git("rev-parse", "HEAD", cwd=work)
    base = commit.decode().strip()
    (work / "sub" / "form.py").write_bytes(b"x = 'the secret fix'\n")
    fix = commit_all(work, "the fix")
    git("tag", "v2", cwd=work)
    mirror = tmp_path / "mirrors" / "own__thing.git"
    git("clone", "-q", "--mirror", work, mirror, cwd=tmp_path)
    return mirror, base, fix


def make_snapshot(tmp_path: Path, history: History) -> Snapshot:
    mirror, base, _ = history
    snapshots = tmp_path / "snapshots"
    return get_snapshot(snapshots, mirror, "own/thing", base)


@pytest.fixture
def snapshot(tmp_path: Path, history: History) -> Snapshot:
    return make_snapshot(tmp_path, history)


@pytest.fixture
def fresh(tmp_path: Path, snapshot: Snapshot) -> Checkout:
    return make_checkout(snapshot, tmp_path / "fresh")


def test_the_tree_is_the_base_commits_byte_for_byte(
    history: History, fresh: Checkout
) -> None:
    mirror, base, _ = history
    root = fresh.root
    listing = git("ls-tree", "-r", "-z", base, cwd=mirror)
    listed = set()
    for entry in filter(None, listing.split(b"\0")):
        meta, _, name = entry.partition(b"\t")
        mode, _, blob = meta.decode().split()
        listed.add(os.fsdecode(name))
        path = root / os.fsdecode(name)
        content = git("cat-file", "blob", blob, cwd=mirror)
        if mode == "120000":
            assert os.readlink(bytes(path)) == content, name
            continue
        assert path.read_bytes() == content, name
        executable = path.stat().st_mode & 0o100
        assert bool(executable) is (mode == "100755")
    files = set()
    for path in root.rglob("*"):
        if ".git" not in path.parts and not path.is_dir():
            files.add(str(path.relative_to(root)))
    assert files == listed


def test_nothing_of_another_commit_can_be_found(
    history: History, fresh: Checkout
) -> None:
    _, base, fix = history
    root = fresh.root
    repository = gitpython.Repo(root)
    (commit,) = repository.iter_commits("--all")
    assert commit.hexsha == base
    assert repository.remotes == []
    assert repository.tags == []
    command = ["git", "cat-file", "-e", fix]
    result = subprocess.run(command, cwd=root, check=False)
    assert result.returncode
    dot_git = root / ".git"
    assert not (dot_git / "logs").exists()
    for path in dot_git.rglob("*"):
        if path.is_file():
            assert fix.encode() not in path.read_bytes()
    everything = git("cat-file", "--batch-all-objects", "--batch", cwd=root)
    assert b"secret fix" not in everything


def _writer_of(name: str, text: str) -> Callable[[Path, Path], object]:
    """Return a function that writes ``text`` to the file ``name`` of a checkout."""

    def write(root: Path, mirror: Path) -> None:
        path = root / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)

    return write


def _pack_the_fix(root: Path, mirror: Path) -> None:
    tip = git("rev-parse", "HEAD", cwd=mirror)
    pack = root / ".git/objects/pack/pack"
    git("pack-objects", "-q", pack, cwd=mirror, stdin=tip)


def _grow_the_pack(root: Path, mirror: Path) -> None:
    (pack,) = root.glob(".git/objects/pack/*.pack")
    pack.write_bytes(pack.read_bytes() + b"x")


_LEAKS: dict[str, Callable[[Path, Path], object]] = {
    "tag": lambda root, _: git("tag", "v1", cwd=root),
    "remote": lambda root, mirror: git("remote", "add", "origin", mirror, cwd=root),
    "reflog": lambda root, _: (root / ".git/logs").mkdir(),
    "alternates": _writer_of(".git/objects/info/alternates", "/elsewhere/objects\n"),
    "object": lambda root, _: git(
        "hash-object", "-w", "--stdin", cwd=root, stdin=b"from the future"
    ),
    "dirt": _writer_of("new", "x"),
    "packed tag": _writer_of(".git/packed-refs", f"{'1' * 40} refs/tags/v1\n"),
    "hook": _writer_of(".git/hooks/post-checkout", "#!/bin/sh\n"),
    "fetched": _writer_of(".git/FETCH_HEAD", "the future"),
    "other base": _writer_of(".git/refs/heads/base", f"{'1' * 40}\n"),
    "other index": _writer_of(".git/base-index", ""),
    "second pack": _pack_the_fix,
    "grown pack": _grow_the_pack,
    "exchanged file": _writer_of("sub/form.py", "x = 'the secret fix'\n"),
    "lost file": lambda root, _: (root / "run.sh").unlink(),
    "link": lambda root, _: (root / ".git/refs/heads/more").symlink_to("base"),
}


@pytest.mark.parametrize("name", _LEAKS)
def test_verification_notices_every_leak(
    history: History,
    snapshot: Snapshot,
    fresh: Checkout,
    name: str,
) -> None:
    verify(snapshot, fresh.root)
    leak = _LEAKS[name]
    leak(fresh.root, history[0])
    with pytest.raises(LeakError):
        verify(snapshot, fresh.root)


def _read_states(root: Path) -> dict[str, tuple[int, bytes]]:
    """Return modes and contents of all files except git's index, which holds times."""
    states = {}
    for path in sorted(root.rglob("*")):
        data = b""
        if path.is_symlink():
            data = os.readlink(bytes(path))
        elif path.is_file():
            data = path.read_bytes()
        name = str(path.relative_to(root))
        states[name] = (path.lstat().st_mode, data)
    del states[".git/index"]
    return states


def test_a_renewed_checkout_is_as_a_fresh_one(fresh: Checkout) -> None:
    used = fresh
    root = used.root
    before = _read_states(root)
    for round_ in range(2):
        used.settle()
        text = root / "crlf.txt"
        same_size = text.read_bytes()[::-1]
        text.write_bytes(same_size)
        (root / "run.sh").chmod(0o644)
        shutil.rmtree(root / "sub")
        (root / "sub").symlink_to("/")
        link = root / "link"
        link.unlink()
        link.mkdir()
        (link / "new.py").write_text("x")
        deep = root / "deep/er"
        deep.mkdir(parents=True)
        (deep / "new.py").write_text("x")
        commit = ("commit", "-aqm", f"mine {round_}")
        git("-c", "core.logAllRefUpdates=true", *commit, cwd=root)
        git("tag", f"v{round_}", cwd=root)
        used = renew_checkout(used)
        assert _read_states(root) == before
        assert git("status", "--porcelain", "--ignored", cwd=root) == b""


def test_a_settled_checkout_is_older_than_the_clock_ticks(fresh: Checkout) -> None:
    fresh.settle()
    now = time.time_ns()
    for stamps in (fresh.fresh, fresh.repository):
        for stamp in stamps.values():
            assert now - stamp.changed >= 10_000_000


def test_a_repository_is_kept_as_long_as_nothing_in_it_was_touched(
    fresh: Checkout,
) -> None:
    used = fresh
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
    config = dot_git / "config"
    text = config.read_text()
    config.write_text(text.replace("true", "TRUE"))
    renew_checkout(used)
    assert "TRUE" not in config.read_text()


def test_a_snapshot_of_another_layout_is_made_again(
    tmp_path: Path, history: History, snapshot: Snapshot
) -> None:
    old = snapshot.folder / "pack-0.pack"
    broken = ("", "{}", '{"commit": 1, "pack": [], "entries": {}}')
    for number, text in enumerate(broken):
        (snapshot.folder / "manifest.json").write_text(text)
        old.write_text("of an older harness")
        again = make_snapshot(tmp_path, history)
        checkout = make_checkout(again, tmp_path / f"fresh-{number}")
        assert checkout.tracked_files()
        assert not old.exists()


def test_git_finds_nothing_wrong_with_a_repository_that_it_did_not_make(
    tmp_path: Path, fresh: Checkout
) -> None:
    root = fresh.root
    assert git("fsck", "--full", "--strict", cwd=root) == b""
    assert git("status", "--porcelain", "--ignored", cwd=root) == b""
    settings = git("config", "--local", "--list", cwd=root)
    theirs = tmp_path / "theirs"
    git("init", "-q", "--template=", theirs, cwd=tmp_path)
    usual = git("config", "--local", "--list", cwd=theirs)
    assert settings == usual.replace(b"updates=true", b"updates=false")


def test_the_files_of_a_checkout_are_those_of_its_commit(
    history: History, fresh: Checkout
) -> None:
    mirror, base, _ = history
    listing = git("ls-tree", "-r", base, cwd=mirror)
    hashes = []
    for row in listing.decode().splitlines():
        if row.startswith("100"):
            hashes.append(row.split()[2])
    blobs = fresh.snapshot.blobs
    assert sorted(blobs.values()) == sorted(hashes)
    assert fresh.tracked_files() == tuple(sorted(blobs))
    assert "link" not in blobs
    assert LATIN in blobs


def test_the_environment_and_global_settings_do_not_matter(
    tmp_path: Path,
    history: History,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    settings = home / ".gitconfig"
    settings.write_text("[core]\nautocrlf = true\n[broken\n")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    monkeypatch.setenv("GIT_INDEX_FILE", "/nowhere/index")
    fresh = make_checkout(make_snapshot(tmp_path, history), tmp_path / "fresh")
    assert (fresh.root / "crlf.txt").read_bytes() == b"a\r\nb\r\n"
    assert settings.read_text() == "[core]\nautocrlf = true\n[broken\n"


def test_a_half_made_snapshot_is_not_used(tmp_path: Path, history: History) -> None:
    _, base, _ = history
    folder = tmp_path / "snapshots" / "own__thing"
    half = folder / f".{base[:12]}.killed"
    half.mkdir(parents=True)
    make_checkout(make_snapshot(tmp_path, history), tmp_path / "fresh")
