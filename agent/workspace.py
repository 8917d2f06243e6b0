"""Read and write the files of one checkout for an untrusted model."""

from __future__ import annotations

import codecs
import errno
import os
import re
import stat
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from core.atomic import write_bytes_atomic

_COOKIE = re.compile(rb"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
_NO_CHARSETS = frozenset({"idna", "punycode", "undefined"})
# Larger files are not sources, and several copies would not fit into memory.
_LARGEST = 512 * 1024 * 1024
OF_THE_MACHINE = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EMFILE, errno.ENFILE}
)
"""Error numbers that do not depend on the path."""


class UnsafePathError(ValueError):
    """A model named a path that lies outside the checkout, in ``.git`` or behind a link."""


class ForeignPathError(UnsafePathError):
    """A model named a path that is not among those that may be written."""


@dataclass(frozen=True)
class TextFile:
    """A file as text with ``\\n`` line ends, with the encoding and line ends for writing it back.

    Only ``\\r\\n`` becomes ``\\n``, and only when every line ends so. With ``declared`` the file
    names its encoding itself (PEP 263).
    """

    text: str
    encoding: str = "utf-8"
    newline: str = "\n"
    declared: bool = False

    @classmethod
    def decode(cls, data: bytes) -> TextFile:
        """Read ``data`` as UTF-8, as its coding cookie says (PEP 263), or as latin-1."""
        encoding = _encoding(data)
        text = data.decode(encoding)
        lines, declared = text.count("\n"), encoding in _cookies(data)
        if lines and text.count("\r\n") == lines:
            return cls(text.replace("\r\n", "\n"), encoding, "\r\n", declared)
        return cls(text, encoding, declared=declared)

    def encode(self, text: str) -> bytes:
        """Return ``text`` as bytes in this file's encoding and line ends.

        Characters that the encoding lacks turn the file into UTF-8 rather than lose them.

        Raises:
            UnicodeEncodeError: the file declares an encoding that lacks some of ``text``.
        """
        if self.newline == "\r\n":
            text = text.replace("\r\n", "\n").replace("\n", "\r\n")
        try:
            return text.encode(self.encoding)
        except UnicodeEncodeError:
            if self.declared:
                raise
            return text.encode("utf-8", "surrogatepass")


def _encoding(data: bytes) -> str:
    """Return the codec for ``data``; latin-1 where no other fits, as it decodes any bytes."""
    candidates = ["utf-8-sig"] if data.startswith(codecs.BOM_UTF8) else _cookies(data)
    for name in [*candidates, "utf-8"]:
        try:
            # Some of Python's codecs take forever, and are not encodings of sources.
            if (
                codecs.lookup(name).name not in _NO_CHARSETS
                and data.decode(name).encode(name) == data
            ):
                return name
        except (LookupError, UnicodeError, ValueError, TypeError, AttributeError):
            continue
    return "latin-1"


def _cookies(data: bytes) -> list[str]:
    found = (_COOKIE.match(line) for line in data.split(b"\n", 2)[:2])
    return [match.group(1).decode() for match in found if match]


@dataclass
class Workspace:
    """One checkout's files; remembers what they held before the first edit.

    Attributes:
        originals: by path, the bytes before the first write; None for new files.
        submodules: paths of other repositories; their files are in no patch of this one.
        writable: the paths that may be written; None for all.
    """

    root: Path
    originals: dict[str, bytes | None] = field(default_factory=dict)
    submodules: frozenset[str] = frozenset()
    writable: frozenset[str] | None = None

    def read(self, path: str) -> str | None:
        """Return the text of the regular file ``path``, None where it cannot be read."""
        try:
            place = self._place(path)
            return TextFile.decode(place.read_bytes()).text if place.is_file() else None
        except (UnsafePathError, OSError):
            return None

    def original(self, path: str) -> str | None:
        if path not in self.originals:
            return self.read(path)
        data = self.originals[path]
        return None if data is None else TextFile.decode(data).text

    def edited(self) -> set[str]:
        """Return the files that differ from their content before the first edit."""
        return {
            path for path in self.originals if self.read(path) != self.original(path)
        }

    def write(
        self, contents: Mapping[str, str | None], moved: Mapping[str, str] | None = None
    ) -> None:
        """Write all of ``contents``; nothing is written when one of the paths is unsafe.

        A text of None removes the file. ``moved`` is new path to old path: the encoding, line ends
        and mode come along.
        """
        places = {path: self.check(path) for path in contents}
        models = {path: self._place((moved or {}).get(path, path)) for path in contents}
        # Moved files are read from their old paths, so deletions come last.
        for path, text in sorted(contents.items(), key=lambda item: item[1] is None):
            try:
                if text is None:
                    place = places[path]
                    if place.exists():
                        self.originals.setdefault(path, place.read_bytes())
                        place.unlink()
                else:
                    self._write(path, places[path], text, models[path])
            except OSError as error:
                if error.errno in OF_THE_MACHINE:
                    raise
                raise UnsafePathError(
                    f"{path} cannot be written: {error.strerror}"
                ) from error

    def check(self, path: str) -> Path:
        """Return where ``path`` lies; raise UnsafePathError when it must not be written."""
        if self.writable is not None and path not in self.writable:
            named = ", ".join(sorted(self.writable))
            raise ForeignPathError(f"{path[:80]!a} may not be edited, only: {named}")
        place = self._place(path)
        if twin := twin_of(self.root, path):
            raise UnsafePathError(
                f"{path}: {twin} is there already, and many file systems take both for one. "
                "Write the name as it is there"
            )
        return place

    def _write(self, path: str, place: Path, text: str, model: Path) -> None:
        self.originals.setdefault(path, place.read_bytes() if place.exists() else None)
        before = model.read_bytes() if model.exists() else None
        try:
            data = (TextFile("") if before is None else TextFile.decode(before)).encode(
                text
            )
        except UnicodeEncodeError as error:
            lost = text[error.start : error.start + 1]
            raise UnsafePathError(
                f"{path} declares the encoding {error.encoding}, which lacks {lost!r}"
            ) from error
        mode = stat.S_IMODE(model.stat().st_mode) if before is not None else 0o644
        write_bytes_atomic(place, data, durable=False)
        place.chmod(mode)

    def _place(self, path: str) -> Path:
        if problem := problem_of(path):
            raise UnsafePathError(problem)
        for submodule in self.submodules:
            if f"{path}/".startswith(f"{submodule}/"):
                raise UnsafePathError(
                    f"{path}: {submodule} is a submodule, another repository"
                )
        try:
            place = self.root
            for part in path.split("/"):
                place = place / part
                if place.is_symlink():
                    raise UnsafePathError(f"{path}: {part} is a symbolic link")
                if place != self.root / path and place.exists() and not place.is_dir():
                    raise UnsafePathError(f"{path}: {part} is a file, not a folder")
            if place.exists() and not place.is_file():
                raise UnsafePathError(f"{path}: not a regular file")
            if place.exists() and place.stat().st_size > _LARGEST:
                raise UnsafePathError(f"{path}: the file is too large")
        except OSError as error:
            raise UnsafePathError(f"{path}: {error.strerror}") from error
        return place


# Room for the prefix and suffix of the temporary file.
_LONGEST_NAME = 255 - 16
_LONGEST_PATH = 1024


def problem_of(path: str) -> str:
    """Return why ``path`` cannot be a file of a checkout; empty when it can."""
    parts = path.split("/")
    shown = f"{path[:80]!a}"
    lengths = [len(part.encode("utf-8", "surrogatepass")) for part in parts]
    rooted = path.startswith(("/", "~")) or ":" in parts[0]
    refused = (
        (
            not path or rooted or "\\" in path,
            "only paths relative to the repository's root",
        ),
        (not path.isprintable(), "control characters in a file name"),
        (
            any(part in ("", ".", "..") or is_dot_git(part) for part in parts),
            "`..`, `.` and `.git` are not allowed in a path",
        ),
        (
            any(part.endswith((".", " ")) for part in parts),
            "a name ends in a dot or a space",
        ),
        (
            max(lengths) > _LONGEST_NAME or sum(lengths) > _LONGEST_PATH,
            "the name is too long",
        ),
    )
    return next((f"{shown}: {why}" for holds, why in refused if holds), "")


def is_dot_git(name: str) -> bool:
    """Return whether some file system reads ``name`` as ``.git``.

    The checks are those of git (``is_ntfs_dotgit`` in path.c): any case, dots and spaces at the
    end, the short name of NTFS and its streams. HFS+ ignores invisible characters, which are
    refused in any name.
    """
    plain = name.split(":", 1)[0].rstrip(". ").casefold()
    return plain in (".git", "git~1")


def twin_of(root: Path, path: str) -> str | None:
    """Return the existing path that differs from ``path`` in case or composition alone, if any."""
    place = root
    for part in path.split("/"):
        if not os.path.lexists(place / part):
            try:
                names = sorted(entry.name for entry in place.iterdir())
            except OSError:
                return None
            same = [name for name in names if _folded(name) == _folded(part)]
            return (place / same[0]).relative_to(root).as_posix() if same else None
        place = place / part
    return None


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFD", name).casefold())
