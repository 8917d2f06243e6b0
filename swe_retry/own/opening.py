"""The repository that ``--repo`` names: found or cloned, with the commit that a run starts from."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path, PurePosixPath

from filelock import FileLock
from git import Repo
from git.exc import InvalidGitRepositoryError, NoSuchPathError

from swe_retry.core.address import without_logins
from swe_retry.core.errors import InfrastructureError, UserError
from swe_retry.core.git import GitError, git, join_paths
from swe_retry.core.hashing import sha256_of
from swe_retry.core.plaintext import one_line, some
from swe_retry.own.discovery import CONFIG_FILE, MANIFESTS
from swe_retry.own.repository import OwnRepository
from swe_retry.own.view import (
    Git,
    ask,
    changed_files,
    changed_in_submodules,
    commit_of,
    find_commit,
    first_error,
    origin_of,
    tree_of,
    view_of,
)
from swe_retry.repositories.mirrors import ENV_NAME, NO_OWNER, remove_env_files
from swe_retry.repositories.snapshot import BASE_AUTHOR, make_objects

_ADDRESS = re.compile(r"[\w+.-]+://|[\w.-]+@[\w.-]+:")
_NAME = re.compile(r"([^/:]+)[/:]([^/:]+?)(?:\.git)?/*$")
_MAX_NAMES = 5


def open_repository(
    location: str,
    base: str,
    cache: Path,
    *,
    include_changes: bool = False,
    list_ours: Callable[[Path], Collection[str]] = lambda _: (),
) -> OwnRepository:
    """Return the repository at a path or an address, with what a run needs of it.

    Args:
        base: any name of a commit; empty for HEAD.
        cache: mirrors lie below it.
        include_changes: uncommitted changes are part of the base; else they are refused.
        list_ours: returns the files and folders in a work tree that are the harness's own.

    Raises:
        UserError: naming what is wrong and the fix.
        InfrastructureError: it cannot be cloned.
    """
    if include_changes and _is_address(location):
        raise UserError("project.include_changes is for a repository of this machine")
    with _naming(location):
        repository = _find(location, base, cache)
        if repository.url:
            return _without_env_files(repository)
        return _with_changes(repository, include_changes, list_ours)


def open_commits(location: str, base: str, cache: Path) -> OwnRepository:
    """Return the repository at a path or an address; uncommitted changes do not matter.

    Args and errors are those of ``open_repository``.
    """
    with _naming(location):
        return _find(location, base, cache)


def at_commit(repository: OwnRepository, commit: str) -> OwnRepository:
    """Return a repository whose base is another of its commits, without files named ``.env``.

    The base has the date of that commit.
    """
    show = ("log", "-1", "--format=%cI", commit)
    date = git(*show, cwd=repository.mirror).decode().strip()
    dates = dict.fromkeys(("GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"), date)
    author = {**BASE_AUTHOR, **dates}
    return _without_env_files(replace(repository, head=commit), author)


@contextmanager
def _naming(location: str) -> Iterator[None]:
    """Name the repository in errors."""
    try:
        yield
    except (InvalidGitRepositoryError, NoSuchPathError):
        problem = "does not exist"
        if _path_of(location).exists():
            problem = "is not in a git repository"
        raise UserError(
            f"repository {location}: it {problem}; give a path or an address"
        ) from None
    except GitError as error:
        raise UserError(
            f"repository {without_logins(location)}: {first_error(error)}"
        ) from None


def _path_of(location: str) -> Path:
    return Path(os.path.expanduser(location))  # noqa: PTH111 - pathlib raises for unknown users


def _is_address(location: str) -> bool:
    return bool(_ADDRESS.match(location)) and not _path_of(location).exists()


def _find(location: str, base: str, cache: Path) -> OwnRepository:
    """Return a repository with its head as its base."""
    # As hooks set them, they would make GitPython find another repository.
    for name in ("DIR", "WORK_TREE", "COMMON_DIR", "OBJECT_DIRECTORY"):
        os.environ.pop(f"GIT_{name}", None)
    if _is_address(location):
        return _clone(location, base, cache)
    path = _path_of(location)
    return _open_local(Repo(path, search_parent_directories=True), path, base, cache)


def _project_folder(tree: Path, path: Path) -> str:
    """Return the folder of ``tree`` nearest above ``path`` that is a project; empty for all."""
    folder = path.resolve()
    while folder.is_relative_to(tree) and folder != tree:
        for name in MANIFESTS:
            if (folder / name).is_file():
                return folder.relative_to(tree).as_posix()
        folder = folder.parent
    return ""


def _open_local(repo: Repo, path: Path, base: str, cache: Path) -> OwnRepository:
    ask(repo, "rev-parse", "--git-dir")  # git refuses repositories of other users
    head = commit_of(repo, base or "HEAD")
    common = Path(repo.common_dir).resolve()
    if "\n" in str(common):
        raise UserError(
            "the path of the repository has a line break; rename the folder"
        )
    tree = tree_of(repo)
    folder = ""
    if tree:
        folder = _project_folder(tree, path)
    parent = common
    if common.name == ".git":
        parent = common.parent
    mirror, name = _make_mirror(
        cache,
        str(common),
        origin_of(repo),
        parent.name,
    )
    modules = (
        *common.glob("modules/**/objects"),
        *common.glob("worktrees/*/modules/**/objects"),
    )
    make_objects(mirror / "objects", [common / "objects", *sorted(modules)])
    return OwnRepository(repo, name, head, head, mirror, folder=folder)


def _with_changes(
    repository: OwnRepository,
    include_changes: bool,
    list_ours: Callable[[Path], Collection[str]],
) -> OwnRepository:
    """Return a repository of this machine with what is not committed as a part of its base."""
    repo = repository.repo
    head = repository.head
    folder = repository.folder
    tree = repository.tree
    ours: Collection[str] = ()
    if tree:
        ours = list_ours(tree)
    if tree is None or head != commit_of(repo, "HEAD"):
        if include_changes:
            raise UserError(
                "project.include_changes: they belong to HEAD, which project.base does not name"
            )
        return _without_env_files(repository)
    with view_of(repo, head, repository.mirror / "objects") as view:
        users, harness = _divide(changed_files(view, folder), ours, folder)
        changes = users
        if not folder:
            changes = [*users, *changed_in_submodules(repo, tree)]
        if changes and not include_changes:
            names = one_line(some(changes, _MAX_NAMES))
            raise UserError(
                f"there are uncommitted changes ({names}); commit or stash them, or give "
                "--set project.include_changes=true"
            )
        if not users:
            return _without_env_files(repository)
        _add_changes(view, head, users, harness)
        commit = _base_commit(view, head, folder)
    return replace(repository, commit=commit, changed=True)


def _without_env_files(
    repository: OwnRepository, author: Mapping[str, str] = BASE_AUTHOR
) -> OwnRepository:
    """Return a repository whose base commit is its head without files named ``.env``."""
    with tempfile.TemporaryDirectory() as temporary:
        env = {"GIT_INDEX_FILE": f"{temporary}/index", **author}
        run = partial(git, cwd=repository.mirror, env=env)
        run("read-tree", repository.head)
        commit = _base_commit(run, repository.head, repository.folder)
    return replace(repository, commit=commit)


def _divide(
    paths: Iterable[str],
    ours: Collection[str],
    folder: str,
) -> tuple[list[str], list[str]]:
    """Return the paths of the user's changes, and those of the harness's own files."""
    users = []
    harness = []
    config = str(PurePosixPath(folder, CONFIG_FILE))
    for path in paths:
        name = path.rpartition("/")[2]
        parents = {str(parent) for parent in PurePosixPath(path).parents}
        if path in ours or not parents.isdisjoint(ours):
            harness.append(path)
        elif path != config and name != ENV_NAME:
            users.append(path)
    return users, harness


def _add_changes(
    view: Git,
    head: str,
    users: Sequence[str],
    harness: Sequence[str],
) -> None:
    """Put the user's changes into the index of ``view``; our own files stay as in ``head``."""
    # What is staged counts, also where it is ignored.
    update = ("update-index", "-z", "--add", "--remove", "--replace", "--stdin")
    view(*update, stdin=join_paths(path.rstrip("/") for path in users))
    view("update-index", "-z", "--force-remove", "--stdin", stdin=join_paths(harness))
    names = {os.fsencode(path) for path in harness}
    before = b""
    for entry in view(
        "ls-tree",
        "-r",
        "-z",
        head,
    ).split(b"\0"):
        if entry.partition(b"\t")[2] in names:
            before += entry + b"\0"
    view("update-index", "-z", "--index-info", stdin=before)


def _base_commit(run: Git, head: str, folder: str) -> str:
    """Return ``head``, or where the index of ``run`` is another tree a commit that holds that.

    Of a project in a ``folder`` it holds that alone.

    With a fixed author the same files are the same base, so that a stopped run continues.
    """
    remove_env_files(run)
    write = ["write-tree"]
    if folder:
        write.append(f"--prefix={folder}/")
    tree = run(*write).decode().strip()
    if tree == run("rev-parse", f"{head}^{{tree}}").decode().strip():
        return head
    commit = run("commit-tree", tree, "-p", head, "-m", "changes")
    return commit.decode().strip()


def _clone(address: str, base: str, cache: Path) -> OwnRepository:
    mirror, name = _make_mirror(cache, address, address, "clone")
    repo = Repo(mirror)
    is_hash = re.fullmatch(r"[0-9a-f]{40}", base)
    if not (is_hash and find_commit(repo, base)):
        _fetch(address, mirror)
    branch = find_commit(repo, f"origin/{base}")
    head = commit_of(repo, branch or base or "refs/retry/HEAD")
    return OwnRepository(repo, name, head, head, mirror, address)


def _fetch(address: str, mirror: Path) -> None:
    refs = ("+HEAD:refs/retry/HEAD", "+refs/heads/*:refs/remotes/origin/*")
    fetch = ("fetch", "--quiet", "--prune", "--tags", "--force", "--", address, *refs)
    try:
        with FileLock(f"{mirror}.lock"):
            git(*fetch, cwd=mirror, as_user=True)
    except GitError as error:
        problem = f"cannot clone {address}: {first_error(error)}"
        raise InfrastructureError(without_logins(problem)) from None


def _make_mirror(
    cache: Path,
    location: str,
    origin: str,
    folder: str,
) -> tuple[Path, str]:
    """Return a bare repository for what lies at ``location``, and the name of that.

    Args:
        origin: the address of its remote; empty without one.
        folder: names it if there is no address.
    """
    owner = NO_OWNER.rstrip("/")
    name = folder.removesuffix(".git")
    match = _NAME.search(origin)
    if match and _ADDRESS.match(origin):
        owner, name = match.groups()
    owner = re.sub(r"[^\w.-]+", "-", owner, flags=re.ASCII)
    name = re.sub(r"[^\w.-]+", "-", name, flags=re.ASCII)
    mirrors = cache / "own" / sha256_of(location)[:16]
    mirrors.mkdir(parents=True, exist_ok=True)
    mirror = mirrors / f"{owner}__{name}.git"
    git("init", "--quiet", "--bare", "--template=", mirror, cwd=mirrors)
    return mirror, f"{owner}/{name}"
