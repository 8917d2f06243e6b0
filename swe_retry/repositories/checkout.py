"""Fresh checkouts that hold exactly one commit.

Each attempt gets a new repository with only the pack of a snapshot. Its folder is written here file
by file, and git only fills the work tree: this saves a dozen git processes, and the files can be
compared with the expected ones.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from swe_retry.agent.workspace import TextFile
from swe_retry.core.errors import InfrastructureError
from swe_retry.core.git import GitError, git, join_paths
from swe_retry.core.worktree import Stamp, differences, let_clock_tick, newest, stamps
from swe_retry.repositories.snapshot import INDEX, PackFile, Snapshot, TreeFile

BASE_INDEX = Path(".git/base-index")
"""An index of the base commit; git's own index changes when files are added."""

_BRANCH = "refs/heads/base"
_CONFIG = """\
[core]
\trepositoryformatversion = 0
\tfilemode = true
\tbare = false
\tlogallrefupdates = false
"""
# Line endings, filters and keyword expansion are off, so that files equal their blobs.
_ATTRIBUTES = "* -text -eol -crlf -ident -filter -working-tree-encoding\n"
_PACK = "objects/pack"


class LeakError(RuntimeError):
    """A checkout holds more than its one commit."""


@dataclass(frozen=True)
class Checkout:
    """A work tree at its base commit, and its state right after the checkout.

    Attributes:
        fresh: stamps of the files right after the checkout, by path.
        repository: stamps of the files and folders of its ``.git`` at that time.
    """

    root: Path
    snapshot: Snapshot
    fresh: Mapping[str, Stamp]
    repository: Mapping[str, Stamp]

    @property
    def base_commit(self) -> str:
        return self.snapshot.commit

    def settle(self) -> None:
        """Wait some milliseconds, so that files written later get other times than fresh ones.

        Call this before writing to the work tree, or a change may go unnoticed.
        """
        newest_file = newest(self.fresh)
        let_clock_tick(max(newest_file, newest(self.repository)))

    def tracked_files(self) -> tuple[str, ...]:
        """Return the sorted paths of the base commit's files, without links and submodules."""
        return tuple(self.snapshot.blobs)

    def read_base(self, path: str) -> str | None:
        """Return the text of a file of the base commit, whatever became of the work tree."""
        blob = self.snapshot.blobs.get(path)
        if blob is None:
            return None
        data = git("cat-file", "blob", blob, cwd=self.root)
        return TextFile.decode(data).text


def make_checkout(snapshot: Snapshot, root: Path) -> Checkout:
    """Make a fresh checkout in the new folder ``root`` and verify it.

    Call ``Checkout.settle`` before writing to it.

    Raises:
        LeakError: the new repository holds anything besides the commit.
        InfrastructureError: git or the disk failed.
    """
    try:
        make_repository(snapshot, root)
        git("read-tree", "--reset", "-u", "HEAD", cwd=root)
        return verify(snapshot, root)
    except (GitError, OSError) as error:
        raise InfrastructureError(
            f"cannot check out {snapshot.commit} into {root}: {error}"
        ) from error


def _repository_stamps(root: Path) -> Mapping[str, Stamp]:
    return stamps(root / ".git", folders=True)


def renew_checkout(checkout: Checkout) -> Checkout:
    """Make ``checkout`` fresh again in place, and verify it like a new one.

    New files are removed; touched ones, also of ``.git``, are restored. Writing and removing a
    whole tree takes longer than the rest of an attempt. Only for trees to which nothing but the
    harness wrote: a process of an agent's command could still be alive and write again.
    """
    snapshot = checkout.snapshot
    root = checkout.root
    try:
        touched, new = differences(checkout.fresh, stamps(root))
        for path in new:
            _remove_file(root, path)
        if _repository_stamps(root) != checkout.repository:
            shutil.rmtree(root / ".git")
            make_repository(snapshot, root)
            shutil.copyfile(snapshot.folder / INDEX, root / ".git" / INDEX)
            _verify_repository(snapshot, root / ".git")
        restore_files(root, touched)
        return _verify_files(snapshot, root)
    except (GitError, OSError) as error:
        raise InfrastructureError(
            f"cannot renew the checkout {root}: {error}"
        ) from error


def _remove_file(root: Path, path: str) -> None:
    """Remove a file, and the folders that are empty then."""
    (root / path).unlink()
    for parent in Path(path).parents[:-1]:
        folder = root / parent
        if any(folder.iterdir()):
            return
        folder.rmdir()


def restore_files(root: Path, paths: Sequence[str]) -> None:
    """Write ``paths`` as they are in git's index."""
    if paths:
        names = join_paths(paths)
        git("checkout-index", "--force", "-z", "--stdin", cwd=root, stdin=names)


def make_repository(snapshot: Snapshot, root: Path) -> None:
    """Make a ``.git`` that holds the one commit, without git's own index."""
    dot_git = root / ".git"
    for folder in ("info", _PACK, "refs/heads"):
        (dot_git / folder).mkdir(parents=True)
    for name, content in _repository_texts(snapshot).items():
        (dot_git / name).write_text(content)
    # Copies: through a hard link an agent could write to the snapshot.
    pack = dot_git / _PACK
    for name in snapshot.pack:
        shutil.copyfile(snapshot.folder / name, pack / name)
    shutil.copyfile(snapshot.folder / INDEX, root / BASE_INDEX)


def _repository_texts(snapshot: Snapshot) -> dict[str, str]:
    return {
        "HEAD": f"ref: {_BRANCH}\n",
        "config": _CONFIG,
        "info/attributes": _ATTRIBUTES,
        _BRANCH: f"{snapshot.commit}\n",
        "shallow": f"{snapshot.commit}\n",
    }


def verify(snapshot: Snapshot, root: Path) -> Checkout:
    """Check that ``root`` holds exactly a fresh checkout, and return it.

    The contents of the pack were verified when it was made; here it must be the same pack.
    """
    _verify_repository(snapshot, root / ".git")
    return _verify_files(snapshot, root)


def _verify_files(snapshot: Snapshot, root: Path) -> Checkout:
    files = stamps(root)
    expected = snapshot.entries
    for path in sorted(files.keys() ^ expected.keys()):
        verb = "exists in" if path in files else "is missing from"
        raise LeakError(f"{root}: {path!r} {verb} a fresh checkout")
    for path, entry in expected.items():
        stamp = files[path]
        if stamp.size != entry.size or not _has_mode(stamp, entry):
            raise LeakError(
                f"{root}: {path!r} is not as its commit has it in a fresh checkout"
            )
    return Checkout(
        root=root,
        snapshot=snapshot,
        fresh=files,
        repository=_repository_stamps(root),
    )


def _has_mode(stamp: Stamp, entry: TreeFile) -> bool:
    if entry.is_link:
        return stamp.is_link
    is_executable = bool(stamp.mode & 0o100)
    return stamp.is_file and is_executable == entry.is_executable


def _verify_repository(snapshot: Snapshot, dot_git: Path) -> None:
    texts = _repository_texts(snapshot)
    packs = {}
    for name, file in snapshot.pack.items():
        packs[f"{_PACK}/{name}"] = file
    expected = {*texts, *packs, INDEX, BASE_INDEX.name}
    folders: set[str] = set()
    for name in expected:
        folders.update(map(str, Path(name).parents))
    # Folders too: some have a meaning for git, and an empty one is a trace.
    for path in dot_git.rglob("*"):
        name = path.relative_to(dot_git).as_posix()
        if path.is_symlink():
            is_expected = False
        elif path.is_dir():
            is_expected = name in folders
        else:
            is_expected = name in expected
        if not is_expected:
            raise LeakError(f"{dot_git}: {name} exists in a fresh checkout")
    for name, text in texts.items():
        if (dot_git / name).read_text() != text:
            raise LeakError(f"{dot_git}: {name} is not as it was written")
    for name, file in packs.items():
        if PackFile.of(dot_git / name) != file:
            raise LeakError(f"{dot_git}: {name} is not the snapshot's pack")
    index = (snapshot.folder / INDEX).read_bytes()
    if (dot_git / BASE_INDEX.name).read_bytes() != index:
        raise LeakError(f"{dot_git}: {BASE_INDEX.name} is not the snapshot's index")


# linux/fs.h, of 64-bit systems; the value is an int nevertheless.
_GET_FLAGS = 0x80086601
_SET_FLAGS = 0x40086602
_TOP_DIRECTORY = 0x00020000


def make_spread(folder: Path) -> None:
    """Make ``folder``; on ext2 to ext4 of Linux its subfolders get their own block groups.

    For minutes after a file was removed, ext4 does not reuse its inode, and checks all such inodes
    of a block group for each new file there (``recently_deleted`` in fs/ext4/ialloc.c). Work trees
    of thousands of files are created and removed all the time. Far apart on the disk (``chattr
    +T``), they are made 1.5 to 2.5 times faster.
    """
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with contextlib.suppress(OSError):
            packed = struct.pack("i", 0)
            packed = fcntl.ioctl(descriptor, _GET_FLAGS, packed)
            (flags,) = struct.unpack("i", packed)
            packed = struct.pack("i", flags | _TOP_DIRECTORY)
            fcntl.ioctl(descriptor, _SET_FLAGS, packed)
    finally:
        os.close(descriptor)
