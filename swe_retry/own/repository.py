"""The user's own repository: its base commit for a run, and what a run gives back to it.

It is only read until the user asks for a result. The user's git configuration counts here, other
than in checkouts: what is ignored, line endings, who commits, how to log in.
"""

from __future__ import annotations

import getpass
import os
import re
import socket
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

from git import Repo

from swe_retry.core.errors import UserError
from swe_retry.core.git import GitError, git, git_result, split_paths
from swe_retry.own.view import (
    NO_FETCH,
    as_options,
    config_of,
    first_error,
    git_folder,
    origin_of,
    tree_of,
    view_of,
)


@dataclass(frozen=True)
class OwnRepository:
    """A repository and the commit that a run starts from.

    Attributes:
        name: ``owner/name``, by its remote ``origin``; ``local/FOLDER`` without one.
        head: the commit that a branch starts from.
        commit: the base commit: ``head``, or one that only ``mirror`` has, with changes that are
            included and without files named ``.env``.
        mirror: a bare repository with all objects of ``commit``.
        url: where it was cloned from; empty for a repository of this machine.
        changed: ``commit`` has uncommitted changes.
        folder: the project's in the repository, which alone is in ``commit``; empty for all of it.
    """

    repo: Repo
    name: str
    head: str
    commit: str
    mirror: Path
    url: str = ""
    changed: bool = False
    folder: str = ""

    @property
    def project_root(self) -> Path | None:
        """The project's folder in the user's work tree; None where there is none."""
        if self.tree is None:
            return None
        return self.tree / self.folder

    @property
    def mirrors(self) -> Path:
        """The folder with ``mirror``, as ``folders.repos`` takes it."""
        return self.mirror.parent

    @property
    def tree(self) -> Path | None:
        """The user's work tree; None where there is none."""
        if self.url:
            return None
        return tree_of(self.repo)

    @property
    def remote(self) -> str:
        """What a branch is pushed to; empty without one."""
        if self.url or not origin_of(self.repo):
            return self.url
        return "origin"

    @property
    def version(self) -> str:
        """The number of the last tag, for builds that ask git for it; empty without one."""
        command = ("describe", "--tags", "--abbrev=0", self.head)
        folder = Path(self.repo.common_dir)
        described = git_result(*command, cwd=folder, env=NO_FETCH)
        tag = described.stdout.decode("utf-8", "replace")
        number = re.search(r"\d+(?:\.\d+)+", tag)
        if number is None:
            return ""
        return number.group()

    @cached_property
    def files(self) -> Collection[str]:
        """The paths of the base commit's files."""
        listed = git(
            "ls-tree",
            "-r",
            "--name-only",
            "-z",
            self.commit,
            cwd=self.mirror,
        )
        return frozenset(split_paths(listed))

    def read(self, path: str) -> str | None:
        """Return the text of a file of the base commit; None where it is not there."""
        if path not in self.files:
            return None
        blob = git_result("cat-file", "blob", f"{self.commit}:{path}", cwd=self.mirror)
        return blob.stdout.decode("utf-8", "replace")

    @property
    def _apply(self) -> tuple[str, ...]:
        return ("apply", "--whitespace=nowarn", f"--directory={self.folder}")

    def apply(self, patch: str) -> None:
        """Apply a patch to the work tree; a UserError where that changed in the same places."""
        try:
            with view_of(self.repo, self.head) as view:
                # All of it, or nothing.
                view(*self._apply, "-", stdin=_encoded(patch))
        except GitError as error:
            raise UserError(
                f"--apply: the work tree is not as the patch needs it ({first_error(error)}); "
                "nothing is changed: use --branch, or --set project.patch=FILE"
            ) from None

    def commit_to(self, branch: str, patch: str, message: str) -> str:
        """Make a new branch with one commit and return its hash; HEAD and work tree stay.

        Raises:
            UserError: there is such a branch, or the patch needs uncommitted changes.
        """
        self.check_branch(branch)
        try:
            with view_of(self.repo, self.head) as view:
                view("read-tree", self.head)
                view(*self._apply, "--cached", "-", stdin=_encoded(patch))
                tree = view("write-tree").decode().strip()
        except GitError as error:
            raise UserError(
                f"--branch {branch}: the patch needs uncommitted changes ({first_error(error)}); "
                "commit them first, or use --apply"
            ) from None
        config = config_of(self.repo)
        run = partial(
            git,
            cwd=git_folder(self.repo),
            env=_identity(config),
            as_user=True,
        )
        arguments = ("commit-tree", tree, "-p", self.head, "-F", "-")
        commit = run(*arguments, stdin=_encoded(message)).decode().strip()
        # Newer versions of git run hooks of the configuration. Those that are files never run.
        hooks = {}
        for key in config:
            if key.startswith("hook.") and key.endswith(".command"):
                hooks[key] = "true"
        new_branch = ("update-ref", f"refs/heads/{branch}", commit, "0" * 40)
        run(*as_options(hooks), *new_branch)
        return commit

    def check_branch(self, branch: str) -> None:
        """Raise a UserError where ``branch`` cannot be a new branch."""
        check = ("check-ref-format", "--branch", branch)
        if git_result(*check, cwd=self.mirror).returncode:
            raise UserError(
                f"--branch {branch!r} is not a name for a branch; choose another"
            )
        for head in self.repo.heads:
            # A branch is a file, and the first part of its name a folder.
            name = f"{head.name}/"
            new_name = f"{branch}/"
            if new_name.startswith(name) or name.startswith(new_name):
                raise UserError(
                    f"--branch {branch}: there is {head.name}; choose another name"
                )


def _identity(config: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that name the author and the committer, as git would find them."""
    user = getpass.getuser()
    email = os.environ.get("EMAIL") or f"{user}@{socket.gethostname()}"
    variables = {}
    for role in ("AUTHOR", "COMMITTER"):
        for field, default in {"NAME": user, "EMAIL": email}.items():
            variable = f"GIT_{role}_{field}"
            configured = config.get(f"{role}.{field}".lower())
            configured = configured or config.get(f"user.{field}".lower())
            variables[variable] = os.environ.get(variable) or configured or default
    return variables


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
