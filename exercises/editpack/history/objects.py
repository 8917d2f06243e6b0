"""Read the history of a repository that is not trusted, from its objects alone.

git runs in an empty repository of its own, made for the time, whose object folder is that of the
repository. So neither configuration, hooks, attributes (filters, textconv), index, replace refs,
grafts nor promisor remotes of the repository are in use, and nothing can be fetched or written.
Only where its objects and references lie is asked in place, by ``git rev-parse``. The mark of a
shallow clone is copied, because without it the history ends with an error.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import IO, NamedTuple

from core.errors import UserError
from core.git import git_environment, git_result

MISSING = "missing"
REGULAR, LINK, SUBMODULE = frozenset({"100644", "100755", "100664"}), "120000", "160000"
MODIFIED, RETYPED = "M", "T"
_CHUNK = 1 << 16
_GUARD = {
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    # No protocol has this name, so none is allowed; git before 2.39.4 lacks GIT_NO_LAZY_FETCH.
    "GIT_ALLOW_PROTOCOL": "none",
}
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
    "log", "--stdin", "--reverse", "--no-merges", "--raw", "-z", "--no-abbrev", "--no-renames",
    "--format=%H", "--no-show-signature", "--no-ext-diff", "--no-textconv", "--no-color",
)  # fmt: skip


@dataclass(frozen=True)
class GitHistory:
    """What of a repository is read.

    Attributes:
        path: as the user gave it.
        objects: the folder of its objects.
        hash_name: ``sha1`` or ``sha256``.
        shallow: the file that names where a shallow clone ends; it need not exist.
        tips: ids of the commits from which the history is followed, in the order of the
            references; none for an empty repository.
    """

    path: Path
    objects: Path
    hash_name: str
    shallow: Path
    tips: tuple[str, ...]


class FileChange(NamedTuple):
    """One file of a commit, as ``git log --raw`` has it; ids are hexadecimal."""

    old_mode: str
    new_mode: str
    old: str
    new: str
    status: str
    path: bytes


class GitObject(NamedTuple):
    """An object; ``kind`` is ``missing`` where there is none, ``data`` None where it is too long.

    ``size`` is in bytes.
    """

    kind: str
    size: int = 0
    data: bytes | None = None


def open_history(path: Path, refs: Sequence[str] = ()) -> GitHistory:
    """Return the history of the repository whose top folder, or bare folder, ``path`` is.

    ``refs`` are names of commits, or patterns of full names of references (``refs/tags/*``); by
    default it is HEAD.

    Raises:
        UserError: there is no repository, or it lacks a reference.
    """
    folder = path / ".git" if (path / ".git").exists() else path
    words = ("--path-format=absolute", "--git-path", "objects", "--git-path", "shallow")
    found = _ask(folder, "rev-parse", *words, "--show-object-format") if path.is_dir() else None
    if found is None:
        raise UserError(f"{path} is no git repository; give its top folder, or a bare one")
    objects, shallow, hash_name = found.splitlines()
    return GitHistory(path, Path(objects), hash_name, Path(shallow), _tips(path, folder, refs))


def _ask(folder: Path, *words: str) -> str | None:
    """Return the answer of git in a repository; None where it fails."""
    done = git_result(f"--git-dir={folder}", *words, cwd=folder.parent, env=_GUARD)
    return None if done.returncode else done.stdout.decode("utf-8", "surrogateescape")


def _tips(path: Path, folder: Path, refs: Sequence[str]) -> tuple[str, ...]:
    tips: list[str] = []
    for ref in refs:
        if {*ref} & {*"*?["}:
            tips += _matching(folder, ref)
        elif found := _commit_id(folder, ref):
            tips.append(found)
        else:
            raise UserError(f"{path} has no commit {ref!r}; give another --ref")
    if not refs and (head := _commit_id(folder, "HEAD")):
        tips.append(head)
    return tuple(dict.fromkeys(tips))


def _commit_id(folder: Path, ref: str) -> str:
    if not ref or ref.startswith("-"):
        return ""
    return (_ask(folder, "rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}") or "").strip()


def _matching(folder: Path, pattern: str) -> Iterator[str]:
    form = "--format=%(objectname) %(objecttype) %(*objecttype)"
    for line in (_ask(folder, "for-each-ref", form, "--", pattern) or "").splitlines():
        name, *kinds = line.split()
        if "commit" in kinds:
            yield name


@contextmanager
def reading(history: GitHistory) -> Iterator[HistoryReader]:
    """Yield a reader of the history; its processes end with the block."""
    with tempfile.TemporaryDirectory(prefix="history-") as name, ExitStack() as stack:
        folder = Path(name)
        for needed in ("objects", "refs"):
            (folder / needed).mkdir()
        (folder / "HEAD").write_text("ref: refs/heads/none\n")
        (folder / "config").write_text(_CONFIG.format(history.hash_name))
        (folder / "tips").write_text("".join(f"{tip}\n" for tip in history.tips))
        if history.shallow.is_file():
            (folder / "shallow").write_bytes(history.shallow.read_bytes())
        yield HistoryReader(history, folder, stack)


class HistoryReader:
    """Reads commits and objects of one history by two processes of git."""

    def __init__(self, history: GitHistory, folder: Path, stack: ExitStack) -> None:
        self._history, self._folder, self._stack = history, folder, stack
        self._errors = stack.enter_context((folder / "errors").open("w+b"))

    def commits(self) -> Iterator[tuple[str, Iterator[FileChange]]]:
        """Yield the non-merge commits with their files, the oldest first.

        The files must be read before the next commit. A root commit has none.

        Raises:
            UserError: the repository is damaged.
        """
        if self._history.tips:
            for name, events in groupby(self._events(), itemgetter(0)):
                yield name, (change for _, change in events if change)

    def _events(self) -> Iterator[tuple[str, FileChange | None]]:
        with (self._folder / "tips").open("rb") as tips:
            process = self._start(_LOG, tips)
        tokens, commit = _tokens(_pipe(process.stdout)), ""
        for token in tokens:
            facts = token.lstrip(b"\n").decode("ascii")
            if not facts.startswith(":"):
                commit = facts
                yield commit, None
                continue
            old_mode, new_mode, old, new, status = facts[1:].split(" ")
            yield commit, FileChange(old_mode, new_mode, old, new, status, next(tokens))
        if process.wait():
            raise self._failure()

    def object(self, name: str, most: int) -> GitObject:
        """Return an object; it is read over and not held if it has more than ``most`` bytes.

        Raises:
            UserError: the repository is damaged.
        """
        asked, answer = self._objects
        try:
            asked.write(name.encode() + b"\n")
            asked.flush()
            facts = answer.readline().split()
            if facts[-1:] == [MISSING.encode()]:
                return GitObject(MISSING)
            kind, size = facts[1].decode(), int(facts[2])
            data = answer.read(size) if size <= most else None
            if data is None:
                _read_over(answer, size)
            if answer.read(1) != b"\n":
                raise self._failure()
        except (OSError, IndexError) as error:
            raise self._failure() from error
        return GitObject(kind, size, data)

    @cached_property
    def _objects(self) -> tuple[IO[bytes], IO[bytes]]:
        process = self._start(("cat-file", "--batch"), subprocess.PIPE)
        return _pipe(process.stdin), _pipe(process.stdout)

    def _start(self, words: Sequence[str], stdin: int | IO[bytes]) -> subprocess.Popen[bytes]:
        there = {"GIT_DIR": str(self._folder), "GIT_OBJECT_DIRECTORY": str(self._history.objects)}
        process = subprocess.Popen(
            ["git", *words], cwd=self._folder, env=git_environment({**_GUARD, **there}),
            stdin=stdin, stdout=subprocess.PIPE, stderr=self._errors, start_new_session=True,
        )  # fmt: skip
        self._stack.callback(_end, process)
        return process

    def _failure(self) -> UserError:
        self._errors.seek(0)
        words = " ".join(self._errors.read()[-300:].decode("utf-8", "replace").split())
        return UserError(f"{self._history.path} cannot be read ({words}); try git fsck there")


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout):
        # A request that could not be sent any more is of no use.
        with suppress(BrokenPipeError):
            stream and stream.close()


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None
    return stream


def _tokens(stream: IO[bytes]) -> Iterator[bytes]:
    rest = b""
    while chunk := stream.read(_CHUNK):
        *whole, rest = (rest + chunk).split(b"\0")
        yield from whole


def _read_over(stream: IO[bytes], size: int) -> None:
    while size > 0:
        read = len(stream.read(min(size, _CHUNK)))
        if not read:
            return
        size -= read


def entries_of_tree(data: bytes, hash_name: str) -> Iterator[tuple[str, bytes, str]]:
    """Yield mode, name and id of the entries of a tree object.

    Format: gitformat-pack and Documentation of ``git cat-file``: ``mode SP name NUL id``.
    """
    width, start = (20 if hash_name == "sha1" else 32), 0
    while (end := data.find(b"\0", start)) > 0:
        mode, _, name = data[start:end].partition(b" ")
        start = end + 1 + width
        yield mode.decode("ascii", "replace"), name, data[end + 1 : start].hex()
