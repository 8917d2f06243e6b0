"""Compare the tree that a patch makes of its base commit with the tree whose tests ran.

Test results of one tree must not stand for another: the tested tree is compared with that of the
evaluator, which is a fresh base with the patch. Both start from the same commit, so they are equal
where they differ from it in the same blobs.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from swe_retry.agent.repomap.scanning.tree import blob_hash
from swe_retry.core.git import blob_contents, git, git_result
from swe_retry.core.worktree import Changes, stamps
from swe_retry.record.patches import patch_paths
from swe_retry.repositories.checkout import BASE_INDEX, Checkout
from swe_retry.repositories.patches import applies
from swe_retry.testing.testconfig import (
    ConfigurationEdits,
    TestCommand,
    may_configure_tests,
    plugins_of,
    tree_under_test,
)

_FILES = ("100644", "100755")
_NO_MODE = "000000"


@dataclass(frozen=True)
class Examination:
    """The findings about a patch before it is predicted.

    Attributes:
        applies: to the clean base commit.
        edits: how much of it is test configuration.
        differing: files in which the tested tree is not the predicted one, sorted.
    """

    applies: bool
    edits: ConfigurationEdits = ConfigurationEdits.NONE
    differing: tuple[str, ...] = ()


def examine_patch(
    checkout: Checkout,
    whole_patch: str,
    predicted_patch: str,
    tested: Changes | None,
    command: TestCommand,
) -> Examination:
    """Return what can be said of a patch that was taken from ``checkout``.

    ``predicted_patch`` is the part of ``whole_patch`` that may be predicted. ``tested`` is what the
    tested tree differed in from the base commit; None where no test ran.
    """
    paths = patch_paths(whole_patch)
    configures = any(may_configure_tests(path, command) for path in paths)
    if tested is None and not configures:
        return Examination(
            not predicted_patch or applies(checkout.root, predicted_patch)
        )
    tree = _tree(checkout, predicted_patch)
    if tree is None:
        return Examination(applies=False)
    files = checkout.tracked_files()
    under_test = tree_under_test(tree.files, files, checkout.read_base, command)
    configuration = under_test.configuration_edits(plugins_of(whole_patch))
    if tree.others and configuration is ConfigurationEdits.ALL:
        configuration = ConfigurationEdits.SOME
    if tested is None:
        return Examination(applies=True, edits=configuration)
    differing = set(tree.others)
    predicted_blobs = _blobs(checkout, under_test.changes)
    tested_blobs = _blobs(checkout, tested)
    for path in predicted_blobs.keys() | tested_blobs.keys():
        if predicted_blobs.get(path, "") != tested_blobs.get(path, ""):
            differing.add(path)
    return Examination(
        applies=True,
        edits=configuration,
        differing=tuple(sorted(differing)),
    )


def files_in_submodules(checkout: Checkout) -> tuple[str, ...]:
    """Return what lies in the folders of submodules, which no patch can hold, sorted."""
    files = []
    for name in checkout.snapshot.submodules:
        folder = checkout.root / name
        if folder.is_dir() and not folder.is_symlink():
            files += [f"{name}/{path}" for path in stamps(folder)]
    return tuple(sorted(files))


def tree_of(checkout: Checkout, patch: str) -> Changes | None:
    """Return the files in which the base commit with ``patch`` differs from it.

    None where the patch does not apply. Links are left out.
    """
    tree = _tree(checkout, patch)
    if tree is None:
        return None
    return tree.files


@dataclass(frozen=True)
class _Tree:
    """The files in which a tree differs from its base commit; ``others`` are links."""

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
        if patch:
            data = patch.encode("utf-8", "surrogateescape")
            argv = ("apply", "--cached", "--whitespace=nowarn", "-")
            result = git_result(*argv, cwd=root, stdin=data, env=env)
            if result.returncode:
                return None
        options = ("--cached", "--no-renames", "-z", checkout.base_commit)
        output = git("diff-index", *options, cwd=root, env=env)
        return _read(output, root, env)


def _read(listing: bytes, root: Path, env: Mapping[str, str]) -> _Tree:
    fields = listing.split(b"\0")[:-1]
    blobs: dict[str, str] = {}
    files: dict[str, bytes | None] = {}
    others = []
    for entry, name in zip(fields[::2], fields[1::2], strict=True):
        _, mode, _, blob, _ = entry.decode().split()
        path = os.fsdecode(name)
        if mode in _FILES:
            blobs[path] = blob
        elif mode == _NO_MODE:
            files[path] = None
        else:
            others.append(path)
    contents = blob_contents(list(blobs.values()), root, env)
    files.update(zip(blobs, contents, strict=True))
    return _Tree(files, tuple(others))


def _blobs(checkout: Checkout, changes: Changes) -> dict[str, str | None]:
    """Return the hashes of changed files; None for a file that is gone."""
    base = checkout.snapshot.entries
    blobs: dict[str, str | None] = {}
    for path, data in changes.items():
        blob = None
        if data is not None:
            blob = blob_hash(data)
        before = base[path].blob if path in base else None
        if blob != before:
            blobs[path] = blob
    return blobs
