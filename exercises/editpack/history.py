"""Read the history of a repository that is not trusted, from its objects alone.

git runs in an empty repository of its own, made for the time, whose object folder is that of the
repository. So neither configuration, hooks, attributes (filters, textconv), index, replace refs,
grafts nor promisor remotes of the repository are in use, and nothing can be fetched or written.
The mark of a shallow clone is copied, because without it the history ends with an error.
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

_GUARD = {
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    # No protocol has this name, so none is allowed; git before 2.39.4 lacks GIT_NO_LAZY_FETCH.
    "GIT_ALLOW_PROTOCOL": "none",
}


@dataclass(frozen=True)
class GitHistory:
    """What of a repository is read.

    Attributes:
        shallow: the file that names where a shallow clone ends; it need not exist.
        tips: ids of the commits from which the history is followed, in the order of the
            references; none for an empty repository.
    """

    path: Path
    objects: Path
    hash_name: str
    shallow: Path
    tips: tuple[str, ...]


def open_history(path: Path, refs: Sequence[str] = ()) -> GitHistory:
    """Return the history of the repository whose top folder, or bare folder, ``path`` is.

    ``refs`` are names of commits, or patterns of full names of references (``refs/tags/*``); by
    default it is HEAD. This alone runs git in the repository itself: ``rev-parse`` and
    ``for-each-ref`` read its configuration, and neither runs a command, fetches nor writes.
    """
    top = path.expanduser().absolute()
    folder = top / ".git" if (top / ".git").exists() else top

    def ask(*words: str) -> str:
        done = git_result(f"--git-dir={folder}", *words, cwd=folder.parent, env=_GUARD)
        text = "" if done.returncode else done.stdout.decode("utf-8", "surrogateescape")
        return text.removesuffix("\n")

    def commit_of(ref: str) -> list[str]:
        named = ref and not ref.startswith("-")
        found = named and ask("rev-parse", "--verify", "--quiet", f"{ref}^{{commit}}")
        return [found] if found else []

    hash_name = ask("rev-parse", "--show-object-format") if top.is_dir() else ""
    if not hash_name:
        raise UserError(
            f"{path} is not a git repository; give its top folder, or a bare one"
        )
    tips = [] if refs else commit_of("HEAD")
    for ref in refs:
        if {*ref} & {*"*?["}:
            form = "--format=%(objectname) %(objecttype) %(*objecttype)"
            lines = map(str.split, ask("for-each-ref", form, "--", ref).splitlines())
            tips += [name for name, *kinds in lines if "commit" in kinds]
        elif found := commit_of(ref):
            tips += found
        else:
            raise UserError(f"{path} has no commit {ref!r}; give another in mine.refs")
    # One at a time: names of folders may hold line ends.
    objects, shallow = (
        Path(ask("rev-parse", "--path-format=absolute", "--git-path", name))
        for name in ("objects", "shallow")
    )
    return GitHistory(path, objects, hash_name, shallow, tuple(dict.fromkeys(tips)))


_MISSING = "missing"
REGULAR, LINK, SUBMODULE = frozenset({"100644", "100755", "100664"}), "120000", "160000"
MODIFIED, RETYPED = "M", "T"
_CHUNK = 1 << 16
_LONGEST_TOKEN = 1 << 20
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
    "log", "--stdin", "--reverse", "--no-merges", "--raw", "-z", "--no-abbrev", "--no-renames",
    "--format=%H%x00%at%x00%an%x00%cn%x00%B", "--encoding=UTF-8", "--no-mailmap", "--no-notes",
    "--no-show-signature", "--no-ext-diff", "--no-textconv", "--no-color",
)  # fmt: skip


class CommitFacts(NamedTuple):
    """A commit as ``git log`` has it.

    Attributes:
        seconds: the author date since 1970; empty where the commit states none.
        names: of author and committer.
        message: in UTF-8 as far as git could convert it, cut after a mebibyte.
    """

    name: str
    seconds: bytes
    names: tuple[bytes, bytes]
    message: bytes


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

    def commits(self) -> Iterator[tuple[CommitFacts, Iterator[FileChange]]]:
        """Yield the non-merge commits with their files, the oldest first.

        The files must be read before the next commit. A root commit has none.
        """
        if self._history.tips:
            for commit, events in groupby(self._events(), itemgetter(0)):
                yield commit, (change for _, change in events if change)

    def _events(self) -> Iterator[tuple[CommitFacts, FileChange | None]]:
        with (self._folder / "tips").open("rb") as tips:
            process = self._start(_LOG, tips)
        assert process.stdout
        tokens = _tokens(process.stdout)
        commit = CommitFacts("", b"", (b"", b""), b"")
        # Neither a path nor a field of a commit holds NUL; what a token is, its place tells.
        for token in tokens:
            if token.startswith((b":", b"\n:")):
                facts = token.lstrip(b"\n:").decode("ascii").split(" ")
                old_mode, new_mode, old, new, status = facts
                path = next(tokens, b"")
                yield commit, FileChange(old_mode, new_mode, old, new, status, path)
            else:
                seconds, author, committer, message = (
                    next(tokens, b"") for _ in range(4)
                )
                commit = CommitFacts(
                    token.decode(), seconds, (author, committer), message
                )
                yield commit, None
        if process.wait():
            raise self._failure()

    def objects(self, names: Sequence[str], most: int) -> list[GitObject]:
        """Return objects; what has more than ``most`` bytes is read over and not held."""
        process = self._batch
        assert process.stdin and process.stdout
        try:
            # At once: each turn of the other process takes longer than its work.
            process.stdin.write("".join(f"{name}\n" for name in names).encode())
            process.stdin.flush()
            return [_answered(process.stdout, most) for _ in names]
        except (OSError, EOFError) as error:
            raise self._failure() from error

    @cached_property
    def _batch(self) -> subprocess.Popen[bytes]:
        return self._start(("cat-file", "--batch"), subprocess.PIPE)

    def _start(
        self, words: Sequence[str], stdin: int | IO[bytes]
    ) -> subprocess.Popen[bytes]:
        there = {
            "GIT_DIR": str(self._folder),
            "GIT_OBJECT_DIRECTORY": str(self._history.objects),
        }
        process = subprocess.Popen(
            ["git", *words],
            cwd=self._folder,
            env=git_environment({**_GUARD, **there}),
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            start_new_session=True,
        )
        self._stack.callback(_end, process)
        return process

    def _failure(self) -> UserError:
        self._errors.seek(0)
        words = " ".join(self._errors.read()[-300:].decode("utf-8", "replace").split())
        return UserError(
            f"{self._history.path} cannot be read ({words}); try git fsck there"
        )


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout):
        # A request that could not be sent any more is of no use.
        with suppress(BrokenPipeError):
            stream and stream.close()


def _tokens(stream: IO[bytes]) -> Iterator[bytes]:
    held = bytearray()
    while chunk := stream.read(_CHUNK):
        *ends, rest = chunk.split(b"\0")
        for end in ends:
            held += end[: _LONGEST_TOKEN - len(held)]
            yield bytes(held)
            held.clear()
        held += rest[: _LONGEST_TOKEN - len(held)]


def _answered(answer: IO[bytes], most: int) -> GitObject:
    facts = answer.readline().decode("ascii", "replace").split()
    if facts[-1:] == [_MISSING]:
        return GitObject(_MISSING)
    if len(facts) != 3:
        raise EOFError
    size, data = int(facts[2]), None
    if size <= most:
        data = answer.read(size)
    else:
        left = size
        while read := answer.read(min(left, _CHUNK)):
            left -= len(read)
    if answer.read(1) != b"\n":
        raise EOFError
    return GitObject(facts[1], size, data)


def entries_of_tree(data: bytes, hash_name: str) -> Iterator[tuple[str, bytes, str]]:
    """Yield mode, name and id of the entries of a tree object.

    Format: gitformat-pack and Documentation of ``git cat-file``: ``mode SP name NUL id``.
    """
    width, start = (20 if hash_name == "sha1" else 32), 0
    while (end := data.find(b"\0", start)) > 0:
        mode, _, name = data[start:end].partition(b" ")
        start = end + 1 + width
        yield mode.decode("ascii", "replace"), name, data[end + 1 : start].hex()
