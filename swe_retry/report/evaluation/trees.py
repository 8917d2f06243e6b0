"""Apply patches to checkouts as swebench applies them to the trees that hidden tests run on."""

from __future__ import annotations

import os
import shlex
import shutil
from pathlib import Path

from swe_retry.core.git import git, git_environment, git_result, split_paths
from swe_retry.core.processes import run_limited
from swe_retry.core.worktree import Changes, Executable
from swe_retry.environments.base import UnavailableError
from swe_retry.environments.local.bubblewrap import bubblewrap_works
from swe_retry.repositories.checkout import Checkout

_SECONDS = 600.0


class PatchError(Exception):
    """A patch does not apply."""


def apply_patch(checkout: Checkout, patch: str, tries: int | None = None) -> Changes:
    """Apply ``patch`` with the first ``tries`` commands of swebench, by default with any of them.

    Returns:
        The files that differ from the base commit.
    """
    from swebench.harness.run_evaluation import GIT_APPLY_CMDS

    root = checkout.root
    file = root.with_name(f"{root.name}.diff")
    file.write_bytes(patch.encode("utf-8", "surrogateescape"))
    errors: list[str] = []
    for command in GIT_APPLY_CMDS[:tries]:
        if errors:
            # As swebench does: a command that fails may leave a part.
            git_result("checkout", "--", ".", cwd=root)
            git_result("clean", "-fd", cwd=root)
        error = _run(command, file, root)
        if not error:
            break
        errors.append(error)
    else:
        # All of them can fail on a tree that has the patch.
        if git_result("apply", "--check", "--reverse", file, cwd=root).returncode:
            raise PatchError(errors[0])
    return changed_files(root)


def _run(command: str, file: Path, root: Path) -> str:
    """Return why a command does not apply the patch in ``file``; empty if it does."""
    argv = [*shlex.split(command), str(file)]
    program = argv[0]
    if not shutil.which(program):
        raise UnavailableError(
            f"swebench applies such patches with {program}: install it"
        )
    is_git = program == "git"
    if not is_git and bubblewrap_works():
        argv = [*_shut_in(root, file), *argv]
    result = run_limited(argv, root, git_environment(), _SECONDS)
    if result.exit_code:
        lines = result.output.strip().splitlines() or ["no reason given"]
        # The others quote what was searched for.
        errors = [line for line in lines if line.startswith("error: ")]
        return (errors or lines)[-1]
    if not is_git and any(path.parent != root for path in root.rglob(".git")):
        return "it writes into a repository's own folder"
    return ""


def _shut_in(root: Path, file: Path) -> list[str]:
    """Return the start of a command that may write to ``root`` alone, and not to its ``.git``.

    Unlike git, ``patch`` writes there what a patch says, also commands that git would run.
    """
    argv = ["bwrap", "--unshare-all", "--die-with-parent", "--ro-bind", "/", "/"]
    argv += ["--dev", "/dev", "--tmpfs", "/tmp", "--bind", str(root), str(root)]
    for path in (root / ".git", file):
        argv += ["--ro-bind", str(path), str(path)]
    return [*argv, "--chdir", str(root)]


def changed_files(root: Path) -> Changes:
    """Return the files of a work tree that differ from its commit.

    A link counts as the file of the tree that it leads to.
    """
    git("add", "--all", "--force", ".", cwd=root)
    options = ("--cached", "--name-only", "--no-renames", "-z", "HEAD")
    changes: dict[str, bytes | None] = {}
    top = Path(os.path.realpath(root))
    for path in split_paths(git("diff", *options, cwd=root)):
        file = Path(os.path.realpath(root / path))
        changes[path] = None
        if file.is_relative_to(top) and file.is_file():
            data = file.read_bytes()
            changes[path] = Executable(data) if os.access(file, os.X_OK) else data
    return changes
