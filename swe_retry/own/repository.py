"""The user's own repository: its base commit for a run, and what a run gives back to it.

It is only read until the user asks for a result. The user's git configuration counts here, other
than in checkouts: what is ignored, line endings, who commits, how to log in.

The tree and the configuration of its repository may be a stranger's, and must start no program.
Commands that could start one (they compare or write files: filters, monitors, submodules) run in a
*view*, a repository of our own with the same commits, index and files. It has the user's
configuration, and of the repository's only settings that name no program. Besides, git is asked
in the repository itself for names of commits and settings, and adds a commit there.
"""

from __future__ import annotations

import getpass
import os
import re
import shutil
import socket
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path, PurePosixPath

from filelock import FileLock
from git import Repo
from git.exc import InvalidGitRepositoryError, NoSuchPathError

from swe_retry.core.address import without_logins
from swe_retry.core.errors import InfrastructureError, UserError
from swe_retry.core.git import GitError, git, git_result, join_paths, split_paths
from swe_retry.core.hashing import sha256_of
from swe_retry.core.plaintext import one_line, some
from swe_retry.own.discovery import CONFIG_FILE, MANIFESTS
from swe_retry.repositories.mirrors import ENV_NAME, remove_env_files
from swe_retry.repositories.snapshot import BASE_AUTHOR, make_objects

# Without a protocol, git cannot fetch what a partial clone lacks: the repository's configuration
# names the programs for that.
_NO_FETCH = {"GIT_ALLOW_PROTOCOL": "none"}
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
_ADDRESS = re.compile(r"[\w+.-]+://|[\w.-]+@[\w.-]+:")
_NAME = re.compile(r"([^/:]+)[/:]([^/:]+?)(?:\.git)?/*$")
_MAX_NAMES = 5


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
        if self.url or not _origin(self.repo):
            return self.url
        return "origin"

    @property
    def version(self) -> str:
        """The number of the last tag, for builds that ask git for it; empty without one."""
        command = ("describe", "--tags", "--abbrev=0", self.head)
        folder = Path(self.repo.common_dir)
        described = git_result(*command, cwd=folder, env=_NO_FETCH)
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
                f"--apply: the work tree is not as the patch needs it ({_first_error(error)}); "
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
                f"--branch {branch}: the patch needs uncommitted changes ({_first_error(error)}); "
                "commit them first, or use --apply"
            ) from None
        config = _config(self.repo)
        run = partial(
            git,
            cwd=_folder(self.repo),
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
        run(*_options(hooks), *new_branch)
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
        tree = _folder(repo)
        env = {
            **_NO_FETCH,
            **BASE_AUTHOR,
            "GIT_DIR": name,
            "GIT_WORK_TREE": str(tree),
            "GIT_OBJECT_DIRECTORY": str(objects or common / "objects"),
        }
        settings = {}
        for key, value in _config(repo).items():
            if key in _SETTINGS:
                settings[key] = value
        yield partial(git, *_options(settings), cwd=tree, env=env, as_user=True)


def _changed_files(view: Git, folder: str = "") -> list[str]:
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


def _changed_in_submodules(repo: Repo, tree: Path) -> Iterator[str]:
    """Yield the changed files in submodules, but of those that git is to ignore."""
    file = tree / ".gitmodules"
    if not file.is_file():
        return
    submodules = _config(repo, "--file", str(file))
    settings = {**submodules, **_config(repo)}
    for key, path in submodules.items():
        name, _, last = key.rpartition(".")
        folder = (tree / path).resolve()
        is_ignored = settings.get(f"{name}.ignore", "none") != "none"
        if last != "path" or is_ignored or not folder.is_relative_to(tree):
            continue
        # One that is not checked out has no change.
        with suppress(InvalidGitRepositoryError, NoSuchPathError, UserError):
            submodule = Repo(folder)
            with view_of(submodule, _commit(submodule, "HEAD")) as view:
                for changed in _changed_files(view):
                    yield f"{path}/{changed}"


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
    # As hooks set them, they would make GitPython find another repository.
    for name in ("DIR", "WORK_TREE", "COMMON_DIR", "OBJECT_DIRECTORY"):
        os.environ.pop(f"GIT_{name}", None)
    path = Path(os.path.expanduser(location))  # noqa: PTH111 - pathlib raises for unknown users
    is_address = _ADDRESS.match(location) and not path.exists()
    if is_address and include_changes:
        raise UserError("project.include_changes is for a repository of this machine")
    try:
        if is_address:
            return _clone(location, base, cache)
        repo = Repo(path, search_parent_directories=True)
        return _open_local(repo, path, base, cache, include_changes, list_ours)
    except (InvalidGitRepositoryError, NoSuchPathError):
        problem = "does not exist"
        if path.exists():
            problem = "is not in a git repository"
        raise UserError(
            f"--repo {location}: it {problem}; give a path or an address"
        ) from None
    except GitError as error:
        raise UserError(
            f"--repo {without_logins(location)}: {_first_error(error)}"
        ) from None


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


def _project_folder(tree: Path, path: Path) -> str:
    """Return the folder of ``tree`` nearest above ``path`` that is a project; empty for all."""
    folder = path.resolve()
    while folder.is_relative_to(tree) and folder != tree:
        for name in MANIFESTS:
            if (folder / name).is_file():
                return folder.relative_to(tree).as_posix()
        folder = folder.parent
    return ""


def _open_local(
    repo: Repo,
    path: Path,
    base: str,
    cache: Path,
    include_changes: bool,
    list_ours: Callable[[Path], Collection[str]],
) -> OwnRepository:
    _ask(repo, "rev-parse", "--git-dir")  # git refuses repositories of other users
    head = _commit(repo, base or "HEAD")
    common = Path(repo.common_dir).resolve()
    if "\n" in str(common):
        raise UserError("--repo: its path has a line break; rename the folder")
    tree = tree_of(repo)
    ours: Collection[str] = ()
    folder = ""
    if tree:
        ours = list_ours(tree)
        folder = _project_folder(tree, path)
    parent = common
    if common.name == ".git":
        parent = common.parent
    mirror, name = _make_mirror(
        cache,
        str(common),
        _origin(repo),
        parent.name,
    )
    modules = (
        *common.glob("modules/**/objects"),
        *common.glob("worktrees/*/modules/**/objects"),
    )
    make_objects(mirror / "objects", [common / "objects", *sorted(modules)])
    repository = OwnRepository(repo, name, head, head, mirror, folder=folder)
    if tree is None or head != _commit(repo, "HEAD"):
        if include_changes:
            raise UserError(
                "project.include_changes: they belong to HEAD, which project.base does not name"
            )
        return _without_env_files(repository)
    with view_of(repo, head, mirror / "objects") as view:
        users, harness = _divide(_changed_files(view, folder), ours, folder)
        changes = users
        if not folder:
            changes = [*users, *_changed_in_submodules(repo, tree)]
        if changes and not include_changes:
            names = one_line(some(changes, _MAX_NAMES))
            raise UserError(
                f"--repo: there are uncommitted changes ({names}); commit or stash them, or give "
                "--set project.include_changes=true"
            )
        if not users:
            return _without_env_files(repository)
        _add_changes(view, head, users, harness)
        commit = _base_commit(view, head, folder)
    return replace(repository, commit=commit, changed=True)


def _without_env_files(repository: OwnRepository) -> OwnRepository:
    """Return a repository whose base commit is its head without files named ``.env``."""
    with tempfile.TemporaryDirectory() as temporary:
        env = {"GIT_INDEX_FILE": f"{temporary}/index", **BASE_AUTHOR}
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
    if not (is_hash and _find_commit(repo, base)):
        _fetch(address, mirror)
    branch = _find_commit(repo, f"origin/{base}")
    head = _commit(repo, branch or base or "refs/retry/HEAD")
    repository = OwnRepository(repo, name, head, head, mirror, address)
    return _without_env_files(repository)


def _fetch(address: str, mirror: Path) -> None:
    refs = ("+HEAD:refs/retry/HEAD", "+refs/heads/*:refs/remotes/origin/*")
    fetch = ("fetch", "--quiet", "--prune", "--tags", "--force", "--", address, *refs)
    try:
        with FileLock(f"{mirror}.lock"):
            git(*fetch, cwd=mirror, as_user=True)
    except GitError as error:
        problem = f"cannot clone {address}: {_first_error(error)}"
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
    owner = "local"
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


def _folder(repo: Repo) -> Path:
    """Return where git runs in a repository: its work tree, or itself without one."""
    return tree_of(repo) or Path(repo.git_dir)


def _ask(repo: Repo, *arguments: str) -> str:
    """Return what git prints in the repository itself; the command must start no program."""
    output = git(*arguments, cwd=_folder(repo), env=_NO_FETCH, as_user=True)
    return os.fsdecode(output).strip()


def _ask_if_possible(repo: Repo, *arguments: str) -> str:
    """Return what git prints in the repository itself; empty where it fails."""
    try:
        return _ask(repo, *arguments)
    except GitError:
        return ""


def _find_commit(repo: Repo, name: str) -> str:
    """Return the hash of a commit; empty where there is none of this name."""
    options = ("-q", "--verify", "--end-of-options")
    return _ask_if_possible(repo, "rev-parse", *options, f"{name}^{{commit}}")


def _commit(repo: Repo, name: str) -> str:
    """Return the hash of a commit; a UserError where there is none of this name."""
    commit = _find_commit(repo, name)
    if not commit:
        problem = f"it has no commit {name!r}"
        if name == "HEAD":
            problem = "it has no commit yet"
        raise UserError(f"--repo: {problem}; give another with --set project.base=NAME")
    if len(commit) != 40:
        raise UserError("--repo: repositories with SHA-256 hashes are not supported")
    return commit


def _origin(repo: Repo) -> str:
    """Return the address of the remote ``origin``; empty without one."""
    return _ask_if_possible(repo, "remote", "get-url", "origin")


def _config(repo: Repo, *source: str) -> dict[str, str]:
    """Return the settings that count in a repository; one without a value is ``true``."""
    values = {}
    for entry in _ask(repo, "config", *source, "--list", "-z").split("\0"):
        key, separator, value = entry.partition("\n")
        if not separator:
            value = "true"
        values[key] = value
    return values


def _options(settings: Mapping[str, str]) -> Iterator[str]:
    """Yield settings as options of git."""
    for key, value in settings.items():
        yield from ("-c", f"{key}={value}")


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


def _first_error(error: GitError) -> str:
    """Return the first line with an error of what git wrote, else its first line."""
    lines = []
    for line in error.output.splitlines():
        if line.strip():
            lines.append(one_line(line))
    for line in lines:
        if re.search(r"\b(fatal|error):", line):
            return line.removeprefix("error: ")
    return next(iter(lines), "git failed")


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
