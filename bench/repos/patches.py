"""Take patches from a checkout, and check whether one applies."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from bench.repos.checkout import BASE_INDEX, Checkout
from core.git import git, git_result
from core.worktree import differences, stamps
from runs.patches import split_patch

# Of touched files: the length of a command line is limited.
_MOST_NAMED = 500


def take_patch(checkout: Checkout, *, ignored: bool = True) -> str:
    """Return the differences between the work tree of ``checkout`` and its base commit.

    With ``ignored``, new files count even if a ``.gitignore`` names them. Files that are not UTF-8
    become git's binary patches: a prediction is JSON text, and the evaluator writes it as UTF-8.
    """
    root, base = checkout.root, checkout.base_commit
    touched, new = differences(checkout.fresh, stamps(root))
    if new:
        # They are added to the index first.
        git("add", "--all", *(["--force"] if ignored else []), ".", cwd=root)
        compared = ["--cached", base, "--"]
    elif touched:
        # Most files of a fresh checkout are as new as its index, so git would read them all.
        compared = [base, "--", *(touched if len(touched) <= _MOST_NAMED else [])]
    else:
        return ""
    # --text overrides attributes: a model may also write .gitattributes.
    plain = _diff(root, "--text", *compared)
    odd = [part.path for part in split_patch(plain) if not _is_utf8(part.data)]
    if not odd:
        return plain.decode("utf-8")
    attributes = root / ".git" / "info" / "attributes"
    before = attributes.read_bytes()
    try:
        attributes.write_bytes(
            before + b"".join(_pattern(path) + b" -diff\n" for path in odd)
        )
        return _diff(root, *compared).decode("utf-8", "surrogateescape")
    finally:
        attributes.write_bytes(before)


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


def _pattern(path: str) -> bytes:
    escaped = re.sub(rb"([*?\[\\])", rb"\\\1", path.encode("utf-8", "surrogateescape"))
    quoted = b"".join(
        bytes([byte]) if 32 <= byte < 127 and byte not in b'"\\' else b"\\%03o" % byte
        for byte in escaped
    )
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
        data = patch.encode("utf-8", "surrogateescape")
        argv = ("apply", "--check", "--cached", "-")
        return git_result(*argv, cwd=repository, stdin=data, env=index).returncode == 0


def applies(root: Path, patch: str) -> bool:
    """Return whether ``patch`` applies to the base commit of the checkout at ``root``.

    The check uses the checkout's index of that commit, not the work tree.
    """
    data = patch.encode("utf-8", "surrogateescape")
    index = {"GIT_INDEX_FILE": str((root / BASE_INDEX).resolve())}
    result = git_result(
        "apply", "--check", "--cached", "-", cwd=root, stdin=data, env=index
    )
    return result.returncode == 0
