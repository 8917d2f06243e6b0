"""Write trees to disk, and read files that a command left."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import subprocess
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from swe_retry.agent.workspace import UnsafePathError
from swe_retry.core.errors import InfrastructureError
from swe_retry.core.git import git_result, join_paths, split_paths
from swe_retry.core.processes import remove_tree
from swe_retry.core.worktree import Changes, Executable, stamps


def lay_out(folder: Path, template: Path, changes: Changes) -> None:
    """Fill the empty or missing ``folder`` with a copy of ``template`` with ``changes``.

    Raises:
        InfrastructureError: the disk is full, or a path cannot be written.
    """
    try:
        for path in changes:
            check_path(path)
        folder.mkdir(parents=True, exist_ok=True)
        copy = [
            "cp",
            "-dR",
            "--preserve=mode,timestamps,links",
            f"{template}/.",
            str(folder),
        ]
        result = subprocess.run(copy, capture_output=True, text=True, check=False)
        if result.returncode:
            lines = result.stderr.strip().splitlines() or ["cp failed"]
            raise OSError(lines[0])
        for path, data in changes.items():
            # Paths below a link do not belong to this tree.
            if data is None and _obstacle(folder, path) in ("", path):
                remove_tree(folder / path)
        for path, data in changes.items():
            if data is not None:
                while obstacle := _obstacle(folder, path):
                    remove_tree(folder / obstacle)
                _write(folder / path, data)
    except (OSError, UnsafePathError) as error:
        raise InfrastructureError(f"cannot lay out the tree: {error}") from error


def copy_built_files(template: Path, root: Path) -> None:
    """Copy what an installation built in ``template`` into the fresh checkout ``root``.

    These are files that the checkout lacks and ignores, such as compiled modules and metadata.
    """
    absent = []
    for path, stamp in stamps(template).items():
        if (stamp.is_file or stamp.is_link) and not os.path.lexists(root / path):
            absent.append(path)
    names = join_paths(absent)
    result = git_result("check-ignore", "-z", "--stdin", cwd=root, stdin=names)
    for path in split_paths(result.stdout):
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(template / path, target, follow_symlinks=False)


def check_path(path: str) -> None:
    """Refuse paths that no git tree can hold; links are checked when a file is written."""
    if path.startswith("/") or "\0" in path or {"", ".", ".."} & {*path.split("/")}:
        raise UnsafePathError(f"{path!a} is not a path within a tree")


def write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    for path, data in files.items():
        _write(folder / path, data)


def read_collected(folder: int, path: str, limit: int) -> bytes | None:
    """Return the bytes of a file that a command left below the open ``folder``.

    None if there is no regular file of at most ``limit`` bytes, or a link leads to it. Nothing is
    followed and nothing waits, because the command chose what lies there.
    """
    *above, name = path.split("/")
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    with contextlib.ExitStack() as stack:
        try:
            for part in above:
                folder = os.open(part, flags | os.O_DIRECTORY, dir_fd=folder)
                stack.callback(os.close, folder)
            descriptor = os.open(name, flags, dir_fd=folder)
            stack.callback(os.close, descriptor)
            state = os.fstat(descriptor)
            if not stat.S_ISREG(state.st_mode) or state.st_size > limit:
                return None
            with open(descriptor, "rb", closefd=False) as file:
                return file.read()
        except OSError:
            return None


def _obstacle(tree: Path, path: str) -> str:
    """Return the part of ``path`` that is in the way of its file or folders; empty for none.

    Changes come from a git tree, where a link or folder may have become a file, or vice versa.
    """
    parts = PurePosixPath(path).parts
    for count in range(1, len(parts) + 1):
        location = tree.joinpath(*parts[:count])
        last = count == len(parts)
        if location.is_symlink() or (location.exists() and location.is_dir() is last):
            return "/".join(parts[:count])
    return ""


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    if isinstance(data, Executable):
        path.chmod(0o755)
