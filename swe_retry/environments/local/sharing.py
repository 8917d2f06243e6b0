"""What of a tree decides its set-up, and what set-up leaves in it: commits may share the rest.

Set-up installs dependencies and links to the tree, so most edits of sources change nothing of what
it makes. Where it cannot be seen that they do not, a commit is set up alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from filecmp import dircmp
from pathlib import Path

from swe_retry.core.hashing import sha256_of

# Documents, tests, and sources below the top folder but for those that builds read.
_DECIDES_NOTHING = re.compile(
    r"(?i)\.github/.*|.*\.(md|rst)|(authors|change\w*|history|news)[^/]*"
    r"|(tests?|docs?)/(?!.*(require|setup|\.toml$|\.json$|\.lock$)).*"
    r"|.+/(?!(setup|_*(version|about|meta\w*|release|init)_*)\.)[^/]+\.(pyi?|[cm]?[jt]sx?)"
)
_BUILD_FILES = ("setup.py", "setup.cfg", "pyproject.toml", "package.json")
# Lines that may name a source that a build reads or runs.
_NAMING = re.compile(
    r".*\b(?:version|attr|path|import|open|exec|\w*install|prepare)\b.*"
)
# Made of the files that decide alone; of egg-info but for its list of sources.
_LEFT = re.compile(r".*\.egg-info|node_modules|_?version\.py")


def setup_state(root: Path, lines: Sequence[str]) -> str:
    """Return a hash of the folders in ``root`` and the files that decide what ``lines`` make."""
    naming = list(lines)
    for file in map(root.joinpath, _BUILD_FILES):
        if file.is_file():
            naming += _NAMING.findall(file.read_text("utf-8", "replace"))
    words = set(re.findall(r"\w+", " ".join(naming)))
    state = []
    for file in sorted(root.rglob("*")):
        path = file.relative_to(root).as_posix()
        decides = not _DECIDES_NOTHING.fullmatch(path) or file.stem in words
        if path.startswith(".git/") or not (decides or file.is_dir()):
            continue
        state.append(path)
        if file.is_file():
            state.append(sha256_of(file.read_bytes()))
    return sha256_of("\n".join(state))


def left_by_setup(root: Path, tree: Path, venv: Path) -> Sequence[str] | None:
    """Return what set-up left in ``tree``, a copy of ``root``, that other commits can use.

    None where it changed files of the tree, or left or installed what may be made of sources.
    """
    sources = {(file.name, file.stat().st_size): file for file in root.rglob("*.py")}
    for file in venv.rglob("*.py"):
        size = file.stat().st_size
        source = sources.get((file.name, size))
        if size and source and source.read_bytes() == file.read_bytes():
            return None
    left = list(_compare(dircmp(root, tree, ignore=[".git"], hide=[]), ""))
    if not all(_LEFT.fullmatch(path.rpartition("/")[2]) for path in left):
        return None
    return left


def _compare(trees: dircmp[str], folder: str) -> Iterator[str]:
    # A file of the tree that is another now has no name that may be left.
    changed = (*trees.left_only, *trees.diff_files, *trees.common_funny)
    for name in (*trees.right_only, *changed):
        yield f"{folder}{name}"
    for name, inner in trees.subdirs.items():
        yield from _compare(inner, f"{folder}{name}/")
