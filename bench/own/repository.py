"""The user's own repository: its base commit for a run, and what a run gives back to it.

It is only read until the user asks for a result. The user's git configuration counts here, other
than in checkouts: what is ignored, line endings, who commits, how to log in.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from git import GitCommandError, Repo
from git.exc import GitError as PythonGitError
from git.exc import InvalidGitRepositoryError, NoSuchPathError, UnsafeProtocolError

from core.address import without_logins
from core.atomic import write_text_atomic
from core.errors import InfrastructureError, UserError
from core.git import git, git_result
from core.plaintext import one_line, some

CONFIG_FILE = ".retry-harness.toml"
_URL = re.compile(r"[\w+.-]+://|[\w.-]+@[\w.-]+:")
_NAME = re.compile(r"([^/:]+)[/:]([^/:]+?)(?:\.git)?/*$")
_SHOWN = 5
# Fixed, so that the same changes are the same base and a stopped run continues.
_WHO = {
    f"GIT_{role}_{key}": value
    for role in ("AUTHOR", "COMMITTER")
    for key, value in (
        ("NAME", "changes"),
        ("EMAIL", "changes@localhost"),
        ("DATE", "2000-01-01T00:00:00+00:00"),
    )
}


@dataclass(frozen=True)
class OwnRepository:
    """A repository and the commit that a run starts from.

    Attributes:
        name: ``owner/name``, by its remote ``origin``; ``local/FOLDER`` without one.
        commit: the base commit; with changes that are included, one that only ``mirror`` has.
        head: the commit that a branch starts from: the base commit without such changes.
        mirrors: the folder with ``mirror``, as ``--repos`` takes it.
        mirror: a bare repository with all objects of ``commit``.
        url: where it was cloned from; empty for a repository of this machine.
        version: the last tag's number; empty without one.
    """

    repo: Repo
    name: str
    commit: str
    head: str
    mirrors: Path
    mirror: Path
    url: str = ""
    version: str = ""

    @property
    def tree(self) -> Path | None:
        """The user's work tree; None where there is none."""
        folder = None if self.url else self.repo.working_tree_dir
        return Path(folder) if folder else None

    @property
    def remote(self) -> str:
        """What a branch is pushed to; empty without one."""
        return self.url or ("origin" if "origin" in (one.name for one in self.repo.remotes) else "")

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
        """Apply a patch to the work tree.

        Raises:
            UserError: there is no work tree, or it changed where the patch would write.
        """
        if self.tree is None:
            raise UserError("--apply: the repository has no work tree; use --branch or --patch")
        with _file(patch) as file:
            try:
                self.repo.git.apply("--check", "--whitespace=nowarn", file)
                self.repo.git.apply("--whitespace=nowarn", file)
            except GitCommandError as error:
                why = _said(error).removeprefix("error: ")
                raise UserError(
                    f"--apply: the work tree is not as the patch needs it ({why}); nothing is "
                    "changed: use --branch or --patch"
                ) from None

    def commit_to(self, branch: str, patch: str, message: str) -> str:
        """Make a new branch with one commit and return its hash; HEAD and work tree stay.

        Raises:
            UserError: there is such a branch, or the patch needs uncommitted changes.
        """
        repo = self.repo
        with _file(patch) as file, _index_of_its_own(repo):
            try:
                repo.git.read_tree(self.head)
                repo.git.apply("--cached", "--whitespace=nowarn", file)
                tree = repo.git.write_tree()
            except GitCommandError as error:
                raise UserError(
                    f"--branch {branch}: the patch needs uncommitted changes "
                    f"({_said(error)}); commit them first, or use --apply"
                ) from None
        from git import Commit

        parent = repo.commit(self.head)
        made = Commit.create_from_tree(repo, repo.tree(tree), message, [parent])
        repo.create_head(branch, made)
        return made.hexsha

    def check_branch(self, branch: str) -> None:
        """Raise a UserError where ``branch`` cannot be a new branch."""
        if git_result("check-ref-format", "--branch", branch, cwd=self.mirror).returncode:
            raise UserError(f"--branch {branch!r} is not a name for a branch; choose another")
        if branch in (head.name for head in self.repo.heads):
            raise UserError(f"--branch {branch}: there is such a branch; choose another name")


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
    for variable in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        os.environ.pop(variable, None)
    try:
        if _URL.match(given) and not Path(given).expanduser().exists():
            return _cloned(given, base, cache, include_changes=include_changes)
        return _local(given, base, cache, include_changes=include_changes)
    except UnsafeProtocolError:
        raise UserError(f"--repo {without_logins(given)}: git does not fetch from it") from None
    except PythonGitError as error:
        raise UserError(f"--repo {without_logins(given)}: {_said(error)}") from None


def _local(given: str, base: str, cache: Path, *, include_changes: bool) -> OwnRepository:
    place = Path(given).expanduser()
    try:
        repo = Repo(place, search_parent_directories=True)
    except (InvalidGitRepositoryError, NoSuchPathError):
        there = "is not in a git repository" if place.exists() else "does not exist"
        raise UserError(f"--repo {given}: it {there}; give a path or an address") from None
    head = _commit(repo, base or "HEAD", given)
    common = Path(repo.common_dir).resolve()
    remotes = {remote.name: remote.url for remote in repo.remotes}
    folder = common.parent if common.name == ".git" else common
    origin = remotes.get("origin", "")
    found = _NAME.search(origin) if _URL.match(origin) else None
    owner, name = found.groups() if found else ("local", folder.name.removesuffix(".git"))
    mirrors = cache / "own" / hashlib.sha256(str(common).encode()).hexdigest()[:16]
    owner, name = _plain(owner), _plain(name)
    mirror = mirrors / f"{owner}__{name}.git"
    git("init", "--quiet", "--bare", "--template=", _made(mirror), cwd=mirrors)
    modules = sorted(common.glob("modules/**/objects/pack"))
    held = [common / "objects", *(pack.parent for pack in modules)]
    write_text_atomic(mirror / "objects/info/alternates", "".join(f"{one}\n" for one in held))
    commit = head
    if head == _commit(repo, "HEAD", given) and not repo.bare:
        commit = _with_changes(repo, head, mirror, include=include_changes)
    elif include_changes:
        raise UserError("--include-changes: they belong to HEAD, which --base does not name")
    version = _version(repo, head)
    return OwnRepository(repo, f"{owner}/{name}", commit, head, mirrors, mirror, "", version)


def _with_changes(repo: Repo, head: str, mirror: Path, *, include: bool) -> str:
    """Return ``head``, or where changes are included a commit in ``mirror`` that holds them."""
    listed = repo.git.status("--porcelain", "-z", "--untracked-files=all", "--no-renames")
    changed = [entry[3:] for entry in listed.split("\0") if entry]
    changed = [path for path in changed if path != CONFIG_FILE]
    if not changed:
        return head
    if not include:
        raise UserError(
            f"--repo: there are uncommitted changes ({one_line(some(changed, _SHOWN))}); commit "
            "or stash them, or give --include-changes"
        )
    objects = {
        "GIT_OBJECT_DIRECTORY": str(mirror / "objects"),
        "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(Path(repo.common_dir).resolve() / "objects"),
    }
    with _index_of_its_own(repo, **objects, **_WHO):
        repo.git.read_tree(head)
        repo.git.add("--all", "--", ":/", f":(exclude,top){CONFIG_FILE}")
        tree = repo.git.write_tree()
        return str(repo.git.commit_tree(tree, "-p", head, "-m", "uncommitted changes"))


def _cloned(given: str, base: str, cache: Path, *, include_changes: bool) -> OwnRepository:
    if include_changes:
        raise UserError("--include-changes is for a repository of this machine; leave it out")
    found = _NAME.search(given)
    owner, name = map(_plain, found.groups() if found else ("local", "clone"))
    mirrors = cache / "own" / hashlib.sha256(given.encode()).hexdigest()[:16]
    mirror = mirrors / f"{owner}__{name}.git"
    try:
        git("init", "--quiet", "--bare", "--template=", _made(mirror), cwd=mirrors)
        repo = Repo(mirror)
        known = re.fullmatch(r"[0-9a-f]{40}", base) and _has(repo, base)
        if not known:
            heads = "+refs/heads/*:refs/remotes/origin/*"
            repo.git.fetch("--quiet", "--tags", "--force", "--", given, "HEAD", heads)
            repo.git.update_ref("--no-deref", "HEAD", repo.git.rev_parse("FETCH_HEAD"))
    except GitCommandError as error:
        place = without_logins(given)
        raise InfrastructureError(f"cannot clone {place}: {without_logins(_said(error))}") from None
    named = next((ref for ref in (base, f"origin/{base}") if base and _has(repo, ref)), base)
    commit = _commit(repo, named or "HEAD", without_logins(given))
    version = _version(repo, commit)
    return OwnRepository(repo, f"{owner}/{name}", commit, commit, mirrors, mirror, given, version)


def _made(mirror: Path) -> Path:
    mirror.parent.mkdir(parents=True, exist_ok=True)
    return mirror


def _has(repo: Repo, name: str) -> bool:
    try:
        repo.git.rev_parse("--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    except GitCommandError:
        return False
    return True


def _commit(repo: Repo, name: str, given: str) -> str:
    if not _has(repo, name):
        where = "it has no commit yet" if name == "HEAD" else f"it has no commit {name!r}"
        raise UserError(f"--repo {given}: {where}; give another with --base")
    found = repo.git.rev_parse("--verify", "--end-of-options", f"{name}^{{commit}}")
    commit = str(found).splitlines()[-1]
    if len(commit) != 40:
        raise UserError(f"--repo {given}: repositories with SHA-256 hashes are not supported")
    return commit


def _version(repo: Repo, commit: str) -> str:
    try:
        tag = repo.git.describe("--tags", "--abbrev=0", commit)
    except GitCommandError:
        return ""
    found = re.search(r"\d+(?:\.\d+)+", tag)
    return found.group() if found else ""


def _plain(name: str) -> str:
    return re.sub(r"[^\w.-]+", "-", name, flags=re.ASCII).strip("-.") or "repository"


def _said(error: Exception) -> str:
    """Return the telling line of what git wrote."""
    text = getattr(error, "stderr", None) or str(error)
    lines = [one_line(line) for line in str(text).replace("stderr: '", "").splitlines()]
    told = [line.rstrip("'") for line in lines if re.search(r"\b(fatal|error):", line)]
    return (told or [line for line in lines if line] or ["git failed"])[0]


@contextmanager
def _file(patch: str) -> Iterator[str]:
    with tempfile.NamedTemporaryFile(suffix=".patch") as file:
        file.write(patch.encode("utf-8", "surrogateescape"))
        file.flush()
        yield file.name


@contextmanager
def _index_of_its_own(repo: Repo, **variables: str) -> Iterator[None]:
    with tempfile.TemporaryDirectory() as folder:
        places = {"GIT_INDEX_FILE": f"{folder}/index", **variables}
        with repo.git.custom_environment(**places):
            yield
