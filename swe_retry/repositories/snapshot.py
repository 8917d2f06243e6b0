"""Snapshots: the objects of one commit, packed once per instance for all its checkouts.

A clone of a mirror shows the later history of the repository, including the fix, and agents read it
(mini-swe-agent issue 787).
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from pathlib import Path

from swe_retry.core.atomic import scratch_folder, write_bytes_atomic
from swe_retry.core.errors import InfrastructureError
from swe_retry.core.git import GitError, git, git_result
from swe_retry.core.hashing import sha256_of

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


def get_snapshot(
    root: Path, mirror: Path, repo: str, commit: str, bug: str = ""
) -> Snapshot:
    """Return the snapshot of ``commit``, made on first use and kept in ``root``.

    Safe with concurrent calls and kills. With ``bug``, a patch, it is the snapshot of a new commit
    that has it applied.
    """
    name = commit
    if bug:
        name += f"-{sha256_of(bug)[:16]}"
    folder = root / repo.replace("/", "__")
    target = folder / name
    snapshot = _read_snapshot(target)
    if snapshot is not None:
        return snapshot
    from filelock import FileLock  # it loads asyncio

    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{target}.lock"):
        # Another process may have made it meanwhile.
        return _read_snapshot(target) or _make_snapshot(mirror, commit, target, bug)


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
