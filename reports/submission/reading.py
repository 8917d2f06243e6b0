"""Read an untrusted package: no link is followed, and every read has a limit."""

from __future__ import annotations

import os
import stat
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

from core.parsing.untrusted import DamagedError, json_of, line_of, text_of
from reports.submission.checks.findings import Kind, PackageFinding, UnusableError

MIB = 1 << 20
_BLOCK = 1 << 16


@dataclass(frozen=True)
class SizeLimits:
    """Sizes in bytes.

    Attributes:
        file: of one file; GitHub refuses larger ones.
        total: of the package; GitHub asks for smaller repositories.
        unpacked: of an uncompressed test output.
    """

    file: int = 100 * MIB
    total: int = 5 * 1024 * MIB
    unpacked: int = 512 * MIB


class Sort(Enum):
    """The type of a path."""

    FILE = "file"
    FOLDER = "folder"
    OTHER = "link or special file"
    NOTHING = "nothing"


@dataclass(frozen=True)
class Folder:
    """A folder of a package.

    Attributes:
        root: the package's folder; places in findings are relative to it.
        path: this folder.
    """

    root: Path
    path: Path
    limits: SizeLimits = field(default_factory=SizeLimits)

    @classmethod
    def of(cls, root: Path, limits: SizeLimits | None = None) -> Folder:
        """Return the folder of a package."""
        # The absolute path contains the split's name.
        whole = root.absolute()
        return cls(whole, whole, limits or SizeLimits())

    def below(self, name: str) -> Folder:
        """Return the folder ``name`` in this one."""
        return Folder(self.root, self.path / name, self.limits)

    def place(self, name: str = "") -> str:
        """Return the place of ``name`` for findings."""
        return str((self.path / name).relative_to(self.root))

    def spot(self, name: str, *keys: str | int) -> str:
        """Return the place of the value at ``keys`` in the JSON file ``name`` for findings."""
        return f"{self.place(name)}:{line_of(self.text(name), keys)}"

    def sort(self, name: str = "") -> Sort:
        """Return the type of ``name`` without following links."""
        return _sort(self.path / name)

    def names(self) -> list[str]:
        """Return the sorted names in this folder; none if it is not a folder."""
        if self.sort() is not Sort.FOLDER:
            return []
        try:
            return sorted(os.listdir(self.path))  # noqa: PTH208 - names, not paths
        except OSError:
            return []

    def files(self) -> Iterator[tuple[str, Sort, int]]:
        """Yield path, type and size of everything below this folder except folders."""
        for folder, folders, files in os.walk(self.path):
            folders.sort()
            links = [n for n in folders if _sort(Path(folder, n)) is not Sort.FOLDER]
            for name in sorted((*files, *links)):
                path = Path(folder, name)
                yield str(path.relative_to(self.path)), _sort(path), _size(path)

    def data(self, name: str) -> bytes:
        """Return the bytes of a file."""
        sort = self.sort(name)
        if sort is Sort.NOTHING:
            raise self.unusable(Kind.MISSING, name, "is missing", "add it")
        if sort is not Sort.FILE:
            raise self.unusable(Kind.LINK, name, f"is a {sort.value}", "replace it by a file")
        if _size(self.path / name) > self.limits.file:
            raise self.unusable(Kind.SIZE, name, "is too large", "make it smaller")
        try:
            return (self.path / name).read_bytes()
        except OSError as error:
            problem = f"cannot be read ({error.strerror})"
            raise self.unusable(Kind.UNREADABLE, name, problem, "fix it") from error

    def text(self, name: str) -> str:
        """Return the text of a file."""
        try:
            return text_of(self.data(name))
        except DamagedError as error:
            problem = f"is not UTF-8 ({error})"
            raise self.unusable(Kind.UNREADABLE, name, problem, "write it as UTF-8") from error

    def json(self, name: str) -> Any:  # noqa: ANN401 - any JSON value
        """Return the value of a JSON file."""
        return self.parsed(name, self.text(name))

    def parsed(self, place: str, text: str) -> Any:  # noqa: ANN401 - any JSON value
        """Return the value of the JSON ``text`` at ``place``."""
        try:
            return json_of(text)
        except DamagedError as error:
            problem = f"is not JSON ({error})"
            raise self.unusable(Kind.UNREADABLE, place, problem, "write it as JSON") from error

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
        """Return the exception for a fault of the file ``name`` at ``keys``."""
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


def _sort(path: Path) -> Sort:
    try:
        mode = path.lstat().st_mode
    except (OSError, ValueError):
        return Sort.NOTHING
    if stat.S_ISREG(mode):
        return Sort.FILE
    return Sort.FOLDER if stat.S_ISDIR(mode) else Sort.OTHER


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:
        return 0
