"""Fresh checkouts that hold exactly one commit.

A clone of a mirror shows the later history of the repository, including the fix, and agents read it
(mini-swe-agent issue 787). So the objects of one commit are packed once per instance into a
*snapshot*, and each attempt gets a new repository with only that pack. Its folder is written here
file by file, and git only fills the work tree: this saves a dozen git processes, and the files can
be compared with the expected ones.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import struct
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from pathlib import Path

from swe_retry.agent.workspace import TextFile
from swe_retry.core.atomic import scratch_folder, write_bytes_atomic
from swe_retry.core.errors import InfrastructureError
from swe_retry.core.git import GitError, git, git_result, join_paths
from swe_retry.core.hashing import sha256_of
from swe_retry.core.worktree import Stamp, differences, let_clock_tick, newest, stamps

INDEX = "index"
_MANIFEST = "manifest.json"
_LINK = "120000"
_SUBMODULE = "160000"
# A pack and its index end in their SHA-1 checksums; git names both after the pack's.
_CHECKSUM_BYTES = 20


@dataclass(frozen=True)
class TreeFile:
    """A file of the commit's tree: mode in octal, hash of the blob, size in bytes."""

    mode: str
    blob: str
    size: int

    @property
    def is_link(self) -> bool:
        return self.mode == _LINK

    @property
    def is_executable(self) -> bool:
        return self.mode == "100755"


@dataclass(frozen=True)
class PackFile:
    """A file of the pack: its size in bytes and the checksum at its end."""

    size: int
    checksum: str

    @classmethod
    def of(cls, path: Path) -> PackFile:
        """Read size and checksum of the file at ``path``."""
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _CHECKSUM_BYTES))
            return cls(size, file.read().hex())


@dataclass(frozen=True)
class Snapshot:
    """One commit's objects in ``folder``: a pack, and an index of the tree without stat data.

    Attributes:
        entries: the files and links of the tree by path, sorted, without submodules.
        submodules: sorted paths of other repositories, of which this one holds nothing.
    """

    folder: Path
    commit: str
    pack: Mapping[str, PackFile]
    entries: Mapping[str, TreeFile]
    submodules: tuple[str, ...] = ()

    @cached_property
    def blobs(self) -> Mapping[str, str]:
        """Hashes of the blobs of regular files (not links), by path."""
        blobs = {}
        for path, file in self.entries.items():
            if not file.is_link:
                blobs[path] = file.blob
        return blobs

    @classmethod
    def read(cls, folder: Path) -> Snapshot:
        """Read the snapshot in ``folder``."""
        text = (folder / _MANIFEST).read_text()
        data = json.loads(text)
        try:
            pack = {}
            for name, fields in data["pack"].items():
                pack[name] = PackFile(**fields)
            entries = {}
            for path, fields in data["entries"].items():
                entries[path] = TreeFile(*fields)
            return cls(
                folder=folder,
                commit=data["commit"],
                pack=pack,
                entries=entries,
                submodules=tuple(map(str, data["submodules"])),
            )
        except (LookupError, TypeError, AttributeError) as error:
            raise ValueError(f"{folder} is not a snapshot: {error!r}") from error


@dataclass(frozen=True)
class Snapshots:
    """One snapshot per (repository, commit), made on first use and kept in ``root``."""

    root: Path

    def get(self, mirror: Path, repo: str, commit: str, bug: str = "") -> Snapshot:
        """Return the snapshot of ``commit``; safe with concurrent calls and kills.

        With ``bug``, a patch, it is the snapshot of a new commit that has it applied.
        """
        name = commit
        if bug:
            name += f"-{sha256_of(bug)[:16]}"
        folder = self.root / repo.replace("/", "__")
        target = folder / name
        snapshot = _read_snapshot(target)
        if snapshot is not None:
            return snapshot
        from filelock import FileLock  # it loads asyncio

        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{target}.lock"):
            # Another process may have made it meanwhile.
            snapshot = _read_snapshot(target)
            if snapshot is None:
                snapshot = _make_snapshot(mirror, commit, target, bug)
            return snapshot


def _read_snapshot(folder: Path) -> Snapshot | None:
    try:
        return Snapshot.read(folder)
    except (ValueError, OSError):
        return None


def _make_snapshot(mirror: Path, commit: str, target: Path, bug: str) -> Snapshot:
    try:
        with (
            scratch_folder(target) as temporary,
            tempfile.TemporaryDirectory() as scratch,
        ):
            if bug:
                planted = Path(scratch) / "planted"
                commit = plant_bug(mirror, commit, bug, planted)
                mirror = planted
            _pack_commit(mirror, commit, temporary)
            shutil.rmtree(target, ignore_errors=True)
            temporary.replace(target)
        return Snapshot.read(target)
    except (GitError, OSError, ValueError) as error:
        raise InfrastructureError(
            f"cannot pack {commit} of {mirror}: {error}"
        ) from error


def _pack_commit(mirror: Path, commit: str, folder: Path) -> None:
    """Write the pack of a commit, its index and its manifest into ``folder``."""
    # Git renames a new pack: it must be written where it will lie, and not in the mirror.
    objects = folder / "objects"
    make_objects(objects, [objects_of(mirror)])
    store = {"GIT_OBJECT_DIRECTORY": str(objects)}
    run = partial(git, cwd=mirror, env=store)
    # Without --no-object-names, strange paths could get into the list of hashes.
    hashes = run("rev-list", "--objects", "--no-object-names", f"{commit}^{{tree}}")
    hashes += f"{commit}\n".encode()
    run("pack-objects", "-q", folder / "pack", stdin=hashes)
    (pack_index,) = folder.glob("*.idx")
    data = pack_index.read_bytes()
    listing = git("show-index", cwd=mirror, stdin=data)
    packed = {line.split()[1] for line in listing.splitlines()}
    if packed != set(hashes.split()):
        raise ValueError("the pack does not hold exactly the commit and its tree")
    index = {"GIT_INDEX_FILE": str(folder / INDEX)}
    run("read-tree", commit, env=store | index)
    listing = run("ls-tree", "-r", "-l", "-z", commit)
    _write_manifest(listing, commit, folder)
    shutil.rmtree(objects)


def objects_of(repository: Path) -> Path:
    """Return the folder of a repository's objects."""
    output = git("rev-parse", "--git-path", "objects", cwd=repository)
    path = os.fsdecode(output.removesuffix(b"\n"))
    return (repository / path).resolve()


def make_objects(folder: Path, others: Iterable[Path]) -> None:
    """Make ``folder`` a place for new objects of git, beside which it reads those in ``others``."""
    (folder / "info").mkdir(parents=True, exist_ok=True)
    lines = [os.fsencode(other) + b"\n" for other in others]
    write_bytes_atomic(folder / "info/alternates", b"".join(lines))


def _write_manifest(listing: bytes, commit: str, folder: Path) -> None:
    entries = {}
    submodules = []
    for row in filter(None, listing.split(b"\0")):
        meta, _, name = row.partition(b"\t")
        mode, _, blob, size = meta.decode().split()
        path = name.decode("utf-8", "surrogateescape")
        if mode == _SUBMODULE:
            submodules.append(path)
        else:
            entries[path] = (mode, blob, int(size))
    pack = {}
    for file in folder.glob("pack-*"):
        pack[file.name] = asdict(PackFile.of(file))
    manifest = {
        "commit": commit,
        "pack": pack,
        "entries": entries,
        "submodules": sorted(submodules),
    }
    text = json.dumps(manifest, sort_keys=True)
    (folder / _MANIFEST).write_text(text)


# Fixed, so that each machine makes the same commit.
_BASE_DATE = "2000-01-01T00:00:00+00:00"
BASE_AUTHOR = {
    "GIT_AUTHOR_NAME": "base",
    "GIT_AUTHOR_EMAIL": "base@localhost",
    "GIT_AUTHOR_DATE": _BASE_DATE,
    "GIT_COMMITTER_NAME": "base",
    "GIT_COMMITTER_EMAIL": "base@localhost",
    "GIT_COMMITTER_DATE": _BASE_DATE,
}


def plant_bug(mirror: Path, commit: str, patch: str, repository: Path) -> str:
    """Make a bare ``repository`` beside ``mirror`` with the new commit; return its hash.

    A tree in which ``patch`` is applied already stays as it is. ``mirror`` is only read.
    """
    git("init", "--quiet", "--bare", "--template=", repository, cwd=mirror)
    make_objects(repository / "objects", [objects_of(mirror)])
    git("read-tree", commit, cwd=repository)
    data = patch.encode("utf-8", "surrogateescape")
    apply = partial(
        git_result,
        *("apply", "--cached", "--whitespace=nowarn"),
        cwd=repository,
        stdin=data,
    )
    is_planted = apply("--check", "--reverse").returncode == 0
    if not is_planted and apply().returncode:
        raise InfrastructureError(
            f"the patch of the row fits neither {commit} nor its fix: check `base_commit`"
        )
    tree = git("write-tree", cwd=repository).decode().strip()
    argv = ("commit-tree", tree, "-m", "base")
    output = git(*argv, cwd=repository, env=BASE_AUTHOR)
    return output.decode().strip()


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
