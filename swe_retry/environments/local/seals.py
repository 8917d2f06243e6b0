"""Record that folders are complete, and see whether anything has changed in them since."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from swe_retry.core.atomic import write_text_atomic
from swe_retry.core.hashing import sha256_of
from swe_retry.core.worktree import stamps


def seal(marker: Path, key: str, folders: Sequence[Path]) -> None:
    """Record in ``marker`` that ``folders`` are complete, with a hash of their state."""
    write_text_atomic(marker, f"{key}\n{_look(folders, marker)}\n")


def is_unchanged(marker: Path, key: str, folders: Sequence[Path]) -> bool:
    """Return whether ``folders`` were sealed for ``key`` and not changed since.

    Test code without a sandbox could write there with the user's rights. Only the kernel sets the
    time of a file's last change, so contents need not be read.
    """
    try:
        return marker.read_text("utf-8") == f"{key}\n{_look(folders, marker)}\n"
    except (OSError, UnicodeDecodeError):
        return False


def _look(folders: Sequence[Path], marker: Path) -> str:
    states = ""
    for folder in folders:
        for path, stamp in sorted(stamps(folder).items()):
            if folder / path != marker:
                states += f"{path}\0{tuple(stamp)}\0"
    return sha256_of(states.encode("utf-8", "surrogateescape"))
