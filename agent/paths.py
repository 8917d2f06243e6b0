"""Check the file names that a model gives: every system must read them as the same file."""

from __future__ import annotations

import os
import unicodedata
from pathlib import Path

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
        (not path or rooted or "\\" in path, "only paths relative to the repository's root"),
        (not path.isprintable(), "control characters in a file name"),
        (
            any(part in ("", ".", "..") or is_dot_git(part) for part in parts),
            "`..`, `.` and `.git` are not allowed in a path",
        ),
        (any(part.endswith((".", " ")) for part in parts), "a name ends in a dot or a space"),
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
            same = [name for name in _names_in(place) if _folded(name) == _folded(part)]
            return (place / same[0]).relative_to(root).as_posix() if same else None
        place = place / part
    return None


def _names_in(folder: Path) -> list[str]:
    try:
        return sorted(entry.name for entry in folder.iterdir())
    except OSError:
        return []


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFD", name).casefold())
