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
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path, PurePosixPath

from filelock import FileLock
from git import Repo
from git.exc import InvalidGitRepositoryError, NoSuchPathError

from bench.own.discovery import CONFIG_FILE
from bench.repos.checkout import BASE_AUTHOR, make_objects
from bench.repos.mirrors import ENV_NAME, remove_env_files
from core.address import without_logins
from core.errors import InfrastructureError, UserError
from core.git import GitError, git, git_result, join_paths, split_paths
from core.hashing import sha256_of
from core.plaintext import one_line, some

# Without a protocol, git cannot fetch what a partial clone lacks: the repository's configuration
# names the programs for that.
_NO_FETCH = {"GIT_ALLOW_PROTOCOL": "none"}
# What a view takes over of a repository's settings; none of them names a program.
_SETTINGS = frozenset(
    f"core.{name}"
    for name in (
        "autocrlf",
        "checkstat",
        "eol",
        "excludesfile",
        "filemode",
        "ignorecase",
        "precomposeunicode",
        "safecrlf",
        "symlinks",
        "trustctime",
    )
)
_ADDRESS = re.compile(r"[\w+.-]+://|[\w.-]+@[\w.-]+:")
_NAME = re.compile(r"([^/:]+)[/:]([^/:]+?)(?:\.git)?/*$")
_SHOWN = 5


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
    """

    repo: Repo
    name: str
    head: str
    commit: str
    mirror: Path
    url: str = ""
    changed: bool = False

    @property
    def mirrors(self) -> Path:
        """The folder with ``mirror``, as ``folders.repos`` takes it."""
        return self.mirror.parent

    @property
    def tree(self) -> Path | None:
        """The user's work tree; None where there is none."""
        return None if self.url else tree_of(self.repo)

    @property
    def remote(self) -> str:
        """What a branch is pushed to; empty without one."""
        if self.url or not _origin(self.repo):
            return self.url
        return "origin"

    @property
    def version(self) -> str:
        """The number of the last tag, for builds that ask git for it; empty without one."""
        words = ("describe", "--tags", "--abbrev=0", self.head)
        found = git_result(*words, cwd=Path(self.repo.common_dir), env=_NO_FETCH)
        number = re.search(r"\d+(?:\.\d+)+", found.stdout.decode("utf-8", "replace"))
        return number.group() if number else ""

    @cached_property
    def files(self) -> Collection[str]:
        """The paths of the base commit's files."""
        listed = git("ls-tree", "-r", "--name-only", "-z", self.commit, cwd=self.mirror)
        return frozenset(split_paths(listed))

    def read(self, path: str) -> str | None:
        """Return the text of a file of the base commit; None where it is not there."""
        if path not in self.files:
            return None
        blob = git_result("cat-file", "blob", f"{self.commit}:{path}", cwd=self.mirror)
        return blob.stdout.decode("utf-8", "replace")

    def apply(self, patch: str) -> None:
        """Apply a patch to the work tree; a UserError where that changed in the same places."""
        try:
            with view_of(self.repo, self.head) as view:
                # All of it, or nothing.
                view("apply", "--whitespace=nowarn", "-", stdin=_encoded(patch))
        except GitError as error:
            raise UserError(
                f"--apply: the work tree is not as the patch needs it ({_said(error)}); "
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
                view(
                    "apply",
                    "--cached",
                    "--whitespace=nowarn",
                    "-",
                    stdin=_encoded(patch),
                )
                tree = view("write-tree").decode().strip()
        except GitError as error:
            raise UserError(
                f"--branch {branch}: the patch needs uncommitted changes ({_said(error)}); "
                "commit them first, or use --apply"
            ) from None
        place = _place(self.repo)
        config = _config(self.repo)
        who = _identity(config)
        words = ("commit-tree", tree, "-p", self.head, "-F", "-")
        made = git(*words, cwd=place, stdin=_encoded(message), env=who, as_user=True)
        commit = made.decode().strip()
        reference = ("update-ref", f"refs/heads/{branch}", commit, "0" * 40)
        # Newer versions of git run hooks of the configuration. Those that are files never run.
        hooks = [
            key
            for key in config
            if key.startswith("hook.") and key.endswith(".command")
        ]
        without_hooks = _options(dict.fromkeys(hooks, "true"))
        git(*without_hooks, *reference, cwd=place, env=who, as_user=True)
        return commit

    def check_branch(self, branch: str) -> None:
        """Raise a UserError where ``branch`` cannot be a new branch."""
        if git_result(
            "check-ref-format", "--branch", branch, cwd=self.mirror
        ).returncode:
            raise UserError(
                f"--branch {branch!r} is not a name for a branch; choose another"
            )
        for head in self.repo.heads:
            if f"{branch}/".startswith(f"{head.name}/") or head.name.startswith(
                f"{branch}/"
            ):
                raise UserError(
                    f"--branch {branch}: there is {head.name}; choose another name"
                )


Git = Callable[..., bytes]
"""Runs git with the words of a command, and with ``stdin`` where it is given."""


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
        copied = {
            common / f"info/{file}": folder / "info"
            for file in ("attributes", "exclude")
        }
        # An index that is split has more files.
        for file in (own_folder / "index", *own_folder.glob("sharedindex.*")):
            copied[file] = folder
        for file, target in copied.items():
            if file.is_file():
                # With its time, by which git knows what may have changed since.
                shutil.copy2(file, target)
        tree = _place(repo)
        env = {
            **_NO_FETCH,
            **BASE_AUTHOR,
            "GIT_DIR": name,
            "GIT_WORK_TREE": str(tree),
            "GIT_OBJECT_DIRECTORY": str(objects or common / "objects"),
        }
        settings = _config(repo)
        taken_over = {key: settings[key] for key in settings.keys() & _SETTINGS}
        yield partial(git, *_options(taken_over), cwd=tree, env=env, as_user=True)


def _changed_files(view: Git) -> list[str]:
    """Return the paths that differ from HEAD."""
    # Git would look into submodules with their own configuration.
    words = ("status", "--porcelain", "-z", "--untracked-files=all", "--no-renames")
    listed = view(*words, "--ignore-submodules=dirty").split(b"\0")
    return [os.fsdecode(entry[3:]) for entry in listed if entry]


def _changed_in_submodules(repo: Repo, tree: Path) -> Iterator[str]:
    """Yield the changed files in submodules, but of those that git is to ignore."""
    if not (tree / ".gitmodules").is_file():
        return
    listed = _config(repo, "--file", str(tree / ".gitmodules"))
    settings = {**listed, **_config(repo)}
    for key, path in listed.items():
        name, _, last = key.rpartition(".")
        place = (tree / path).resolve()
        ignored = settings.get(f"{name}.ignore", "none") != "none"
        if last != "path" or ignored or not place.is_relative_to(tree):
            continue
        with suppress(
            InvalidGitRepositoryError, NoSuchPathError, UserError
        ):  # not checked out
            submodule = Repo(place)
            with view_of(submodule, _commit(submodule, "HEAD")) as view:
                yield from (f"{path}/{file}" for file in _changed_files(view))


def open_repository(
    given: str,
    base: str,
    cache: Path,
    *,
    include_changes: bool = False,
    ours: Callable[[Path], Collection[str]] = lambda _: (),
) -> OwnRepository:
    """Return the repository at a path or an address, with what a run needs of it.

    Args:
        base: any name of a commit; empty for HEAD.
        cache: mirrors lie below it.
        include_changes: uncommitted changes are part of the base; else they are refused.
        ours: returns the files and folders in a work tree that are the harness's own.

    Raises:
        UserError: naming what is wrong and the fix.
        InfrastructureError: it cannot be cloned.
    """
    # As hooks set them, they would make GitPython find another repository.
    for name in ("DIR", "WORK_TREE", "COMMON_DIR", "OBJECT_DIRECTORY"):
        os.environ.pop(f"GIT_{name}", None)
    place = Path(os.path.expanduser(given))  # noqa: PTH111 - pathlib raises for unknown users
    try:
        if _ADDRESS.match(given) and not place.exists():
            if include_changes:
                raise UserError(
                    "project.include_changes is for a repository of this machine"
                )
            return _cloned(given, base, cache)
        repo = Repo(place, search_parent_directories=True)
        return _local(repo, base, cache, include_changes, ours)
    except (InvalidGitRepositoryError, NoSuchPathError):
        there = "is not in a git repository" if place.exists() else "does not exist"
        raise UserError(
            f"--repo {given}: it {there}; give a path or an address"
        ) from None
    except GitError as error:
        raise UserError(f"--repo {without_logins(given)}: {_said(error)}") from None


def tree_of(repo: Repo) -> Path | None:
    """Return the work tree: the folder whose ``.git`` is, or names, this repository.

    Where the repository's own configuration says that it lies does not count.
    """
    if repo.working_tree_dir is None:
        return None
    folder = Path(repo.working_tree_dir).resolve()
    try:
        there = Repo(folder).git_dir
    except (InvalidGitRepositoryError, NoSuchPathError):
        return None
    same = Path(there).resolve() == Path(repo.git_dir).resolve() != folder
    return folder if same else None


def _local(
    repo: Repo,
    base: str,
    cache: Path,
    include_changes: bool,
    ours: Callable[[Path], Collection[str]],
) -> OwnRepository:
    _ask(repo, "rev-parse", "--git-dir")  # git refuses repositories of other users
    head, common = _commit(repo, base or "HEAD"), Path(repo.common_dir).resolve()
    if "\n" in str(common):
        raise UserError("--repo: its path has a line break; rename the folder")
    tree = tree_of(repo)
    own_files = ours(tree) if tree else ()
    folder = common.parent if common.name == ".git" else common
    mirror, name = _mirror(cache, str(common), _origin(repo), folder.name)
    modules = (
        *common.glob("modules/**/objects"),
        *common.glob("worktrees/*/modules/**/objects"),
    )
    make_objects(mirror / "objects", [common / "objects", *sorted(modules)])
    if tree is None or head != _commit(repo, "HEAD"):
        if include_changes:
            raise UserError(
                "project.include_changes: they belong to HEAD, which project.base does not name"
            )
        return OwnRepository(repo, name, head, _without_env_files(mirror, head), mirror)
    with view_of(repo, head, mirror / "objects") as view:
        changed, own = _divided(_changed_files(view), own_files)
        everything = [*changed, *_changed_in_submodules(repo, tree)]
        if everything and not include_changes:
            names = one_line(some(everything, _SHOWN))
            raise UserError(
                f"--repo: there are uncommitted changes ({names}); commit or stash them, or give "
                "--set project.include_changes=true"
            )
        if not changed:
            return OwnRepository(
                repo, name, head, _without_env_files(mirror, head), mirror
            )
        _add_changes(view, head, changed, own)
        commit = _base_commit(view, head)
    return OwnRepository(repo, name, head, commit, mirror, changed=True)


def _divided(
    paths: Iterable[str], ours: Collection[str]
) -> tuple[list[str], list[str]]:
    """Return the paths of the user's changes, and those of the harness's own files."""
    changed, own = [], []
    for path in paths:
        name = path.rpartition("/")[2]
        parents = {str(parent) for parent in PurePosixPath(path).parents}
        if path in ours or not parents.isdisjoint(ours):
            own.append(path)
        elif path != CONFIG_FILE and name != ENV_NAME:
            changed.append(path)
    return changed, own


def _add_changes(
    view: Git, head: str, changed: Sequence[str], own: Sequence[str]
) -> None:
    """Put the user's changes into the index of ``view``; our own files stay as in ``head``."""
    # What is staged counts, also where it is ignored.
    words = ("update-index", "-z", "--add", "--remove", "--replace", "--stdin")
    view(*words, stdin=join_paths(path.rstrip("/") for path in changed))
    view("update-index", "-z", "--force-remove", "--stdin", stdin=join_paths(own))
    listed = view("ls-tree", "-r", "-z", head).split(b"\0")
    names = {os.fsencode(path) for path in own}
    before = [entry + b"\0" for entry in listed if entry.partition(b"\t")[2] in names]
    view("update-index", "-z", "--index-info", stdin=b"".join(before))


def _without_env_files(mirror: Path, head: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        env = {"GIT_INDEX_FILE": f"{folder}/index", **BASE_AUTHOR}
        run = partial(git, cwd=mirror, env=env)
        run("read-tree", head)
        return _base_commit(run, head)


def _base_commit(run: Git, head: str) -> str:
    """Return ``head``, or where the index of ``run`` is another tree a commit that holds that.

    With a fixed author the same files are the same base, so that a stopped run continues.
    """
    remove_env_files(run)
    tree = run("write-tree").decode().strip()
    if tree == run("rev-parse", f"{head}^{{tree}}").decode().strip():
        return head
    return run("commit-tree", tree, "-p", head, "-m", "changes").decode().strip()


def _cloned(given: str, base: str, cache: Path) -> OwnRepository:
    mirror, name = _mirror(cache, given, given, "clone")
    repo = Repo(mirror)
    refs = ("+HEAD:refs/retry/HEAD", "+refs/heads/*:refs/remotes/origin/*")
    fetch = ("fetch", "--quiet", "--prune", "--tags", "--force", "--", given, *refs)
    try:
        if not (re.fullmatch(r"[0-9a-f]{40}", base) and _find_commit(repo, base)):
            with FileLock(f"{mirror}.lock"):
                git(*fetch, cwd=mirror, as_user=True)
    except GitError as error:
        words = without_logins(f"cannot clone {given}: {_said(error)}")
        raise InfrastructureError(words) from None
    branch = _find_commit(repo, f"origin/{base}")
    head = _commit(repo, branch or base or "refs/retry/HEAD")
    return OwnRepository(
        repo, name, head, _without_env_files(mirror, head), mirror, given
    )


def _mirror(cache: Path, place: str, origin: str, folder: str) -> tuple[Path, str]:
    """Return a bare repository for what lies at ``place``, and the name of that."""
    found = _NAME.search(origin) if _ADDRESS.match(origin) else None
    owner, name = found.groups() if found else ("local", folder.removesuffix(".git"))
    owner, name = (
        re.sub(r"[^\w.-]+", "-", one, flags=re.ASCII) for one in (owner, name)
    )
    mirrors = cache / "own" / sha256_of(place)[:16]
    mirrors.mkdir(parents=True, exist_ok=True)
    mirror = mirrors / f"{owner}__{name}.git"
    git("init", "--quiet", "--bare", "--template=", mirror, cwd=mirrors)
    return mirror, f"{owner}/{name}"


def _place(repo: Repo) -> Path:
    return tree_of(repo) or Path(repo.git_dir)


def _ask(repo: Repo, *words: str) -> str:
    """Return what git says in the repository itself; the command must start no program."""
    said = git(*words, cwd=_place(repo), env=_NO_FETCH, as_user=True)
    return os.fsdecode(said).strip()


def _answer(repo: Repo, *words: str) -> str:
    """Return what git says in the repository itself; empty where it fails."""
    try:
        return _ask(repo, *words)
    except GitError:
        return ""


def _find_commit(repo: Repo, name: str) -> str:
    """Return the hash of a commit; empty where there is none of this name."""
    return _answer(
        repo, "rev-parse", "-q", "--verify", "--end-of-options", f"{name}^{{commit}}"
    )


def _commit(repo: Repo, name: str) -> str:
    commit = _find_commit(repo, name)
    if not commit:
        where = (
            "it has no commit yet" if name == "HEAD" else f"it has no commit {name!r}"
        )
        raise UserError(f"--repo: {where}; give another with --set project.base=NAME")
    if len(commit) != 40:
        raise UserError("--repo: repositories with SHA-256 hashes are not supported")
    return commit


def _origin(repo: Repo) -> str:
    """Return the address of the remote ``origin``; empty without one."""
    return _answer(repo, "remote", "get-url", "origin")


def _config(repo: Repo, *source: str) -> dict[str, str]:
    """Return the settings that count in a repository; one without a value is ``true``."""
    values = {}
    for entry in _ask(repo, "config", *source, "--list", "-z").split("\0"):
        key, line, value = entry.partition("\n")
        values[key] = value if line else "true"
    return values


def _options(settings: Mapping[str, str]) -> Iterator[str]:
    """Yield settings as options of git."""
    for key, value in settings.items():
        yield from ("-c", f"{key}={value}")


def _identity(config: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that name the author and the committer, as git would find them."""
    user = getpass.getuser()
    last = {
        "NAME": user,
        "EMAIL": os.environ.get("EMAIL") or f"{user}@{socket.gethostname()}",
    }
    variables = {}
    for role in ("AUTHOR", "COMMITTER"):
        for key, default in last.items():
            name, own = f"GIT_{role}_{key}", f"{role}.{key}".lower()
            configured = config.get(own) or config.get(f"user.{key.lower()}")
            variables[name] = os.environ.get(name) or configured or default
    return variables


def _said(error: GitError) -> str:
    """Return the telling line of what git wrote."""
    lines = [one_line(line) for line in error.words.splitlines() if line.strip()]
    telling = [line for line in lines if re.search(r"\b(fatal|error):", line)]
    return (telling or lines or ["git failed"])[0].removeprefix("error: ")


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
