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
from operator import add
from pathlib import Path

from rapidfuzz.distance import Indel, MatchingBlock

from swe_retry.core.atomic import write_bytes_atomic

# A comment that names the encoding of its file (PEP 263).
_COOKIE = re.compile(r"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)", re.ASCII)
_LINE_END = re.compile(r"\r\n?|\n")
_MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
_NO_CHARSETS = frozenset({"idna", "punycode", "undefined"})
# Larger files are not sources, and several copies would not fit into memory.
_MAX_BYTES = 512 * 1024 * 1024
# Pairs of lines; the comparison of two files of 30,000 lines takes a second.
_MAX_COMPARED = 10**9
MACHINE_ERRORS = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EMFILE, errno.ENFILE}
)
"""Error numbers that do not depend on the path."""


class UnsafePathError(ValueError):
    """A model named a path that lies outside the checkout, in ``.git`` or behind a link."""


class ForeignPathError(UnsafePathError):
    """A model named a path that is not among those that may be written."""


@dataclass(frozen=True)
class TextFile:
    """A file as text with ``\\n`` line ends, and what it takes to write it back.

    Attributes:
        raw: the text with the line ends of the file.
        encoding: the codec of the bytes behind ``mark``, a byte-order mark.
        guessed: nothing tells the encoding, so only ASCII and the characters of the file are sure.
    """

    raw: str
    encoding: str = "utf-8"
    mark: bytes = b""
    guessed: bool = False

    @property
    def text(self) -> str:
        return _LINE_END.sub("\n", self.raw)

    @classmethod
    def decode(cls, data: bytes) -> TextFile:
        """Read ``data`` by its mark, as its coding cookie says (PEP 263), as UTF-8, or by guess."""
        for mark, name in _MARKS.items():
            content = data.removeprefix(mark)
            if content != data and _decodes(name, content):
                return cls(content.decode(name), name, mark)
        for name in [*_cookies(data.decode("latin-1")), "utf-8"]:
            if _decodes(name, data):
                return cls(data.decode(name), name)
        name = "cp1252" if _decodes("cp1252", data) else "latin-1"
        return cls(data.decode(name), name, guessed=True)

    def encode(self, text: str) -> bytes:
        """Return ``text`` as bytes in this file's encoding and line ends.

        Another coding cookie gives another encoding, and UTF-8 where it is gone. A line keeps its
        end, or that of the line that it replaces; an added one has that of the line before it.

        Raises:
            UnicodeEncodeError: the encoding lacks some of ``text``, or is not known to have it.
        """
        text = text.replace("\r\n", "\n")
        encoding = self.encoding
        cookies = _cookies(text)
        if not self.mark and cookies != _cookies(self.text):
            names = [*cookies, "utf-8"]
            encoding = next(name for name in names if _decodes(name, b""))
        elif self.guessed:
            # It is not known which other characters the encoding has.
            text.translate(dict.fromkeys(map(ord, set(self.raw)))).encode("ascii")
        return self.mark + self._with_line_ends(text).encode(encoding)

    def _with_line_ends(self, text: str) -> str:
        ends = _LINE_END.findall(self.raw)
        if len(set(ends)) < 2:
            return text.replace("\n", "".join(ends[:1]) or "\n")
        old = self.text.split("\n")
        new = text.split("\n")
        matches = [MatchingBlock(len(old), len(new), 0)]
        if len(old) * len(new) <= _MAX_COMPARED:
            matches = Indel.opcodes(old, new).as_matching_blocks()
        # The first of the new ends stands for a line before the first.
        new_ends = ends[:1]
        start = 0
        for match in matches:
            count = match.b + 1 - len(new_ends)
            replaced = ends[start : match.a][:count]
            new_ends += replaced
            new_ends += new_ends[-1:] * (count - len(replaced))
            start = match.a + match.size
            new_ends += ends[match.a : start]
        lines = map(add, new[:-1], new_ends[1:])
        return "".join([*lines, new[-1]])


def _decodes(name: str, data: bytes) -> bool:
    """Return whether the codec ``name`` reads ``data`` and writes the same bytes."""
    try:
        # Some of Python's codecs take forever, and are not encodings of sources.
        if codecs.lookup(name).name in _NO_CHARSETS:
            return False
        return data.decode(name).encode(name) == data
    except (LookupError, UnicodeError, ValueError, TypeError, AttributeError):
        return False


def _cookies(text: str) -> list[str]:
    """Return the encodings that the first two lines name."""
    cookies = []
    for line in text.split("\n", 2)[:2]:
        match = _COOKIE.match(line)
        if match:
            cookies.append(match[1])
    return cookies


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
            file = self._resolve(path)
            if file.is_file():
                return TextFile.decode(file.read_bytes()).text
        except (UnsafePathError, OSError):
            pass
        return None

    def original(self, path: str) -> str | None:
        if path not in self.originals:
            return self.read(path)
        data = self.originals[path]
        if data is None:
            return None
        return TextFile.decode(data).text

    def edited_files(self) -> set[str]:
        """Return the files that differ from their content before the first edit."""
        edited = set()
        for path in self.originals:
            if self.read(path) != self.original(path):
                edited.add(path)
        return edited

    def write(
        self, contents: Mapping[str, str | None], moved: Mapping[str, str] | None = None
    ) -> None:
        """Write all of ``contents``; nothing is written when one of the paths is unsafe.

        A text of None removes the file. ``moved`` is new path to old path: the encoding, line ends
        and mode come along.
        """
        old_paths = moved or {}
        files = {path: self.check(path) for path in contents}
        models = {path: self._resolve(old_paths.get(path, path)) for path in contents}
        # Moved files are read from their old paths, so deletions come last.
        for path, text in sorted(contents.items(), key=lambda item: item[1] is None):
            file = files[path]
            try:
                if text is not None:
                    self._write(path, file, text, models[path])
                elif file.exists():
                    self.originals.setdefault(path, file.read_bytes())
                    file.unlink()
            except OSError as error:
                if error.errno in MACHINE_ERRORS:
                    raise
                raise UnsafePathError(
                    f"{path} cannot be written: {error.strerror}"
                ) from error

    def check(self, path: str) -> Path:
        """Return where ``path`` lies; raise UnsafePathError when it must not be written."""
        if self.writable is not None and path not in self.writable:
            names = ", ".join(sorted(self.writable))
            raise ForeignPathError(f"{path[:80]!a} may not be edited, only: {names}")
        file = self._resolve(path)
        twin = twin_of(self.root, path)
        if twin:
            raise UnsafePathError(
                f"{path}: {twin} is there already, and many file systems take both for one. "
                "Write the name as it is there"
            )
        return file

    def _write(self, path: str, file: Path, text: str, model: Path) -> None:
        if path not in self.originals:
            self.originals[path] = file.read_bytes() if file.exists() else None
        before = TextFile("")
        mode = 0o644
        if model.exists():
            before = TextFile.decode(model.read_bytes())
            mode = stat.S_IMODE(model.stat().st_mode)
        try:
            data = before.encode(text)
        except UnicodeEncodeError as error:
            lost = error.object[error.start]
            raise UnsafePathError(
                f"{path} cannot be written: its encoding lacks {lost!r}, or is not known to have "
                "it. Write ASCII, or an escape, instead"
            ) from error
        write_bytes_atomic(file, data, durable=False)
        file.chmod(mode)

    def _resolve(self, path: str) -> Path:
        reason = _reason_to_refuse(path)
        if reason:
            raise UnsafePathError(f"{path[:80]!a}: {reason}")
        for submodule in self.submodules:
            if f"{path}/".startswith(f"{submodule}/"):
                raise UnsafePathError(
                    f"{path}: {submodule} is a submodule, another repository"
                )
        try:
            file = self.root
            for part in path.split("/"):
                file = file / part
                if file.is_symlink():
                    raise UnsafePathError(f"{path}: {part} is a symbolic link")
                is_last = file == self.root / path
                if not is_last and file.exists() and not file.is_dir():
                    raise UnsafePathError(f"{path}: {part} is a file, not a folder")
            if file.exists() and not file.is_file():
                raise UnsafePathError(f"{path}: not a regular file")
            if file.exists() and file.stat().st_size > _MAX_BYTES:
                raise UnsafePathError(f"{path}: the file is too large")
        except OSError as error:
            raise UnsafePathError(f"{path}: {error.strerror}") from error
        return file


# Room for the prefix and suffix of the temporary file.
_MAX_NAME = 255 - 16
_MAX_PATH = 1024


def _reason_to_refuse(path: str) -> str:
    """Return why ``path`` cannot be a file of a checkout; empty when it can."""
    parts = path.split("/")
    rooted = path.startswith(("/", "~")) or ":" in parts[0]
    if not path or rooted or "\\" in path:
        return "only paths relative to the repository's root"
    if not path.isprintable():
        return "control characters in a file name"
    for part in parts:
        if part in ("", ".", "..") or is_dot_git(part):
            return "`..`, `.` and `.git` are not allowed in a path"
    for part in parts:
        if part.endswith((".", " ")):
            return "a name ends in a dot or a space"
    lengths = [len(part.encode("utf-8", "surrogatepass")) for part in parts]
    if max(lengths) > _MAX_NAME or sum(lengths) > _MAX_PATH:
        return "the name is too long"
    return ""


def is_dot_git(name: str) -> bool:
    """Return whether some file system reads ``name`` as ``.git``.

    The checks are those of git (``is_ntfs_dotgit`` in path.c): any case, dots and spaces at the
    end, the short name of NTFS and its streams. HFS+ ignores invisible characters, which are
    refused in any name.
    """
    plain = name.split(":", 1)[0].rstrip(". ")
    return plain.casefold() in (".git", "git~1")


def twin_of(root: Path, path: str) -> str | None:
    """Return the existing path that differs from ``path`` in case or composition alone, if any."""
    folder = root
    for part in path.split("/"):
        if not os.path.lexists(folder / part):
            try:
                names = sorted(entry.name for entry in folder.iterdir())
            except OSError:
                return None
            for name in names:
                if _fold_name(name) == _fold_name(part):
                    return (folder / name).relative_to(root).as_posix()
            return None
        folder = folder / part
    return None


def _fold_name(name: str) -> str:
    decomposed = unicodedata.normalize("NFD", name)
    return unicodedata.normalize("NFC", decomposed.casefold())
