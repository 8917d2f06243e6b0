"""Folders whose subfolders are far apart on the disk (Linux, ext2 to ext4).

For minutes after a file was removed, ext4 does not reuse its inode, and checks all such inodes of
a block group for each new file there (``recently_deleted`` in fs/ext4/ialloc.c). Work trees of
thousands of files are created and removed all the time; in one block group a checkout took ten
times as long as on an idle disk. The subfolders of a "top directory" (``chattr +T``) get their own
block groups.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
from pathlib import Path

# linux/fs.h, of 64-bit systems; the value is an int nevertheless.
_GET_FLAGS, _SET_FLAGS = 0x80086601, 0x40086602
_TOP_DIRECTORY = 0x00020000


def make_spread(folder: Path) -> None:
    """Make ``folder`` and spread its subfolders, if the file system supports it."""
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with contextlib.suppress(OSError):
            (flags,) = struct.unpack("i", fcntl.ioctl(descriptor, _GET_FLAGS, struct.pack("i", 0)))
            fcntl.ioctl(descriptor, _SET_FLAGS, struct.pack("i", flags | _TOP_DIRECTORY))
    finally:
        os.close(descriptor)
