"""Read the history of a repository that is not trusted, from its objects alone.

git runs in an empty repository of its own, made for the time, whose object folder is that of the
repository. So neither configuration, hooks, attributes (filters, textconv), index, replace refs,
grafts nor promisor remotes of the repository are in use, and nothing can be fetched or written.
The mark of a shallow clone is copied, because without it the history ends with an error.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import IO, NamedTuple

from swe_retry.core.errors import UserError
from swe_retry.core.git import git_environment, git_result

_GUARD = {
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    # No protocol has this name, so none is allowed; git before 2.39.4 lacks GIT_NO_LAZY_FETCH.
    "GIT_ALLOW_PROTOCOL": "none",
}
_MISSING = "missing"
_CHUNK = 1 << 16
# More would not fit into a pipe, so that git and we would wait for each other.
_MAX_NAMES = 500
_MAX_FIELD = 1 << 20
"""Bytes that are read of a message or a path."""
# A commit graph is a cache, which could tell of other parents than the commits. Root commits only
# add files. What is larger than the threshold is not held in memory.
_CONFIG = """\
[core]
\trepositoryformatversion = 1
\tbare = true
\tcommitGraph = false
\tbigFileThreshold = 1m
[log]
\tshowRoot = false
[extensions]
\tobjectFormat = {}
"""
_LOG = (
    "log --stdin --raw -z --no-abbrev --no-renames --encoding=UTF-8 --no-mailmap --no-notes "
    "--no-show-signature --no-ext-diff --no-textconv --no-color "
    "--format=%H%x00%P%x00%at%x00%ct%x00%an%x00%cn%x00%B"
)
# A patch as any git applies it, whatever the paths and the contents.
_PATCH = (
    "diff --binary --full-index --no-renames --no-ext-diff --no-textconv --no-color "
    "--src-prefix=a/ --dst-prefix=b/"
)


@dataclass(frozen=True)
class GitHistory:
    """What of a repository is read.

    Attributes:
        shallow: the file that names where a shallow clone ends; it need not exist.
        tips: ids of the commits from which the history is followed; none for an empty repository.
    """

    path: Path
    objects: Path
    hash_name: str
    shallow: Path
    tips: tuple[str, ...]


def open_history(path: Path, tips: tuple[str, ...] = ()) -> GitHistory:
    """Return the history of the repository whose top folder, or bare folder, ``path`` is."""
    hash_name = ask_repository(path, "rev-parse", "--show-object-format")
    if not hash_name:
        raise UserError(
            f"{path} is not a git repository; give its top folder, or a bare one"
        )
    # One at a time: names of folders may hold line ends.
    find = ("rev-parse", "--path-format=absolute", "--git-path")
    objects = Path(ask_repository(path, *find, "objects"))
    shallow = Path(ask_repository(path, *find, "shallow"))
    return GitHistory(path, objects, hash_name, shallow, tips)


def ask_repository(path: Path, *argv: str) -> str:
    """Return what a command of git says in the repository itself; empty where it fails.

    The command must neither run another, fetch nor write, whatever the configuration: that is so
    for ``rev-parse`` and ``for-each-ref``.
    """
    folder = path.expanduser().absolute()
    if not folder.is_dir():
        return ""
    if (folder / ".git").exists():
        folder /= ".git"
    result = git_result(f"--git-dir={folder}", *argv, cwd=folder.parent, env=_GUARD)
    if result.returncode:
        return ""
    return result.stdout.decode("utf-8", "surrogateescape").removesuffix("\n")


class CommitFacts(NamedTuple):
    """A commit as ``git log`` has it.

    Attributes:
        parents: their ids; none where the history begins, or a shallow clone is cut.
        seconds: the author date since 1970; empty where the commit states none.
        committed: the committer date, as ``seconds``.
        author, committer: their names.
        message: in UTF-8 as far as git could convert it, cut after a mebibyte.
    """

    name: str
    parents: tuple[str, ...]
    seconds: bytes
    committed: bytes
    author: bytes
    committer: bytes
    message: bytes


class FileChange(NamedTuple):
    """One file of a commit, as ``git log --raw`` has it; ids are hexadecimal."""

    path: bytes
    old_mode: str
    new_mode: str
    old: str
    new: str
    status: str

    @property
    def name(self) -> str:
        """The path as text; what is not UTF-8 in it is replaced."""
        return self.path.decode("utf-8", "replace")


class GitObject(NamedTuple):
    """An object; ``kind`` is ``missing`` where there is none, ``data`` None where it is too long.

    ``size`` is in bytes.
    """

    kind: str
    size: int = 0
    data: bytes | None = None


@contextmanager
def reading(history: GitHistory) -> Iterator[HistoryReader]:
    """Yield a reader of the history; its processes end with the block."""
    with tempfile.TemporaryDirectory(prefix="history-") as name, ExitStack() as stack:
        folder = Path(name)
        (folder / "objects").mkdir()
        (folder / "refs").mkdir()
        (folder / "HEAD").write_text("ref: refs/heads/none\n")
        (folder / "config").write_text(_CONFIG.format(history.hash_name))
        (folder / "tips").write_text("".join(f"{tip}\n" for tip in history.tips))
        if history.shallow.is_file():
            (folder / "shallow").write_bytes(history.shallow.read_bytes())
        errors = stack.enter_context((folder / "errors").open("w+b"))
        yield HistoryReader(history, folder, errors, stack)


@dataclass
class HistoryReader:
    """Reads commits and objects of one history by processes of git.

    Attributes:
        folder: the empty repository in which git runs.
        errors: what git says is written there.
        stack: ends the processes.
    """

    history: GitHistory
    folder: Path
    errors: IO[bytes]
    stack: ExitStack

    def commits(
        self, *options: str
    ) -> Iterator[tuple[CommitFacts, Iterator[FileChange]]]:
        """Yield the commits with their files, in the order and choice of options of git log.

        The files must be read before the next commit. A root commit has none.
        """
        for commit, events in groupby(self._events(options), itemgetter(0)):
            yield commit, (change for _, change in events if change)

    def changes(self, base: str, commit: str, *options: str) -> Iterator[FileChange]:
        """Yield the files that differ between two commits."""
        argv = ("diff-tree", "-r", "--raw", "-z", "--no-abbrev", "--no-renames")
        fields = self.output(*argv, *options, base, commit)
        for field in fields:
            yield _change_of(field, next(fields, b""))

    def _events(
        self, options: Sequence[str]
    ) -> Iterator[tuple[CommitFacts, FileChange | None]]:
        with (self.folder / "tips").open("rb") as tips:
            fields = self.output(*_LOG.split(), *options, stdin=tips)
            commit = CommitFacts("", (), b"", b"", b"", b"", b"")
            # Neither a path nor a field of a commit holds NUL; the order tells what a field is.
            for field in fields:
                if field.startswith((b":", b"\n:")):
                    yield commit, _change_of(field, next(fields, b""))
                else:
                    parents, *rest = [next(fields, b"") for _ in range(6)]
                    names = parents.decode().split()
                    commit = CommitFacts(field.decode(), tuple(names), *rest)
                    yield commit, None

    def ask(self, *argv: str) -> list[str]:
        """Return the lines that a command of git prints; none where it fails."""
        result = git_result(*argv, cwd=self.folder, env=self._environment)
        if result.returncode:
            return []
        return result.stdout.decode("utf-8", "replace").splitlines()

    def patch(
        self, base: str, commit: str, paths: Iterable[str], *options: str
    ) -> bytes:
        """Return the differences of some files, with options of git diff.

        Raises:
            UserError: an object is missing.
        """
        argv = (*_PATCH.split(), *options, base, commit, "--", *paths)
        result = git_result(*argv, cwd=self.folder, env=self._environment)
        if result.returncode:
            raise self._failure(result.stderr)
        return result.stdout

    def objects(self, names: Sequence[str], max_bytes: int) -> list[GitObject]:
        """Return objects; what has more than ``max_bytes`` is read over and not held."""
        objects = []
        for start in range(0, len(names), _MAX_NAMES):
            objects += self._read_objects(names[start : start + _MAX_NAMES], max_bytes)
        return objects

    def _read_objects(self, names: Sequence[str], max_bytes: int) -> list[GitObject]:
        process = self._batch
        assert process.stdin and process.stdout
        try:
            # At once: each turn of the other process takes longer than its work.
            process.stdin.write("".join(f"{name}\n" for name in names).encode())
            process.stdin.flush()
            return [_read_object(process.stdout, max_bytes) for _ in names]
        except (OSError, EOFError) as error:
            raise self._failure() from error

    @cached_property
    def _batch(self) -> subprocess.Popen[bytes]:
        return self._start(("cat-file", "--batch"), subprocess.PIPE)

    def output(
        self, *argv: str, stdin: int | IO[bytes] = subprocess.DEVNULL
    ) -> Iterator[bytes]:
        """Yield what a command writes before each NUL, no field longer than ``_MAX_FIELD``."""
        process = self._start(argv, stdin)
        assert process.stdout
        field = bytearray()
        while chunk := process.stdout.read(_CHUNK):
            *ends, rest = chunk.split(b"\0")
            for end in ends:
                field += end[: _MAX_FIELD - len(field)]
                yield bytes(field)
                field.clear()
            field += rest[: _MAX_FIELD - len(field)]
        if process.wait():
            raise self._failure()

    def _start(
        self, argv: Sequence[str], stdin: int | IO[bytes]
    ) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            ["git", *argv],
            cwd=self.folder,
            env=git_environment(self._environment),
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            start_new_session=True,
        )
        self.stack.callback(_end_process, process)
        return process

    @property
    def _environment(self) -> dict[str, str]:
        return {
            **_GUARD,
            "GIT_DIR": str(self.folder),
            "GIT_OBJECT_DIRECTORY": str(self.history.objects),
            "GIT_LITERAL_PATHSPECS": "1",
        }

    def _failure(self, output: bytes = b"") -> UserError:
        self.errors.seek(0)
        output = output or self.errors.read()
        text = output[-300:].decode("utf-8", "replace")
        reason = " ".join(text.split())
        return UserError(
            f"{self.history.path} cannot be read ({reason}); try git fsck there"
        )


def _change_of(facts: bytes, path: bytes) -> FileChange:
    return FileChange(path, *facts.lstrip(b"\n:").decode("ascii").split(" "))


def _end_process(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.communicate()


def _read_object(stream: IO[bytes], max_bytes: int) -> GitObject:
    facts = stream.readline().decode("ascii", "replace").split()
    if facts[-1:] == [_MISSING]:
        return GitObject(_MISSING)
    if len(facts) != 3:
        raise EOFError
    _, kind, size_text = facts
    size = int(size_text)
    data = None
    if size <= max_bytes:
        data = stream.read(size)
    else:
        left = size
        while chunk := stream.read(min(left, _CHUNK)):
            left -= len(chunk)
    if stream.read(1) != b"\n":
        raise EOFError
    return GitObject(kind, size, data)


def utc_time(seconds: bytes) -> str:
    """Return a date of a commit in UTC, ``2013-05-06T12:34:56Z``; empty if there is no such date.

    The time zone, which tells of the person, is not kept.
    """
    try:
        date = datetime.fromtimestamp(int(seconds), UTC)
    except (ValueError, OverflowError, OSError):
        return ""
    return date.isoformat().replace("+00:00", "Z")
