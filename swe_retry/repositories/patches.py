"""Take patches from a checkout, and check whether one applies."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from pathlib import Path

from swe_retry.core.git import git, git_result
from swe_retry.core.worktree import differences, stamps
from swe_retry.record.patches import split_patch
from swe_retry.repositories.checkout import BASE_INDEX, Checkout

# Of touched files: the length of a command line is limited.
_MAX_PATHS = 500


def take_patch(checkout: Checkout, *, ignored: bool = True) -> str:
    """Return the differences between the work tree of ``checkout`` and its base commit.

    With ``ignored``, new files count even if a ``.gitignore`` names them. Files that are not UTF-8
    become git's binary patches: a prediction is JSON text, and the evaluator writes it as UTF-8.
    """
    root = checkout.root
    base = checkout.base_commit
    touched, new = differences(checkout.fresh, stamps(root))
    if new:
        # They are added to the index first.
        options = ["--force"] if ignored else []
        git("add", "--all", *options, ".", cwd=root)
        arguments = ["--cached", base, "--"]
    elif touched:
        # Most files of a fresh checkout are as new as its index, so git would read them all.
        arguments = [base, "--"]
        if len(touched) <= _MAX_PATHS:
            arguments += touched
    else:
        return ""
    # --text overrides attributes: a model may also write .gitattributes.
    text_patch = _diff(root, "--text", *arguments)
    lines = []
    for part in split_patch(text_patch):
        if not _is_utf8(part.data):
            lines.append(_attributes_pattern(part.path) + b" -diff\n")
    if not lines:
        return text_patch.decode("utf-8")
    attributes = root / ".git" / "info" / "attributes"
    original = attributes.read_bytes()
    try:
        attributes.write_bytes(original + b"".join(lines))
        return _diff(root, *arguments).decode("utf-8", "surrogateescape")
    finally:
        attributes.write_bytes(original)


def _diff(root: Path, *options: str) -> bytes:
    return git(
        "diff",
        "--binary",
        "--no-color",
        "--no-ext-diff",
        "--no-textconv",
        "--no-renames",
        "--src-prefix=a/",
        "--dst-prefix=b/",
        *options,
        cwd=root,
        env={"GIT_LITERAL_PATHSPECS": "1"},
    )


def _attributes_pattern(path: str) -> bytes:
    """Return the pattern of ``.gitattributes`` that matches ``path`` alone."""
    data = path.encode("utf-8", "surrogateescape")
    # Wildcards, and the backslash that takes their meaning away.
    escaped = re.sub(rb"([*?\[\\])", rb"\\\1", data)
    quoted = b""
    for byte in escaped:
        is_plain = 32 <= byte < 127 and byte not in b'"\\'
        quoted += bytes([byte]) if is_plain else b"\\%03o" % byte
    return b'"/' + quoted + b'"'


def _is_utf8(data: bytes) -> bool:
    try:
        return "\0" not in data.decode("utf-8")
    except UnicodeDecodeError:
        return False


def applies_to(repository: Path, commit: str, patch: str) -> bool:
    """Return whether ``patch`` applies to ``commit`` of a repository, which may be bare.

    Raises:
        GitError: the repository has no such commit.
    """
    with tempfile.TemporaryDirectory() as folder:
        index = {"GIT_INDEX_FILE": str(Path(folder, "index"))}
        git("read-tree", commit, cwd=repository, env=index)
        return _fits(repository, patch, index)


def applies(root: Path, patch: str) -> bool:
    """Return whether ``patch`` applies to the base commit of the checkout at ``root``.

    The check uses the checkout's index of that commit, not the work tree.
    """
    path = (root / BASE_INDEX).resolve()
    index = {"GIT_INDEX_FILE": str(path)}
    return _fits(root, patch, index)


def _fits(repository: Path, patch: str, index: Mapping[str, str]) -> bool:
    data = patch.encode("utf-8", "surrogateescape")
    argv = ("apply", "--check", "--cached", "-")
    result = git_result(*argv, cwd=repository, stdin=data, env=index)
    return result.returncode == 0
