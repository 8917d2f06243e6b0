"""Git in one's own repository, such that nothing of it starts a program.

The tree and the configuration of its repository may be a stranger's, and must start no program.
Commands that could start one (they compare or write files: filters, monitors, submodules) run in a
*view*, a repository of our own with the same commits, index and files. It has the user's
configuration, and of the repository's only settings that name no program. Besides, git is asked
in the repository itself for names of commits and settings, and adds a commit there.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from git import Repo
from git.exc import InvalidGitRepositoryError, NoSuchPathError

from swe_retry.core.errors import UserError
from swe_retry.core.git import GitError, git
from swe_retry.core.plaintext import one_line
from swe_retry.repositories.snapshot import BASE_AUTHOR

# Without a protocol, git cannot fetch what a partial clone lacks: the repository's configuration
# names the programs for that.
NO_FETCH = {"GIT_ALLOW_PROTOCOL": "none"}
# What a view takes over of a repository's settings; none of them names a program.
_SETTINGS = (
    "core.autocrlf",
    "core.checkstat",
    "core.eol",
    "core.excludesfile",
    "core.filemode",
    "core.ignorecase",
    "core.precomposeunicode",
    "core.safecrlf",
    "core.symlinks",
    "core.trustctime",
)

Git = Callable[..., bytes]
"""Runs git with the arguments of a command, and with ``stdin`` where there is some."""


@contextmanager
def view_of(repo: Repo, head: str, objects: Path | None = None) -> Iterator[Git]:
    """Yield git in a view of ``repo`` with ``head`` as its HEAD; see the text of this module.

    New objects are written to ``objects``, without it to those of ``repo``.
    """
    common = Path(repo.common_dir).resolve()
    own_folder = Path(repo.git_dir)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "refs").mkdir()
        (folder / "info").mkdir()
        (folder / "HEAD").write_text(f"{head}\n")
        (folder / "config").write_text("[core]\n\trepositoryformatversion = 0\n")
        targets = {
            common / "info" / "attributes": folder / "info",
            common / "info" / "exclude": folder / "info",
            own_folder / "index": folder,
        }
        # An index that is split has further files.
        for file in own_folder.glob("sharedindex.*"):
            targets[file] = folder
        for file, target in targets.items():
            if file.is_file():
                # With its time, by which git knows what may have changed since.
                shutil.copy2(file, target)
        tree = git_folder(repo)
        env = {
            **NO_FETCH,
            **BASE_AUTHOR,
            "GIT_DIR": name,
            "GIT_WORK_TREE": str(tree),
            "GIT_OBJECT_DIRECTORY": str(objects or common / "objects"),
        }
        settings = {}
        for key, value in config_of(repo).items():
            if key in _SETTINGS:
                settings[key] = value
        yield partial(git, *as_options(settings), cwd=tree, env=env, as_user=True)


def changed_files(view: Git, folder: str = "") -> list[str]:
    """Return the paths in ``folder`` that differ from HEAD."""
    # Git would look into submodules with their own configuration.
    status = view(
        "status",
        "--porcelain",
        "-z",
        "--untracked-files=all",
        "--no-renames",
        "--ignore-submodules=dirty",
        "--",
        f":(top,literal){folder}",
    )
    entries = filter(None, status.split(b"\0"))
    # Each begins with two letters and a space.
    return [os.fsdecode(entry[3:]) for entry in entries]


def changed_in_submodules(repo: Repo, tree: Path) -> Iterator[str]:
    """Yield the changed files in submodules, but of those that git is to ignore."""
    file = tree / ".gitmodules"
    if not file.is_file():
        return
    submodules = config_of(repo, "--file", str(file))
    settings = {**submodules, **config_of(repo)}
    for key, path in submodules.items():
        name, _, last = key.rpartition(".")
        folder = (tree / path).resolve()
        is_ignored = settings.get(f"{name}.ignore", "none") != "none"
        if last != "path" or is_ignored or not folder.is_relative_to(tree):
            continue
        # One that is not checked out has no change.
        with suppress(InvalidGitRepositoryError, NoSuchPathError, UserError):
            submodule = Repo(folder)
            with view_of(submodule, commit_of(submodule, "HEAD")) as view:
                for changed in changed_files(view):
                    yield f"{path}/{changed}"


def tree_of(repo: Repo) -> Path | None:
    """Return the work tree: the folder whose ``.git`` is, or names, this repository.

    Where the repository's own configuration says that it lies does not count.
    """
    if repo.working_tree_dir is None:
        return None
    folder = Path(repo.working_tree_dir).resolve()
    try:
        git_dir = Path(Repo(folder).git_dir).resolve()
    except (InvalidGitRepositoryError, NoSuchPathError):
        return None
    if git_dir == folder or git_dir != Path(repo.git_dir).resolve():
        return None
    return folder


def git_folder(repo: Repo) -> Path:
    """Return where git runs in a repository: its work tree, or itself without one."""
    return tree_of(repo) or Path(repo.git_dir)


def ask(repo: Repo, *arguments: str) -> str:
    """Return what git prints in the repository itself; the command must start no program."""
    output = git(*arguments, cwd=git_folder(repo), env=NO_FETCH, as_user=True)
    return os.fsdecode(output).strip()


def ask_if_possible(repo: Repo, *arguments: str) -> str:
    """Return what git prints in the repository itself; empty where it fails."""
    try:
        return ask(repo, *arguments)
    except GitError:
        return ""


def find_commit(repo: Repo, name: str) -> str:
    """Return the hash of a commit; empty where there is none of this name."""
    options = ("-q", "--verify", "--end-of-options")
    return ask_if_possible(repo, "rev-parse", *options, f"{name}^{{commit}}")


def commit_of(repo: Repo, name: str) -> str:
    """Return the hash of a commit; a UserError where there is none of this name."""
    commit = find_commit(repo, name)
    if not commit:
        if name == "HEAD":
            raise UserError("the repository has no commit yet; commit something first")
        raise UserError(
            f"the repository has no commit {name!r}; give another with --set project.base=NAME"
        )
    if len(commit) != 40:
        raise UserError("repositories with SHA-256 hashes are not supported")
    return commit


def origin_of(repo: Repo) -> str:
    """Return the address of the remote ``origin``; empty without one."""
    return ask_if_possible(repo, "remote", "get-url", "origin")


def config_of(repo: Repo, *source: str) -> dict[str, str]:
    """Return the settings that count in a repository; one without a value is ``true``."""
    values = {}
    for entry in ask(repo, "config", *source, "--list", "-z").split("\0"):
        key, separator, value = entry.partition("\n")
        if not separator:
            value = "true"
        values[key] = value
    return values


def as_options(settings: Mapping[str, str]) -> Iterator[str]:
    """Yield settings as options of git."""
    for key, value in settings.items():
        yield from ("-c", f"{key}={value}")


def first_error(error: GitError) -> str:
    """Return the first line with an error of what git wrote, else its first line."""
    lines = []
    for line in error.output.splitlines():
        if line.strip():
            lines.append(one_line(line))
    for line in lines:
        if re.search(r"\b(fatal|error):", line):
            return line.removeprefix("error: ")
    return next(iter(lines), "git failed")
