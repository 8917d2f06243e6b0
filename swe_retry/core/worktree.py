"""List the files of a work tree, and detect changes since an earlier list."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

Changes = Mapping[str, bytes | None]
"""New content by path, None for a file that is gone; everything else is as in the base commit."""


class Executable(bytes):
    """The content of a file that can be executed."""


# Longer than a tick of the file systems' clock (4 ms on most kernels, 10 on some).
_TICK_NS = 20_000_000


class Stamp(NamedTuple):
    """Attributes of a file that change with the file; times in nanoseconds."""

    mode: int
    size: int
    inode: int
    modified: int
    changed: int

    @property
    def is_link(self) -> bool:
        return stat.S_ISLNK(self.mode)

    @property
    def is_file(self) -> bool:
        return stat.S_ISREG(self.mode)


def stamps(root: Path, *, folders: bool = False) -> dict[str, Stamp]:
    """Return the stamps of all files below ``root`` by path, without its own ``.git``.

    With ``folders`` the result includes folders, with a slash at the end of their paths.
    """
    stamps_by_path: dict[str, Stamp] = {}
    waiting = [""]
    while waiting:
        folder = waiting.pop()
        with os.scandir(root / folder) as entries:
            for entry in entries:
                path = folder + entry.name
                if entry.is_dir(follow_symlinks=False):
                    if path == ".git":
                        continue
                    path += "/"
                    waiting.append(path)
                    if not folders:
                        continue
                status = entry.stat(follow_symlinks=False)
                stamps_by_path[path] = Stamp(
                    mode=status.st_mode,
                    size=status.st_size,
                    inode=status.st_ino,
                    modified=status.st_mtime_ns,
                    changed=status.st_ctime_ns,
                )
    return stamps_by_path


def size_of(folder: Path) -> int:
    """Return the bytes that the files below ``folder`` use on disk."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                total += (Path(parent) / name).lstat().st_blocks * 512
            except OSError:
                continue
    return total


def differences(
    before: Mapping[str, Stamp], now: Mapping[str, Stamp]
) -> tuple[list[str], list[str]]:
    """Return the changed or removed paths of ``before``, and the new paths."""
    touched = [path for path, stamp in before.items() if now.get(path) != stamp]
    return touched, [path for path in now if path not in before]


def newest(stamps_by_path: Mapping[str, Stamp]) -> int:
    """Return the time of the last change, in nanoseconds."""
    return max((stamp.changed for stamp in stamps_by_path.values()), default=0)


def let_clock_tick(since: int) -> None:
    """Wait until new writes get a later time than ``since``.

    Otherwise a file could change in the tick in which it was read.
    """
    left = since + _TICK_NS - time.time_ns()
    if 0 < left <= _TICK_NS:
        time.sleep(left / 1e9)
