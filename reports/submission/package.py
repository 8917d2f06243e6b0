"""The folders of a package, which is not trusted: no link is followed, every read has a limit."""

from __future__ import annotations

import os
import re
import stat
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import date, datetime
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from bench.instances.dataset import ALIASES
from core.errors import UserError
from core.parsing.untrusted import MIB, DamagedError, json_of, key_path, text_of
from reports.data.predictions import ALL_PREDS

T = TypeVar("T")
_ENTRY = re.compile(r"(\d{8})_[A-Za-z0-9][\w.+-]*")
# The day of this rule in the leaderboard's README.
RESEARCH_RULE_DAY = date(2025, 11, 18)
RESEARCH_NOTICE = (
    f"note: since {RESEARCH_RULE_DAY} {{split}} accepts only academic and research submissions: "
    "open methods with an arXiv preprint or technical report, and at least one author at an "
    "academic institution or an established research lab; others are closed (the rule does not "
    "apply to multimodal and lite)"
)


class Split(str, Enum):
    """The folders below ``evaluation/`` of the leaderboard's repository."""

    LITE = "lite"
    VERIFIED = "verified"
    TEST = "test"
    MULTILINGUAL = "multilingual"
    MULTIMODAL = "multimodal"

    @classmethod
    def of(cls, name: str) -> Split:
        """Return the split ``name``."""
        try:
            return cls("test" if name == "full" else name)
        except ValueError as error:
            names = ", ".join(split.value for split in cls)
            raise UserError(
                f"--split {name!r} is not a split of the leaderboard: {names}"
            ) from error

    @property
    def dataset(self) -> str:
        if self is Split.MULTIMODAL:
            return "SWE-bench/SWE-bench_Multimodal"
        return ALIASES["full" if self is Split.TEST else self.value]

    @property
    def research_only(self) -> bool:
        return self in (Split.VERIFIED, Split.MULTILINGUAL)


def entry_date(folder: str) -> date | None:
    """Return the date in the name ``YYYYMMDD_name`` of an entry's folder, None without one."""
    match = _ENTRY.fullmatch(folder)
    if not match:
        return None
    try:
        return datetime.strptime(match[1], "%Y%m%d").date()
    except ValueError:
        return None


# Names and ids in a package may have any length.
_LONGEST = 400


class Kind(str, Enum):
    """The kinds of faults; see docs/submission.md."""

    MISSING = "missing"
    UNREADABLE = "unreadable"
    LINK = "link"
    SIZE = "size"
    TODO = "todo"
    SECRET = "secret"
    UNKNOWN_ID = "unknown id"
    DUPLICATE = "duplicate"
    MODEL_NAME = "model name"
    TEST_EDIT = "test edit"
    PATCH = "patch"
    METADATA = "metadata"
    NAME = "name"
    README = "readme"
    RESULTS = "results"
    LOGS = "logs"
    TRAJECTORY = "trajectory"
    ATTEMPTS = "attempts"
    TRACE = "trace"


@dataclass(frozen=True)
class PackageFinding:
    """One fault of a package; ``place`` is relative to the package."""

    kind: Kind
    place: str
    problem: str
    fix: str

    def line(self) -> str:
        """Return one printable line; other characters are escaped."""
        place, problem = self.place[:_LONGEST], self.problem[:_LONGEST]
        text = f"{self.kind.value}: {place}: {problem}; {self.fix}"
        return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


class UnusableError(Exception):
    """A file of a package cannot be used; contains the finding."""

    def __init__(self, finding: PackageFinding) -> None:
        super().__init__(finding.line())
        self.finding = finding


def findings_of(check: Iterable[PackageFinding]) -> Iterator[PackageFinding]:
    """Yield the findings of ``check``; a file that it cannot use is its last one."""
    try:
        yield from check
    except UnusableError as error:
        yield error.finding


_BLOCK = 1 << 16


@dataclass(frozen=True)
class SizeLimits:
    """Sizes in bytes."""

    file: int = 100 * MIB  # GitHub refuses larger ones
    total: int = 5 * 1024 * MIB  # GitHub asks for smaller repositories
    unpacked: int = 512 * MIB  # of a test output


class PathType(Enum):
    """The type of a path."""

    FILE = "file"
    FOLDER = "folder"
    OTHER = "link or special file"
    NOTHING = "nothing"


@dataclass(frozen=True)
class PackageFolder:
    root: Path
    path: Path
    limits: SizeLimits = field(default_factory=SizeLimits)

    @classmethod
    def of(cls, root: Path, limits: SizeLimits = SizeLimits()) -> PackageFolder:
        """Return the folder of a package; its absolute path contains the split's name."""
        return cls(root.absolute(), root.absolute(), limits)

    def below(self, name: str) -> PackageFolder:
        return PackageFolder(self.root, self.path / name, self.limits)

    def fault(self, kind: Kind, name: str, problem: str, fix: str) -> PackageFinding:
        return PackageFinding(kind, self.place(name), problem, fix)

    def place(self, name: str = "") -> str:
        return str((self.path / name).relative_to(self.root))

    def spot(self, name: str, *keys: str | int) -> str:
        """Return the place of the value at ``keys`` in the JSON file ``name`` for findings."""
        return ": ".join(filter(None, (self.place(name), key_path(keys))))

    def sort(self, name: str = "") -> PathType:
        """Return the type of ``name`` without following links."""
        return _sort(self.path / name)

    def names(self) -> list[str]:
        """Return the sorted names in this folder; none if it is not a folder."""
        if self.sort() is not PathType.FOLDER:
            return []
        try:
            return sorted(os.listdir(self.path))  # noqa: PTH208 - names, not paths
        except OSError:
            return []

    def files(self) -> Iterator[tuple[str, PathType, int]]:
        """Yield path, type and size of everything below this folder except folders."""
        for folder, folders, files in os.walk(self.path):
            folders.sort()
            links = [n for n in folders if _sort(Path(folder, n)) is not PathType.FOLDER]
            for name in sorted((*files, *links)):
                path = Path(folder, name)
                yield str(path.relative_to(self.path)), _sort(path), _size(path)

    def data(self, name: str) -> bytes:
        sort = self.sort(name)
        if sort is PathType.NOTHING:
            raise self.unusable(Kind.MISSING, name, "is missing", "add it")
        if sort is not PathType.FILE:
            raise self.unusable(Kind.LINK, name, f"is a {sort.value}", "replace it by a file")
        if _size(self.path / name) > self.limits.file:
            raise self.unusable(Kind.SIZE, name, "is too large", "make it smaller")
        try:
            return (self.path / name).read_bytes()
        except OSError as error:
            problem = f"cannot be read ({error.strerror})"
            raise self.unusable(Kind.UNREADABLE, name, problem, "fix it") from error

    def text(self, name: str) -> str:
        try:
            return text_of(self.data(name))
        except DamagedError as error:
            problem = f"is not UTF-8 ({error})"
            raise self.unusable(Kind.UNREADABLE, name, problem, "write it as UTF-8") from error

    def json(self, name: str) -> Any:  # noqa: ANN401 - any JSON value
        return self.parsed(name, self.text(name))

    def parsed(self, place: str, text: str) -> Any:  # noqa: ANN401 - any JSON value
        try:
            return json_of(text)
        except DamagedError as error:
            problem = f"is not JSON ({error})"
            raise self.unusable(Kind.UNREADABLE, place, problem, "write it as JSON") from error

    def typed(self, name: str, kind: TypeAdapter[T], fault: Kind, fix: str) -> T:
        try:
            return kind.validate_python(self.json(name))
        except ValidationError as error:
            first = error.errors()[0]
            keys, problem = first["loc"], first["msg"]
            raise self.unusable(fault, name, f"is not valid: {problem}", fix, *keys) from error

    def unpacked(self, name: str) -> Iterator[bytes]:
        """Yield the content of a gzip file in blocks."""
        packed, total = self.data(name), 0
        try:
            for block in _gunzip(packed):
                total += len(block)
                if total > self.limits.unpacked:
                    problem = "is too large when unpacked"
                    raise self.unusable(Kind.SIZE, name, problem, "shorten the test output")
                yield block
        except (zlib.error, EOFError) as error:
            problem, fix = f"is not a complete gzip file ({error})", "pack the test output again"
            raise self.unusable(Kind.UNREADABLE, name, problem, fix) from error

    def unusable(
        self, kind: Kind, name: str, problem: str, fix: str, *keys: str | int
    ) -> UnusableError:
        place = self.spot(name, *keys) if keys else self.place(name)
        return UnusableError(PackageFinding(kind, place, problem, fix))


def _gunzip(packed: bytes) -> Iterator[bytes]:
    while packed:
        stream = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
        rest = packed
        while not stream.eof:
            block = stream.decompress(rest, _BLOCK)
            rest = stream.unconsumed_tail
            if not block and not rest and not stream.eof:
                raise EOFError("it ends too early")
            yield block
        packed = stream.unused_data.lstrip(b"\0")


def _sort(path: Path) -> PathType:
    try:
        mode = path.lstat().st_mode
    except (OSError, ValueError):
        return PathType.NOTHING
    if stat.S_ISREG(mode):
        return PathType.FILE
    return PathType.FOLDER if stat.S_ISDIR(mode) else PathType.OTHER


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:
        return 0


_DEEPEST = 6
_DATA = ("logs", "trajs", "results", ".git")


@dataclass(frozen=True)
class PackageHalves:
    """The halves of a package; ``faults`` are those that are missing or found twice."""

    artifacts: PackageFolder | None
    entry: PackageFolder | None
    faults: tuple[PackageFinding, ...]

    @property
    def split(self) -> Split | None:
        """The split, named by the entry's parent folder."""
        try:
            return Split(self.entry.path.parent.name) if self.entry else None
        except ValueError:
            return None


def locate(root: PackageFolder) -> PackageHalves:
    def holding(*names: str) -> list[PackageFolder]:
        return [f for f in folders if any(f.sort(name) is not PathType.NOTHING for name in names)]

    folders = list(_folders(root, _DEEPEST))
    artifacts = holding(ALL_PREDS) or holding("trajs", "logs")
    entries = holding("metadata.yaml", "results")
    entries = entries or [f for f in folders if entry_date(f.path.name)]
    faults = [
        *_faults(artifacts, f"{ALL_PREDS}, logs/ and trajs/", "the artifacts"),
        *_faults(entries, "metadata.yaml and results/", "the entry"),
    ]
    return PackageHalves(next(iter(artifacts), None), next(iter(entries), None), tuple(faults))


def _faults(found: list[PackageFolder], content: str, half: str) -> Iterator[PackageFinding]:
    if not found:
        problem = f"no folder contains {content}"
        yield PackageFinding(Kind.MISSING, ".", problem, f"add {half} to the package")
    for other in found[1:]:
        problem = f"{half} are here and in {found[0].place()}"
        yield other.fault(Kind.DUPLICATE, "", problem, "keep one of them in the package")


def _folders(folder: PackageFolder, depth: int) -> Iterator[PackageFolder]:
    yield folder
    for name in folder.names() if depth else ():
        if name not in _DATA and folder.sort(name) is PathType.FOLDER:
            yield from _folders(folder.below(name), depth - 1)
