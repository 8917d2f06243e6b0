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

from agent.workspace import OF_THE_MACHINE
from bench.repos.checkout import Checkout, make_repository, restore_files
from core.errors import InfrastructureError
from core.git import git, git_result, join_paths, split_paths
from core.plaintext import shortened
from core.processes import remove_tree
from core.worktree import differences, stamps

# Bytes of a new file, or of the growth of a tracked one: predictions are JSON texts.
_LARGEST = 10_000_000
# Of everything that differs from the base commit.
_MOST_BYTES, _MOST_FILES = 100_000_000, 10_000
# Leaves room in PATH_MAX (4096) for the folder of the checkout.
_LONGEST_PATH = 1024
_LONGEST_EXCLUDE = 100_000
_EXCLUDE = Path(".git/info/exclude")
_SHOWN = 80


class UnusableTreeError(Exception):
    """The tree of an agent cannot be compared with its base commit."""


@dataclass(frozen=True)
class Dropped:
    """A path that was removed from the tree, and why."""

    path: str
    why: str

    def __str__(self) -> str:
        return f"{shortened(ascii(self.path)[1:-1], _SHOWN)} ({self.why})"


def take_over(checkout: Checkout) -> tuple[Dropped, ...]:
    """Give ``checkout`` a new repository, and drop from its tree what no patch can hold.

    The agent may have committed, moved HEAD, or set filters and hooks, and repositories of its own
    hide their files from ours. ``info/exclude`` is kept: it says which new files to ignore, and
    it cannot hide changes of tracked files. Ignored files are not among the dropped ones; tracked
    ones are restored.
    """
    root = checkout.root
    if root.is_symlink() or not root.is_dir():
        what = "put something else in place of" if os.path.lexists(root) else "removed"
        raise UnusableTreeError(
            f"the agent {what} its checkout: there is nothing to compare"
        )
    try:
        return tuple(_prepare_tree(checkout))
    except OSError as error:
        if error.errno in OF_THE_MACHINE:
            raise InfrastructureError(
                f"cannot read the tree {root}: {error}"
            ) from error
        raise UnusableTreeError(
            f"the tree that the agent left cannot be read: {error}"
        ) from error


def _prepare_tree(checkout: Checkout) -> Iterator[Dropped]:
    root = checkout.root
    _permit(root, stat.S_IRWXU)
    path = root / _EXCLUDE
    excluded = b""
    with contextlib.suppress(OSError):
        ours = path.is_file() and not path.is_symlink()
        if ours and path.stat().st_size <= _LONGEST_EXCLUDE:
            excluded = path.read_bytes()
    dropped = list(_clear_tree(checkout))
    make_repository(checkout.snapshot, root)
    path.write_bytes(excluded)
    git("read-tree", "--reset", "HEAD", cwd=root)
    tracked = checkout.snapshot.entries
    restore_files(root, [drop.path for drop in dropped if drop.path in tracked])
    _refuse_too_much(checkout)
    names = join_paths(drop.path for drop in dropped)
    result = git_result("check-ignore", "-z", "--stdin", cwd=root, stdin=names)
    ignored = set(split_paths(result.stdout))
    yield from (drop for drop in dropped if drop.path not in ignored)
    yield from _refused_by_git(checkout)


def _clear_tree(checkout: Checkout) -> Iterator[Dropped]:
    root = checkout.root
    waiting = [""]
    while waiting:
        folder = waiting.pop()
        _permit(root / folder, stat.S_IRWXU)
        with os.scandir(root / folder) as scan:
            entries = list(scan)
        for entry in entries:
            path = folder + entry.name
            file = Path(entry.path)
            if entry.name.lower() == ".git":  # no commit can hold such a name
                remove_tree(file)
            elif why := _unfit(checkout, path, entry):
                remove_tree(file)
                yield Dropped(path, why)
            elif entry.is_dir(follow_symlinks=False):
                waiting.append(f"{path}/")
            elif entry.is_file(follow_symlinks=False):
                _permit(file, stat.S_IRUSR)


def _unfit(checkout: Checkout, path: str, entry: os.DirEntry[str]) -> str:
    tracked = checkout.snapshot.entries.get(path)
    if len(os.fsencode(path)) > _LONGEST_PATH and tracked is None:
        return f"its path is longer than {_LONGEST_PATH} bytes"
    if entry.is_symlink() or entry.is_dir(follow_symlinks=False):
        return ""
    status = entry.stat(follow_symlinks=False)
    if not stat.S_ISREG(status.st_mode):
        return "it is a pipe, a socket or a device"
    if status.st_size <= _LARGEST + (tracked.size if tracked else 0):
        return ""
    return f"it {'grew' if tracked else 'was made'} to {_megabytes(status.st_size)}"


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.0f} MB"


def _permit(path: Path, bits: int) -> None:
    mode = path.lstat().st_mode
    if mode & bits != bits:
        path.chmod(stat.S_IMODE(mode) | bits)


def _refuse_too_much(checkout: Checkout) -> None:
    root = checkout.root
    touched, _ = differences(checkout.fresh, stamps(root))
    names = (*touched, *_listed(root, "ls-files", *_OTHERS))
    paths = [root / name for name in names]
    size = sum(path.lstat().st_size for path in paths if os.path.lexists(path))
    if len(paths) > _MOST_FILES or size > _MOST_BYTES:
        raise UnusableTreeError(
            f"the agent left {len(paths):,} new or changed files with {_megabytes(size)}; a patch "
            f"may hold {_MOST_FILES:,} files with {_megabytes(_MOST_BYTES)}"
        )


_OTHERS = ("--others", "--exclude-standard")


def _refused_by_git(checkout: Checkout) -> Iterator[Dropped]:
    root = checkout.root
    if not git_result("add", "--all", "--ignore-errors", ".", cwd=root).returncode:
        return
    for path in _listed(root, "ls-files", *_OTHERS):
        remove_tree(root / path)
        yield Dropped(path, "git refuses its name")
    changed = _listed(root, "diff-files", "--name-only")
    restore_files(root, changed)
    yield from (Dropped(path, "git cannot read it") for path in changed)


def _listed(root: Path, *command: str) -> list[str]:
    return split_paths(git(*command, "-z", cwd=root))
