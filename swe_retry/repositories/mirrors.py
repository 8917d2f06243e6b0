"""Bare mirrors of the benchmark's repositories, shared by all workers and processes."""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from swe_retry.core.atomic import scratch_folder
from swe_retry.core.errors import InfrastructureError, UserError
from swe_retry.core.git import git, git_environment, git_result
from swe_retry.core.processes import CommandResult, run_limited
from swe_retry.core.shutdown import Check
from swe_retry.repositories.checkout import Checkout
from swe_retry.repositories.names import BUNDLED, Bundled

ENV_NAME = ".env"
"""The name of files that no checkout of one's own repository has."""

NO_OWNER = "local/"
"""Begins the name of a repository of this machine that has no remote."""
GITHUB = "https://github.com/{repo}"


@dataclass(frozen=True)
class Mirrors:
    """A folder of bare mirrors; missing ones are cloned from ``source``.

    Attributes:
        root: with mirrors as ``<owner>+<name>/repo``, ``<owner>__<name>.git`` or ``<name>.git``.
        source: address to clone from, with ``{repo}`` for ``<owner>/<name>``.
        check: ends a download by raising.
        own: has mirrors of the user's repositories in folders, where ``root`` lacks a commit.
    """

    root: Path
    source: str = GITHUB
    check: Check = lambda: None
    own: Path | None = None

    def find(self, repo: str, commit: str = "") -> Path | None:
        """Return the mirror of ``repo`` (``owner/name``); None if there is none.

        One of the user's repositories counts if it holds ``commit``.
        """
        owner, _, name = repo.partition("/")
        first = None
        for path in (f"{owner}+{name}/repo", f"{owner}__{name}.git", f"{name}.git"):
            mirror = self.root / path
            if (mirror / "HEAD").is_file():
                first = mirror
                break
        if commit and self.own and not (first and has_commit(first, commit)):
            for mirror in sorted(self.own.glob(f"*/{owner}__{name}.git")):
                if has_commit(mirror, commit):
                    return mirror
        return first

    def get(self, repo: str, commit: str) -> Path:
        """Return a mirror of ``repo`` that holds ``commit``; clone or fetch it if needed.

        Raises:
            UserError: there is a mirror, but without the commit.
            InfrastructureError: cloning failed (no network, no disk).
        """
        mirror = self.find(repo, commit)
        if mirror is None and repo.startswith(NO_OWNER):
            raise UserError(
                f"the cache has no repository {repo}, and it has no address: mine it again, or "
                "give a folder with its mirror in folders.repos"
            )
        if mirror is None:
            mirror = self._clone(repo)
        if has_commit(mirror, commit):
            return mirror
        # Other mirrors than our clones are only read; not even a lock file is written beside them.
        is_clone = mirror == self._clone_path(repo)
        if is_clone and os.access(self.root, os.W_OK):
            from filelock import FileLock

            with FileLock(f"{mirror}.lock"):
                if not has_commit(mirror, commit):
                    self._download(mirror, "fetch", "--quiet", "origin", commit)
        if not has_commit(mirror, commit):
            raise UserError(
                f"the mirror {mirror} of {repo} lacks the commit {commit}: update it with "
                f"`git -C {mirror} fetch {self.source.format(repo=repo)} {commit}`"
            )
        return mirror

    def past_changes(self, repo: str, commit: str, path: str) -> list[set[str]]:
        """Return the files of each of the last changes to ``path`` up to ``commit``."""
        log = git(
            "--literal-pathspecs",
            "log",
            "--max-count=60",
            # What a first commit has was not changed together.
            "--min-parents=1",
            "--max-parents=1",
            "--no-renames",
            "--full-diff",
            "--name-only",
            "--format=%x00",
            commit,
            "--",
            path,
            cwd=self.get(repo, commit),
        )
        _, *changes = log.decode().split("\0")
        return [set(change.strip().splitlines()) for change in changes]

    def _clone(self, repo: str) -> Path:
        from filelock import FileLock  # it loads asyncio

        target = self._clone_path(repo)
        self.root.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{target}.lock"):
            mirror = self.find(repo)
            if mirror is not None:
                return mirror
            url = self.source.format(repo=repo)
            # Renamed when it is whole, so that a kill leaves no partial mirror.
            with scratch_folder(target) as temporary:
                clone = temporary / "mirror"
                result = self._download(
                    self.root,
                    "clone",
                    "--quiet",
                    "--mirror",
                    url,
                    str(clone),
                )
                if result.exit_code:
                    reason = result.output.strip()[-500:]
                    raise InfrastructureError(f"cannot clone {url}: {reason}")
                clone.replace(target)
            return target

    def _download(self, cwd: Path, *args: str) -> CommandResult:
        argv = ("git", *args)
        environment = git_environment()
        return run_limited(argv, cwd, environment, math.inf, check=self.check)

    def _clone_path(self, repo: str) -> Path:
        return self.root / f"{repo.replace('/', '__')}.git"


def mirrors_of(
    dataset: str,
    cache: Path,
    repos: Path | None,
    bundled: Mapping[str, Bundled] = BUNDLED,
) -> Mirrors:
    """Return the mirrors of a data set: in ``repos`` or the cache; bundled ones have their own."""
    if dataset in bundled:
        folder = cache / f"{dataset}-mirrors"
        return Mirrors(bundled[dataset].build_mirrors(folder))
    return Mirrors(repos or cache / "mirrors", own=cache / "own")


def remove_env_files(run: Callable[..., bytes]) -> None:
    """Remove files named ``.env`` from the index of the git that ``run`` runs."""
    lines = []
    for path in run("ls-files", "-z").split(b"\0"):
        if path.rpartition(b"/")[2] == ENV_NAME.encode():
            # The mode 0 removes a path, also where there is no work tree.
            lines.append(b"0 %s\t%s\0" % (b"0" * 40, path))
    run("update-index", "-z", "--index-info", stdin=b"".join(lines))


def add_submodules(mirror: Path, checkout: Checkout) -> None:
    """Write the files of the submodules whose commits ``mirror`` holds into a checkout for tests.

    Only that of one's own repository holds some. Patches cannot have files of submodules.
    """
    for path in checkout.snapshot.submodules:
        revision = f"{checkout.base_commit}:{path}"
        commit = git("rev-parse", revision, cwd=mirror).decode().strip()
        if has_commit(mirror, commit):
            with tempfile.TemporaryDirectory() as folder:
                index = {"GIT_INDEX_FILE": f"{folder}/index"}
                run = partial(git, cwd=mirror, env=index)
                run("read-tree", commit)
                remove_env_files(run)
                work_tree = f"--work-tree={checkout.root / path}"
                run(work_tree, "checkout-index", "--all", "--force")


def has_commit(mirror: Path, commit: str) -> bool:
    result = git_result("cat-file", "-e", f"{commit}^{{commit}}", cwd=mirror)
    return result.returncode == 0
