"""Find what a sandbox must not show: installed copies of a project, and interpreters' packages.

In a container this file runs by itself (``main``); it imports nothing else of the harness.
"""

from __future__ import annotations

import os
import re
import sys
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from zipfile import BadZipFile, ZipFile

# Python's module ``site`` and Debian's have no others.
IMPORT_ROOTS = ("site-packages", "dist-packages")
_IN_PACKAGES = re.compile(r"/(site-packages|dist-packages|node_modules)/")
_ZIPS = (".whl", ".egg", ".zip", ".pyz")
# To list their files takes long, or more than the standard library; packages seldom need them.
_ARCHIVE = re.compile(r"\.(tar(\.\w+)?|tgz|conda|crate)$")
# The system's, and those of the instances at work.
_TREES = 64
_MIN_LINE = 20
# A file without a package around it may have a licence and imports in common with any other.
_MIN_SHARED = 25

FileTree = Mapping[str, Sequence[str]]
"""The folders of files and folders, by the names of these."""


@dataclass(frozen=True)
class Source:
    """A file of a project; ``key`` is its path from where Python imports it, else its name."""

    key: str
    content: bytes

    @classmethod
    def read(cls, project: Path, name: str) -> Source:
        path = project / name
        top = path
        while top.parent != project and (top.parent / "__init__.py").exists():
            top = top.parent
        return cls(str(path.relative_to(top.parent)), path.read_bytes())

    def resembles(self, root: str, content: bytes) -> bool:
        """Return whether ``content``, of a file with this key below ``root``, is a version."""
        if root.endswith(IMPORT_ROOTS):
            return True
        lines = _lines(self.content)
        shared = len(lines & _lines(content))
        enough = "/" in self.key or shared >= _MIN_SHARED
        return enough and 2 * shared > len(lines)


ProjectSources = Mapping[str, Sequence[Source]]
"""The sources of a project by the names of their files."""


def _lines(content: bytes) -> frozenset[bytes]:
    lines = (line.strip() for line in content.splitlines())
    return frozenset(line for line in lines if len(line) >= _MIN_LINE)


def read_sources(project: Path, names: Iterable[str]) -> ProjectSources:
    sources = defaultdict(list)
    for name in names:
        sources[Path(name).name].append(Source.read(project, name))
    return sources


@lru_cache(_TREES)
def read_tree(top: str, skipped: tuple[str, ...] = ()) -> FileTree:
    """List what lies below ``top``; kept, because it may take seconds."""
    tree = defaultdict(list)
    for folder, names, files in os.walk(top):
        parent = folder.rstrip("/")
        names[:] = [name for name in names if f"{parent}/{name}" not in skipped]
        for name in (*names, *files):
            tree[name].append(parent)
    return tree


def is_within(path: str, folders: Iterable[str]) -> bool:
    return any(f"{path}/".startswith(f"{folder}/") for folder in folders)


def find_hidden(
    sources: ProjectSources,
    tree: FileTree,
    kept: Collection[str] = (),
) -> Iterator[str]:
    """Yield what to hide of ``tree``.

    That are the packages of interpreters, but for virtual environments and what lies in ``kept``;
    and packages, files and archives that may hold another version of one of ``sources``.
    """
    for name, folders in tree.items():
        for folder in folders:
            path = f"{folder}/{name}"
            if _is_closed(name, path, sources, kept):
                yield path
            elif name in sources:
                yield from _copies_at(path, sources)


def _is_closed(
    name: str, path: str, sources: ProjectSources, kept: Collection[str]
) -> bool:
    """Return whether to hide ``path`` although it is no source itself."""
    if name in IMPORT_ROOTS:
        is_venv = Path(path, "../../../pyvenv.cfg").exists()
        return not is_venv and not is_within(path, kept)
    if name.endswith(_ZIPS):
        return _may_hold(path, sources)
    return bool(_ARCHIVE.search(name)) and not _IN_PACKAGES.search(path)


def _matching(path: str, sources: ProjectSources) -> list[Source]:
    versions = sources.get(Path(path).name, ())
    return [source for source in versions if f"/{path}".endswith(f"/{source.key}")]


def _copies_at(path: str, sources: ProjectSources) -> Iterator[str]:
    """Yield the package or file of ``path`` that has another version of a source."""
    matching = _matching(path, sources)
    file = Path(path)
    if not matching or file.is_symlink() or not file.is_file():
        return
    content = file.read_bytes()
    if any(content == source.content for source in matching):
        return
    for source in matching:
        root = path.removesuffix(f"/{source.key}")
        if source.resembles(root, content):
            top = source.key.split("/")[0]
            yield f"{root}/{top}"
            if top == source.key:
                yield from map(str, file.parent.glob(f"__pycache__/{file.stem}.*"))


def _may_hold(path: str, sources: ProjectSources) -> bool:
    """Return whether a zip file has a source, or cannot be listed."""
    if not Path(path).is_file():
        return False
    try:
        with ZipFile(path) as archive:
            return any(_matching(name, sources) for name in archive.namelist())
    except (OSError, BadZipFile):
        return True


def main(project: str, names: str, folder: str, *kept: str) -> None:
    """Print what to hide in a container, each path with a NUL.

    The file ``names`` has the paths of the project's sources in the same way; ``folder`` is left
    out, and packages in ``kept`` stay.
    """
    paths = Path(names).read_text("utf-8", "surrogateescape").split("\0")
    sources = read_sources(Path(project), paths)
    tree = read_tree("/", ("/proc", "/sys", "/dev", "/run/harness", folder))
    for path in find_hidden(sources, tree, kept):
        sys.stdout.buffer.write(os.fsencode(path) + b"\0")


if __name__ == "__main__":
    main(*sys.argv[1:])
