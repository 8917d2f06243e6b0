"""Prepare the tree of an outside agent so that git can compare it with its base commit.

Agents leave core dumps, pipes, unreadable folders and names that git refuses. Files that no patch
can hold are removed and reported. Only an unusable tree ends the attempt.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from swe_retry.agent.workspace import MACHINE_ERRORS
from swe_retry.core.errors import InfrastructureError
from swe_retry.core.git import git, git_result, join_paths, split_paths
from swe_retry.core.plaintext import abbreviate
from swe_retry.core.processes import remove_tree
from swe_retry.core.worktree import differences, stamps
from swe_retry.repositories.checkout import Checkout, make_repository, restore_files

# Bytes of a new file, or of the growth of a tracked one: predictions are JSON texts.
_MAX_FILE_BYTES = 10_000_000
# Of everything that differs from the base commit.
_MAX_BYTES = 100_000_000
_MAX_FILES = 10_000
# Leaves room in PATH_MAX (4096) for the folder of the checkout.
_MAX_PATH = 1024
_MAX_EXCLUDE = 100_000
_EXCLUDE = Path(".git/info/exclude")
_MAX_SHOWN = 80


class UnusableTreeError(Exception):
    """The tree of an agent cannot be compared with its base commit."""


@dataclass(frozen=True)
class DroppedPath:
    """A path that was removed from the tree, and why."""

    path: str
    reason: str

    def __str__(self) -> str:
        return f"{abbreviate(ascii(self.path)[1:-1], _MAX_SHOWN)} ({self.reason})"


def prepare_left_tree(checkout: Checkout) -> tuple[DroppedPath, ...]:
    """Give ``checkout`` a new repository, and drop from its tree what no patch can hold.

    The agent may have committed, moved HEAD, or set filters and hooks, and repositories of its own
    hide their files from ours. ``info/exclude`` is kept: it says which new files to ignore, and
    it cannot hide changes of tracked files. Ignored files are not among the dropped ones; tracked
    ones are restored.
    """
    root = checkout.root
    if root.is_symlink() or not root.is_dir():
        verb = "removed"
        if os.path.lexists(root):
            verb = "put something else in place of"
        raise UnusableTreeError(
            f"the agent {verb} its checkout: there is nothing to compare"
        )
    try:
        return tuple(_prepare_tree(checkout))
    except OSError as error:
        if error.errno in MACHINE_ERRORS:
            raise InfrastructureError(
                f"cannot read the tree {root}: {error}"
            ) from error
        raise UnusableTreeError(
            f"the tree that the agent left cannot be read: {error}"
        ) from error


def _prepare_tree(checkout: Checkout) -> Iterator[DroppedPath]:
    root = checkout.root
    _add_permissions(root, stat.S_IRWXU)
    exclude_file = root / _EXCLUDE
    excluded = b""
    with contextlib.suppress(OSError):
        is_plain_file = exclude_file.is_file() and not exclude_file.is_symlink()
        if is_plain_file and exclude_file.stat().st_size <= _MAX_EXCLUDE:
            excluded = exclude_file.read_bytes()
    dropped = list(_remove_unusable(checkout))
    make_repository(checkout.snapshot, root)
    exclude_file.write_bytes(excluded)
    git("read-tree", "--reset", "HEAD", cwd=root)
    paths = [file.path for file in dropped]
    tracked = checkout.snapshot.entries
    restore_files(root, [path for path in paths if path in tracked])
    _check_size(checkout)
    names = join_paths(paths)
    result = git_result("check-ignore", "-z", "--stdin", cwd=root, stdin=names)
    ignored = set(split_paths(result.stdout))
    for file in dropped:
        if file.path not in ignored:
            yield file
    yield from _remove_refused(checkout)


def _remove_unusable(checkout: Checkout) -> Iterator[DroppedPath]:
    root = checkout.root
    folders = [""]
    while folders:
        folder = folders.pop()
        _add_permissions(root / folder, stat.S_IRWXU)
        with os.scandir(root / folder) as scan:
            entries = list(scan)
        for entry in entries:
            path = folder + entry.name
            file = Path(entry.path)
            if entry.name.lower() == ".git":  # no commit can hold such a name
                remove_tree(file)
                continue
            reason = _exclusion_reason(checkout, path, entry)
            if reason:
                remove_tree(file)
                yield DroppedPath(path, reason)
            elif entry.is_dir(follow_symlinks=False):
                folders.append(f"{path}/")
            elif entry.is_file(follow_symlinks=False):
                _add_permissions(file, stat.S_IRUSR)


def _exclusion_reason(checkout: Checkout, path: str, entry: os.DirEntry[str]) -> str:
    tracked = checkout.snapshot.entries.get(path)
    if len(os.fsencode(path)) > _MAX_PATH and tracked is None:
        return f"its path is longer than {_MAX_PATH} bytes"
    if entry.is_symlink() or entry.is_dir(follow_symlinks=False):
        return ""
    status = entry.stat(follow_symlinks=False)
    if not stat.S_ISREG(status.st_mode):
        return "it is a pipe, a socket or a device"
    limit = _MAX_FILE_BYTES
    verb = "was made"
    if tracked is not None:
        limit += tracked.size
        verb = "grew"
    if status.st_size <= limit:
        return ""
    return f"it {verb} to {_megabytes(status.st_size)}"


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.0f} MB"


def _add_permissions(path: Path, bits: int) -> None:
    mode = path.lstat().st_mode
    if mode & bits != bits:
        path.chmod(stat.S_IMODE(mode) | bits)


def _check_size(checkout: Checkout) -> None:
    root = checkout.root
    touched, _ = differences(checkout.fresh, stamps(root))
    names = touched + _list_paths(root, "ls-files", *_NEW_FILES)
    paths = [root / name for name in names]
    size = 0
    for path in paths:
        if os.path.lexists(path):
            size += path.lstat().st_size
    if len(paths) > _MAX_FILES or size > _MAX_BYTES:
        raise UnusableTreeError(
            f"the agent left {len(paths):,} new or changed files with {_megabytes(size)}; a patch "
            f"may hold {_MAX_FILES:,} files with {_megabytes(_MAX_BYTES)}"
        )


_NEW_FILES = ("--others", "--exclude-standard")


def _remove_refused(checkout: Checkout) -> Iterator[DroppedPath]:
    root = checkout.root
    result = git_result("add", "--all", "--ignore-errors", ".", cwd=root)
    if result.returncode == 0:
        return
    for path in _list_paths(root, "ls-files", *_NEW_FILES):
        remove_tree(root / path)
        yield DroppedPath(path, "git refuses its name")
    changed = _list_paths(root, "diff-files", "--name-only")
    restore_files(root, changed)
    for path in changed:
        yield DroppedPath(path, "git cannot read it")


def _list_paths(root: Path, *command: str) -> list[str]:
    return split_paths(git(*command, "-z", cwd=root))
