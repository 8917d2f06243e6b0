"""The user's own repository: its base commit for a run, and what a run gives back to it.

It is only read until the user asks for a result. The user's git configuration counts here, other
than in checkouts: what is ignored, line endings, who commits, how to log in.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from filelock import FileLock
from git import Commit, GitCommandError, Repo
from git.exc import GitError, InvalidGitRepositoryError, NoSuchPathError

from bench.own.discovery import CONFIG_FILE
from bench.repos.checkout import BASE_AUTHOR
from core.address import without_logins
from core.atomic import write_text_atomic
from core.errors import InfrastructureError, UserError
from core.git import git, git_result
from core.plaintext import one_line, some

_ADDRESS = re.compile(r"[\w+.-]+://|[\w.-]+@[\w.-]+:")
_NAME = re.compile(r"([^/:]+)[/:]([^/:]+?)(?:\.git)?/*$")
_SHOWN = 5


@dataclass(frozen=True)
class OwnRepository:
    """A repository and the commit that a run starts from.

    Attributes:
        name: ``owner/name``, by its remote ``origin``; ``local/FOLDER`` without one.
        head: the commit that a branch starts from.
        commit: the base commit: ``head``, or with changes that are included one that only
            ``mirror`` has.
        mirror: a bare repository with all objects of ``commit``.
        url: where it was cloned from; empty for a repository of this machine.
    """

    repo: Repo
    name: str
    head: str
    commit: str
    mirror: Path
    url: str = ""

    @property
    def mirrors(self) -> Path:
        """The folder with ``mirror``, as ``--repos`` takes it."""
        return self.mirror.parent

    @property
    def tree(self) -> Path | None:
        """The user's work tree; None where there is none."""
        folder = None if self.url else self.repo.working_tree_dir
        return Path(folder) if folder else None

    @property
    def remote(self) -> str:
        """What a branch is pushed to; empty without one."""
        return self.url or ("origin" if "origin" in self.repo.remotes else "")

    @property
    def version(self) -> str:
        """The number of the last tag, for builds that ask git for it; empty without one."""
        found = git_result(
            "describe", "--tags", "--abbrev=0", self.head, cwd=Path(self.repo.common_dir)
        )
        number = re.search(r"\d+(?:\.\d+)+", found.stdout.decode("utf-8", "replace"))
        return number.group() if number else ""

    @cached_property
    def files(self) -> Collection[str]:
        """The paths of the base commit's files."""
        listed = git("ls-tree", "-r", "--name-only", "-z", self.commit, cwd=self.mirror)
        return frozenset(listed.decode("utf-8", "surrogateescape").split("\0")) - {""}

    def read(self, path: str) -> str | None:
        """Return the text of a file of the base commit; None where it is not there."""
        if path not in self.files:
            return None
        blob = git_result("cat-file", "blob", f"{self.commit}:{path}", cwd=self.mirror)
        return blob.stdout.decode("utf-8", "replace")

    def apply(self, patch: str) -> None:
        """Apply a patch to the work tree; a UserError where that changed in the same places."""
        with _file(patch) as file:
            try:
                self.repo.git.apply("--whitespace=nowarn", file)  # all of it, or nothing
            except GitCommandError as error:
                raise UserError(
                    f"--apply: the work tree is not as the patch needs it ({_said(error)}); "
                    "nothing is changed: use --branch or --patch"
                ) from None

    def commit_to(self, branch: str, patch: str, message: str) -> str:
        """Make a new branch with one commit and return its hash; HEAD and work tree stay.

        Raises:
            UserError: there is such a branch, or the patch needs uncommitted changes.
        """
        self.check_branch(branch)
        with _file(patch) as file, _index_of_its_own(self.repo):
            try:
                self.repo.git.read_tree(self.head)
                self.repo.git.apply("--cached", "--whitespace=nowarn", file)
                tree = self.repo.tree(self.repo.git.write_tree())
            except GitCommandError as error:
                raise UserError(
                    f"--branch {branch}: the patch needs uncommitted changes ({_said(error)}); "
                    "commit them first, or use --apply"
                ) from None
        parent = self.repo.commit(self.head)
        made = Commit.create_from_tree(self.repo, tree, message, [parent])
        self.repo.git.update_ref(f"refs/heads/{branch}", made.hexsha, "0" * 40)
        return made.hexsha

    def check_branch(self, branch: str) -> None:
        """Raise a UserError where ``branch`` cannot be a new branch."""
        if git_result("check-ref-format", "--branch", branch, cwd=self.mirror).returncode:
            raise UserError(f"--branch {branch!r} is not a name for a branch; choose another")
        for head in self.repo.heads:
            if f"{branch}/".startswith(f"{head.name}/") or head.name.startswith(f"{branch}/"):
                raise UserError(f"--branch {branch}: there is {head.name}; choose another name")


def open_repository(
    given: str, base: str, cache: Path, *, include_changes: bool = False
) -> OwnRepository:
    """Return the repository at a path or an address, with what a run needs of it.

    Args:
        base: any name of a commit; empty for HEAD.
        cache: mirrors lie below it.
        include_changes: uncommitted changes are part of the base; else they are refused.

    Raises:
        UserError: naming what is wrong and the fix.
        InfrastructureError: it cannot be cloned.
    """
    # As hooks set them, they would make git act on another repository.
    for name in ("DIR", "WORK_TREE", "INDEX_FILE", "COMMON_DIR", "NAMESPACE", "OBJECT_DIRECTORY"):
        os.environ.pop(f"GIT_{name}", None)
    os.environ["GIT_OPTIONAL_LOCKS"] = "0"  # `git status` would write the user's index
    place = Path(os.path.expanduser(given))  # noqa: PTH111 - pathlib raises for unknown users
    try:
        if _ADDRESS.match(given) and not place.exists():
            if include_changes:
                raise UserError("--include-changes is for a repository of this machine")
            return _cloned(given, base, cache)
        return _local(Repo(place, search_parent_directories=True), base, cache, include_changes)
    except (InvalidGitRepositoryError, NoSuchPathError):
        there = "is not in a git repository" if place.exists() else "does not exist"
        raise UserError(f"--repo {given}: it {there}; give a path or an address") from None
    except GitError as error:
        raise UserError(f"--repo {without_logins(given)}: {_said(error)}") from None


def _local(repo: Repo, base: str, cache: Path, include_changes: bool) -> OwnRepository:
    repo.git.rev_parse("--git-dir")  # git refuses repositories of other users
    head, common = _commit(repo, base or "HEAD"), Path(repo.common_dir).resolve()
    if "\n" in str(common):
        raise UserError("--repo: its path has a line break; rename the folder")
    origin = repo.remotes["origin"].url if "origin" in repo.remotes else ""
    folder = common.parent if common.name == ".git" else common
    mirror, name = _mirror(cache, str(common), origin, folder.name)
    modules = (*common.glob("modules/**/objects"), *common.glob("worktrees/*/modules/**/objects"))
    objects = [common / "objects", *sorted(modules)]
    write_text_atomic(mirror / "objects/info/alternates", "".join(f"{one}\n" for one in objects))
    commit = head
    if not repo.bare and head == _commit(repo, "HEAD"):
        commit = _with_changes(repo, head, mirror, include_changes)
    elif include_changes:
        raise UserError("--include-changes: they belong to HEAD, which --base does not name")
    return OwnRepository(repo, name, head, commit, mirror)


def _with_changes(repo: Repo, head: str, mirror: Path, include: bool) -> str:
    """Return ``head``, or where changes are included a commit in ``mirror`` that holds them."""
    listed = repo.git.status("--porcelain", "-z", "--untracked-files=all", "--no-renames")
    changed = [entry[3:] for entry in listed.split("\0") if entry and entry[3:] != CONFIG_FILE]
    if not changed:
        return head
    if not include:
        names = one_line(some(changed, _SHOWN))
        raise UserError(
            f"--repo: there are uncommitted changes ({names}); commit or stash them, or give "
            "--include-changes"
        )
    objects = {
        "GIT_OBJECT_DIRECTORY": str(mirror / "objects"),
        "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(Path(repo.common_dir).resolve() / "objects"),
    }
    # With a fixed author the same changes are the same base, so that a stopped run continues.
    with _index_of_its_own(repo, **objects, **BASE_AUTHOR):
        # What is staged counts, also where it is ignored.
        shutil.copyfile(Path(repo.git_dir) / "index", repo.git.environment()["GIT_INDEX_FILE"])
        repo.git.add("--all", "--", ":/", f":(exclude,top){CONFIG_FILE}")
        return str(repo.git.commit_tree(repo.git.write_tree(), "-p", head, "-m", "changes"))


def _cloned(given: str, base: str, cache: Path) -> OwnRepository:
    mirror, name = _mirror(cache, given, given, "clone")
    repo = Repo(mirror)
    refs = ("+HEAD:refs/retry/HEAD", "+refs/heads/*:refs/remotes/origin/*")
    try:
        if not (re.fullmatch(r"[0-9a-f]{40}", base) and _has(repo, base)):
            with FileLock(f"{mirror}.lock"):
                repo.git.fetch("--quiet", "--prune", "--tags", "--force", "--", given, *refs)
    except GitCommandError as error:
        words = without_logins(f"cannot clone {given}: {_said(error)}")
        raise InfrastructureError(words) from None
    named = base or "refs/retry/HEAD"
    head = _commit(repo, f"origin/{base}" if _has(repo, f"origin/{base}") else named)
    return OwnRepository(repo, name, head, head, mirror, given)


def _mirror(cache: Path, place: str, origin: str, folder: str) -> tuple[Path, str]:
    """Return a bare repository for what lies at ``place``, and the name of that."""
    found = _NAME.search(origin) if _ADDRESS.match(origin) else None
    owner, name = found.groups() if found else ("local", folder.removesuffix(".git"))
    owner, name = (re.sub(r"[^\w.-]+", "-", one, flags=re.ASCII) for one in (owner, name))
    mirrors = cache / "own" / hashlib.sha256(place.encode()).hexdigest()[:16]
    mirrors.mkdir(parents=True, exist_ok=True)
    mirror = mirrors / f"{owner}__{name}.git"
    git("init", "--quiet", "--bare", "--template=", mirror, cwd=mirrors)
    return mirror, f"{owner}/{name}"


def _has(repo: Repo, name: str) -> bool:
    try:
        return bool(repo.git.rev_parse("-q", "--verify", "--end-of-options", f"{name}^{{commit}}"))
    except GitCommandError:
        return False


def _commit(repo: Repo, name: str) -> str:
    if not _has(repo, name):
        where = "it has no commit yet" if name == "HEAD" else f"it has no commit {name!r}"
        raise UserError(f"--repo: {where}; give another with --base")
    found = str(repo.git.rev_parse("--verify", "--end-of-options", f"{name}^{{commit}}"))
    if len(commit := found.split()[-1]) != 40:
        raise UserError("--repo: repositories with SHA-256 hashes are not supported")
    return commit


def _said(error: Exception) -> str:
    """Return the telling line of what git wrote."""
    text = str(getattr(error, "stderr", None) or error).replace("stderr: '", "").strip("' \n")
    lines = [one_line(line) for line in text.splitlines() if line.strip()]
    told = [line for line in lines if re.search(r"\b(fatal|error):", line)]
    return (told or lines or ["git failed"])[0].removeprefix("error: ")


@contextmanager
def _file(patch: str) -> Iterator[str]:
    with tempfile.NamedTemporaryFile(suffix=".patch") as file:
        file.write(patch.encode("utf-8", "surrogateescape"))
        file.flush()
        yield file.name


@contextmanager
def _index_of_its_own(repo: Repo, **variables: str) -> Iterator[None]:
    with tempfile.TemporaryDirectory() as folder:
        # A split index would leave files in the repository.
        at = int(os.environ.get("GIT_CONFIG_COUNT") or 0)
        split = {f"GIT_CONFIG_KEY_{at}": "core.splitIndex", f"GIT_CONFIG_VALUE_{at}": "false"}
        places = {"GIT_INDEX_FILE": f"{folder}/index", "GIT_CONFIG_COUNT": f"{at + 1}"}
        places |= {**split, **variables}
        with repo.git.custom_environment(**places):
            yield
