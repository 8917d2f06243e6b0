"""Fresh checkouts that know exactly one commit.

A clone of a mirror shows the whole future of the repository, the fix included, and agents read it
(mini-swe-agent issue 787). So the objects of one commit are packed once per instance into a
*snapshot*, and each attempt gets a new repository made of that pack alone.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

from agent.atomic import scratch_folder
from agent.errors import InfrastructureError
from agent.git import GitError, git, git_text

# Line endings, filters and keyword expansion are switched off: the work tree is the tree.
_ATTRIBUTES = "* -text -eol -crlf -ident -filter -working-tree-encoding\n"
_BRANCH = "refs/heads/base"
_EXCLUDE = Path(".git/info/exclude")
_LONGEST_EXCLUDE = 100_000


class LeakError(RuntimeError):
    """A checkout knows more than its one commit."""


@dataclass(frozen=True)
class Checkout:
    """A work tree at its base commit, and the way to it.

    Attributes:
        root: the work tree.
        base_commit: the only commit that its repository holds.
    """

    root: Path
    base_commit: str

    def tracked_files(self) -> tuple[str, ...]:
        """Return the paths of the base commit's files, sorted, links and submodules left out."""
        listing = git("ls-tree", "-r", "-z", self.base_commit, cwd=self.root)
        entries = [entry.split(b"\t", 1) for entry in listing.split(b"\0") if entry]
        return tuple(
            sorted(
                path.decode("utf-8", "surrogateescape")
                for meta, path in entries
                if meta.startswith(b"100")
            )
        )

    def blobs(self) -> dict[str, str]:
        """Return path to blob hash for the regular files of the base commit."""
        listing = git("ls-tree", "-r", "-z", self.base_commit, cwd=self.root)
        found = {}
        for entry in filter(None, listing.split(b"\0")):
            meta, _, path = entry.partition(b"\t")
            mode, _, blob = meta.decode().split()
            if mode.startswith("100"):
                found[path.decode("utf-8", "surrogateescape")] = blob
        return found


@dataclass(frozen=True)
class Snapshots:
    """One pack per (repository, commit), made on first use and kept in ``root``."""

    root: Path

    def get(self, mirror: Path, repo: str, commit: str) -> Path:
        """Return the folder with the pack of ``commit``; safe under concurrency and kills."""
        target = self.root / repo.replace("/", "__") / commit
        if target.is_dir():
            return target
        target.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{target}.lock"):
            if not target.is_dir():
                _pack(mirror, commit, target)
        return target


def _pack(mirror: Path, commit: str, target: Path) -> None:
    with scratch_folder(target) as temporary:
        try:
            # --no-object-names keeps a strange path from ending up in the list of hashes.
            tree = f"{commit}^{{tree}}"
            hashes = git("rev-list", "--objects", "--no-object-names", tree, cwd=mirror)
            objects = hashes + f"{commit}\n".encode()
            git("pack-objects", "-q", temporary / "pack", cwd=mirror, stdin=objects)
        except GitError as error:
            raise InfrastructureError(f"cannot pack {commit} of {mirror}: {error}") from error
        temporary.replace(target)


def make_checkout(snapshot: Path, commit: str, root: Path) -> Checkout:
    """Make a fresh checkout of ``commit`` in the new folder ``root`` and verify that it is clean.

    Raises:
        LeakError: the new repository holds anything but the one commit.
        InfrastructureError: git or the disk failed.
    """
    try:
        _fill(snapshot, commit, root)
    except (GitError, OSError) as error:
        raise InfrastructureError(f"cannot check out {commit} into {root}: {error}") from error
    verify(root, commit)
    return Checkout(root, commit)


def _fill(snapshot: Path, commit: str, root: Path) -> None:
    _make_repository(snapshot, commit, root)
    git("read-tree", "--reset", "-u", "HEAD", cwd=root)


def _make_repository(snapshot: Path, commit: str, root: Path) -> None:
    git("init", "--quiet", "--template=", root, cwd=snapshot)
    dot_git = root / ".git"
    pack = dot_git / "objects" / "pack"
    pack.mkdir(parents=True, exist_ok=True)
    for file in snapshot.iterdir():
        shutil.copyfile(file, pack / file.name)
    (dot_git / "info").mkdir(exist_ok=True)
    (dot_git / "info" / "attributes").write_text(_ATTRIBUTES)
    (dot_git / "shallow").write_text(f"{commit}\n")
    (dot_git / "HEAD").write_text(f"ref: {_BRANCH}\n")
    head = dot_git / _BRANCH
    head.parent.mkdir(parents=True, exist_ok=True)
    head.write_text(f"{commit}\n")
    git("config", "core.logAllRefUpdates", "false", cwd=root)


def renew_repository(snapshot: Path, checkout: Checkout) -> None:
    """Make the repository's own folder anew; the work tree stays as it is.

    Whoever worked there may have committed, moved HEAD, or set filters and hooks; and what lies
    below a repository of its own is hidden from ours. The list of excluded files is kept: it says
    which new files are litter, and it cannot hide a change of what is tracked.

    Raises:
        InfrastructureError: git or the disk failed.
    """
    root = checkout.root
    try:
        if root.is_symlink():
            root.unlink()
        excluded = _excluded(root)
        for found in _repositories(root):
            if found.is_dir() and not found.is_symlink():
                shutil.rmtree(found)
            else:
                found.unlink()
        _make_repository(snapshot, checkout.base_commit, root)
        (root / _EXCLUDE).write_bytes(excluded)
        git("read-tree", "--reset", "HEAD", cwd=root)
    except (GitError, OSError) as error:
        raise InfrastructureError(f"cannot renew the repository of {root}: {error}") from error


def _excluded(root: Path) -> bytes:
    place = root / _EXCLUDE
    ours = place.is_file() and not place.is_symlink() and place.stat().st_size <= _LONGEST_EXCLUDE
    return place.read_bytes() if ours else b""


def _repositories(root: Path) -> list[Path]:
    """Return what is named ``.git`` in ``root`` and below; no commit can hold such a name."""
    found = []
    for folder, folders, files in os.walk(root):
        found += [Path(folder) / name for name in (*folders, *files) if name.lower() == ".git"]
        folders[:] = [name for name in folders if name.lower() != ".git"]
    return found


def verify(root: Path, commit: str) -> None:
    """Check that the repository at ``root`` holds ``commit``, its tree and nothing else.

    Raises:
        LeakError: with the first thing that should not be there.
    """
    dot_git = root / ".git"
    for name in ("logs", "packed-refs", "objects/info/alternates", "FETCH_HEAD", "ORIG_HEAD"):
        if (dot_git / name).exists():
            raise LeakError(f"{root}: .git/{name} exists in a fresh checkout")
    refs = git_text("for-each-ref", "--format=%(refname) %(objectname)", cwd=root)
    if refs != f"{_BRANCH} {commit}":
        raise LeakError(f"{root}: unexpected references: {refs}")
    if remotes := git_text("remote", cwd=root):
        raise LeakError(f"{root}: unexpected remotes: {remotes}")
    _verify_objects(root, commit)
    if dirt := git_text("status", "--porcelain", "--ignored", cwd=root):
        raise LeakError(f"{root}: a fresh checkout is not clean: {dirt[:200]}")


def _verify_objects(root: Path, commit: str) -> None:
    listed = git_text(
        "cat-file", "--batch-all-objects", "--batch-check=%(objectname)", "--unordered", cwd=root
    )
    reachable = git_text(
        "rev-list", "--objects", "--no-object-names", f"{commit}^{{tree}}", cwd=root
    )
    expected = {commit, *reachable.split()}
    if extra := set(listed.split()) - expected:
        raise LeakError(f"{root}: {len(extra)} objects of other commits, as {min(extra)}")
