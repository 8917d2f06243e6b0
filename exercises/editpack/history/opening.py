"""Find the objects and the references of a repository that is not trusted.

This alone runs in the repository itself: ``git rev-parse`` and ``git for-each-ref`` read its
configuration, and neither runs a command, fetches nor writes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from core.errors import UserError
from core.git import git_result

GUARD = {
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    # No protocol has this name, so none is allowed; git before 2.39.4 lacks GIT_NO_LAZY_FETCH.
    "GIT_ALLOW_PROTOCOL": "none",
}
"""The environment of every process of git here."""


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
    default it is HEAD.
    """
    top = path.expanduser().absolute()
    folder = top / ".git" if (top / ".git").exists() else top
    hash_name = _ask(folder, "rev-parse", "--show-object-format") if top.is_dir() else None
    if hash_name is None:
        raise UserError(f"{path} is not a git repository; give its top folder, or a bare one")
    objects, shallow = (_place(folder, name) for name in ("objects", "shallow"))
    return GitHistory(path, objects, hash_name.strip(), shallow, _tips(path, folder, refs))


def _place(folder: Path, name: str) -> Path:
    # One at a time: names of folders may hold line ends.
    found = _ask(folder, "rev-parse", "--path-format=absolute", "--git-path", name) or ""
    return Path(found.removesuffix("\n"))


def _ask(folder: Path, *words: str) -> str | None:
    """Return the answer of git in a repository; None where it fails."""
    done = git_result(f"--git-dir={folder}", *words, cwd=folder.parent, env=GUARD)
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
