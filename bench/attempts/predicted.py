"""Compare the tree that a patch makes of its base commit with the tree whose tests ran.

Test results of one tree must not stand for another: the tested tree is compared with that of the
evaluator, which is a fresh base with the patch. Both start from the same commit, so they are equal
where they differ from it in the same blobs.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from agent.repomap.scanning.tree import blob_hash
from agent.workspace import TextFile
from bench.regression.testconfig import (
    ConfigurationEdits,
    may_configure_tests,
    plugins_of,
    tree_under_test,
)
from bench.repos.checkout import BASE_INDEX, Checkout
from bench.repos.patches import applies
from core.git import blob_contents, git, git_result
from core.worktree import Changes, stamps
from runs.patches import patch_paths

_FILES = ("100644", "100755")
_GONE = "000000"


@dataclass(frozen=True)
class Examined:
    """What there is to say of a patch before it is predicted.

    Attributes:
        applies: to the clean base commit.
        edits: how much of it is test configuration.
        differing: files in which the tested tree is not the predicted one, sorted.
    """

    applies: bool
    edits: ConfigurationEdits = ConfigurationEdits.NONE
    differing: tuple[str, ...] = ()


def examine(checkout: Checkout, raw: str, patch: str, ran: Changes | None) -> Examined:
    """Return what can be said of a patch that was taken from ``checkout``.

    ``raw`` is the whole patch, ``patch`` the part that may be predicted. ``ran`` is what the tested
    tree differed in from the base commit; None where no test ran.
    """
    if ran is None and not any(map(may_configure_tests, patch_paths(raw))):
        return Examined(not patch or applies(checkout.root, patch))
    tree = _tree(checkout, patch)
    if tree is None:
        return Examined(applies=False)
    made = tree_under_test(tree.files, checkout.tracked_files(), base_reader(checkout))
    edits = made.edits(plugins_of(raw))
    if tree.others and edits is ConfigurationEdits.ALL:
        edits = ConfigurationEdits.SOME
    if ran is None:
        return Examined(True, edits)
    one, two = _blobs(checkout, made.changes), _blobs(checkout, ran)
    paths = {
        path
        for path in one.keys() | two.keys()
        if one.get(path, "") != two.get(path, "")
    }
    return Examined(True, edits, tuple(sorted(paths | {*tree.others})))


def files_in_submodules(checkout: Checkout) -> tuple[str, ...]:
    """Return what lies in the folders of submodules, which no patch can hold, sorted."""
    places = {name: checkout.root / name for name in checkout.snapshot.submodules}
    held = {name: p for name, p in places.items() if p.is_dir() and not p.is_symlink()}
    return tuple(
        sorted(f"{name}/{path}" for name, p in held.items() for path in stamps(p))
    )


def base_reader(checkout: Checkout) -> Callable[[str], str | None]:
    """Return what gives the text of a file of the base commit, whatever became of the work tree."""

    def read(path: str) -> str | None:
        blob = checkout.snapshot.blobs.get(path)
        if blob is None:
            return None
        return TextFile.decode(git("cat-file", "blob", blob, cwd=checkout.root)).text

    return read


def tree_of(checkout: Checkout, patch: str) -> Changes | None:
    """Return the files in which the base commit with ``patch`` differs from it.

    None where the patch does not apply. Links are left out.
    """
    tree = _tree(checkout, patch)
    return tree.files if tree else None


@dataclass(frozen=True)
class _Tree:
    files: Changes
    others: tuple[str, ...]


def _tree(checkout: Checkout, patch: str) -> _Tree | None:
    """Return the tree of ``patch`` on the base commit, None where it does not apply.

    The checkout's repository stays as it is: index and objects are written elsewhere.
    """
    root = checkout.root.absolute()
    with tempfile.TemporaryDirectory() as folder:
        index = Path(folder, "index")
        index.write_bytes((root / BASE_INDEX).read_bytes())
        objects = str(root / ".git/objects").replace("\\", "\\\\").replace('"', '\\"')
        env = {
            "GIT_INDEX_FILE": str(index),
            "GIT_OBJECT_DIRECTORY": folder,
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": f'"{objects}"',
        }
        data = patch.encode("utf-8", "surrogateescape")
        argv = ("apply", "--cached", "--whitespace=nowarn", "-")
        if patch and git_result(*argv, cwd=root, stdin=data, env=env).returncode:
            return None
        listed = git(
            "diff-index",
            "--cached",
            "--no-renames",
            "-z",
            checkout.base_commit,
            cwd=root,
            env=env,
        )
        return _read(listed, root, env)


def _read(listing: bytes, root: Path, env: Mapping[str, str]) -> _Tree:
    words = listing.split(b"\0")[:-1]
    blobs: dict[str, str] = {}
    files: dict[str, bytes | None] = {}
    others = []
    for raw, name in zip(words[::2], words[1::2], strict=True):
        _, mode, _, blob, _ = raw.decode().split()
        path = os.fsdecode(name)
        if mode in _FILES:
            blobs[path] = blob
        elif mode == _GONE:
            files[path] = None
        else:
            others.append(path)
    contents = blob_contents([*blobs.values()], root, env)
    return _Tree({**files, **dict(zip(blobs, contents, strict=True))}, tuple(others))


def _blobs(checkout: Checkout, changes: Changes) -> dict[str, str | None]:
    base = checkout.snapshot.entries
    blobs: dict[str, str | None] = {}
    for path, data in changes.items():
        blob = None
        if data is not None:
            blob = blob_hash(data)
        if blob != (base[path].blob if path in base else None):
            blobs[path] = blob
    return blobs
