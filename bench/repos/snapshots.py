"""Snapshots: the objects of one commit, packed and verified once for all of its checkouts."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from core.atomic import scratch_folder
from core.errors import InfrastructureError
from core.git import GitError, git, git_result

INDEX = "index"
_MANIFEST = "manifest.json"
_LINK, _SUBMODULE = "120000", "160000"
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
        return {path: e.blob for path, e in self.entries.items() if not e.is_link}

    @classmethod
    def read(cls, folder: Path) -> Snapshot:
        """Read the snapshot in ``folder``."""
        data = json.loads((folder / _MANIFEST).read_text())
        try:
            pack = {name: PackFile(**fields) for name, fields in data["pack"].items()}
            entries = {path: TreeFile(*fields) for path, fields in data["entries"].items()}
            submodules = tuple(map(str, data["submodules"]))
            return cls(folder, data["commit"], pack, entries, submodules)
        except (LookupError, TypeError, AttributeError) as error:
            raise ValueError(f"{folder} is no snapshot: {error!r}") from error


@dataclass(frozen=True)
class Snapshots:
    """One snapshot per (repository, commit), made on first use and kept in ``root``."""

    root: Path

    def get(self, mirror: Path, repo: str, commit: str, bug: str = "") -> Snapshot:
        """Return the snapshot of ``commit``; safe with concurrent calls and kills.

        With ``bug``, a patch, it is the snapshot of a new commit that has it applied.
        """
        digest = hashlib.sha256(bug.encode("utf-8", "surrogateescape")).hexdigest()
        name = f"{commit}-{digest[:16]}" if bug else commit
        target = self.root / repo.replace("/", "__") / name
        found = _read(target)
        if found:
            return found
        from filelock import FileLock  # it loads asyncio

        target.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{target}.lock"):
            return _read(target) or _make(mirror, commit, target, bug)


def _read(folder: Path) -> Snapshot | None:
    try:
        return Snapshot.read(folder)
    except (ValueError, OSError):
        return None


def _make(mirror: Path, commit: str, target: Path, bug: str) -> Snapshot:
    try:
        with scratch_folder(target) as temporary, tempfile.TemporaryDirectory() as scratch:
            if bug:
                planted = Path(scratch) / "planted"
                mirror, commit = planted, plant(mirror, commit, bug, planted)
            _pack(mirror, commit, temporary)
            index = {"GIT_INDEX_FILE": str(temporary / INDEX)}
            git("read-tree", commit, cwd=mirror, env=index)
            _write_manifest(mirror, commit, temporary)
            shutil.rmtree(target, ignore_errors=True)
            temporary.replace(target)
        return Snapshot.read(target)
    except (GitError, OSError, ValueError) as error:
        raise InfrastructureError(f"cannot pack {commit} of {mirror}: {error}") from error


def _pack(mirror: Path, commit: str, folder: Path) -> None:
    # Without --no-object-names, strange paths could get into the list of hashes.
    tree = git("rev-list", "--objects", "--no-object-names", f"{commit}^{{tree}}", cwd=mirror)
    wanted = tree + f"{commit}\n".encode()
    git("pack-objects", "-q", folder / "pack", cwd=mirror, stdin=wanted)
    (packed,) = folder.glob("*.idx")
    listed = git("show-index", cwd=mirror, stdin=packed.read_bytes()).splitlines()
    if {line.split()[1] for line in listed} != set(wanted.split()):
        raise ValueError("the pack does not hold exactly the commit and its tree")


def _write_manifest(mirror: Path, commit: str, folder: Path) -> None:
    rows = sorted(_rows(git("ls-tree", "-r", "-l", "-z", commit, cwd=mirror)))
    manifest: dict[str, Any] = {
        "commit": commit,
        "pack": {p.name: asdict(PackFile.of(p)) for p in sorted(folder.glob("pack-*"))},
        "entries": {path: (m, b, int(n)) for path, m, b, n in rows if m != _SUBMODULE},
        "submodules": [path for path, mode, _, _ in rows if mode == _SUBMODULE],
    }
    (folder / _MANIFEST).write_text(json.dumps(manifest))


def _rows(listing: bytes) -> Iterator[tuple[str, str, str, str]]:
    for row in filter(None, listing.split(b"\0")):
        meta, _, path = row.partition(b"\t")
        mode, _, blob, size = meta.decode().split()
        yield path.decode("utf-8", "surrogateescape"), mode, blob, size


# Fixed, so that each machine makes the same commit.
_WHO = {
    f"GIT_{role}_{key}": value
    for role in ("AUTHOR", "COMMITTER")
    for key, value in {
        "NAME": "base", "EMAIL": "base@localhost", "DATE": "2000-01-01T00:00:00+00:00",
    }.items()
}  # fmt: skip


def plant(mirror: Path, commit: str, patch: str, repository: Path) -> str:
    """Make a bare ``repository`` beside ``mirror`` with the new commit; return its hash.

    A tree in which ``patch`` is applied already stays as it is. ``mirror`` is only read.
    """
    git("init", "--quiet", "--bare", "--template=", repository, cwd=mirror)
    objects = git("rev-parse", "--git-path", "objects", cwd=mirror).decode().strip()
    (repository / "objects/info").mkdir(exist_ok=True)
    (repository / "objects/info/alternates").write_text(f"{(mirror / objects).resolve()}\n")
    git("read-tree", commit, cwd=repository)
    data = patch.encode("utf-8", "surrogateescape")
    apply = ("apply", "--cached", "--whitespace=nowarn")
    if git_result(*apply, "--check", "--reverse", cwd=repository, stdin=data).returncode:
        applied = git_result(*apply, cwd=repository, stdin=data)
        if applied.returncode:
            raise InfrastructureError(
                f"the patch of the row fits neither {commit} nor its fix: check `base_commit`"
            )
    tree = git("write-tree", cwd=repository).decode().strip()
    made = git("commit-tree", tree, "-m", "base", cwd=repository, env=_WHO)
    return made.decode().strip()
