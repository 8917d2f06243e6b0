"""Find what a sandbox must not show: installed copies of a project, and interpreters' packages.

In a container this file runs by itself (``main``); it imports nothing else of the harness.
"""

from __future__ import annotations

import os
import re
import sys
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from zipfile import BadZipFile, ZipFile

# Python's module ``site`` and Debian's have no others.
IMPORT_ROOTS = ("site-packages", "dist-packages")
_IN_PACKAGES = re.compile(r"/(site-packages|dist-packages|node_modules)/")
# Those in a folder of programs may have any name.
_ZIP = re.compile(r"\.(whl|egg|zip|pyz|jar)$|/bin/[^/]+$")
# To list their files takes long; packages seldom need them. A pack is of git.
_ARCHIVE = re.compile(r"\.(tar(\.\w+)?|tgz|conda|crate|pack)$")
# Caches of pip, npm and pnpm, and git, store files by hashes of their content.
_IN_STORE = re.compile(r"(/[0-9a-f]{1,3})+/[0-9a-f]{32,}(\.body|-exec)?$")
# As many instances are at work at once, by default.
_STATES = 4
# With its indentation.
_MIN_LINE = 24
# A file without a package around it may have a licence and imports in common with any other.
_MIN_SHARED = 25


Source = tuple[str, bytes]
"""A file of a project: its path from where Python imports it, else its name; and its content."""
SourcesByName = Mapping[str, list[Source]]


def read_sources(project: Path, suffixes: Collection[str]) -> tuple[Source, ...]:
    sources = []
    for path in sorted(project.rglob("*")):
        is_file = path.is_file() and not path.is_symlink()
        if is_file and path.suffix.lower() in suffixes:
            name = _import_path(project, path.relative_to(project))
            sources.append((name, path.read_bytes()))
    return tuple(sources)


def _import_path(project: Path, path: Path) -> str:
    top = path
    # What a package vendors is the package's, also in folders that are none.
    for folder in path.parents:
        if folder.name and (project / folder / "__init__.py").exists():
            top = folder
    return str(path.relative_to(top.parent))


def is_within(path: str, folders: Iterable[Path | str]) -> bool:
    return any(f"{path}/".startswith(f"{folder}/") for folder in folders)


@lru_cache(_STATES)
def find_hidden(
    sources: tuple[Source, ...],
    tops: tuple[Path, ...],
    kept: tuple[Path | str, ...],
    skipped: tuple[str, ...] = (),
) -> frozenset[str]:
    """Return what to hide below ``tops``, without a look into ``skipped``.

    That are the packages of interpreters, but for virtual environments and what lies in ``kept``;
    and packages, files and archives that may hold another version of one of ``sources``.
    """
    by_name = defaultdict(list)
    for source in sources:
        by_name[Path(source[0]).name].append(source)
    hidden: set[str] = set()
    for top in tops:
        for folder, names, files in os.walk(top):
            parent = folder.rstrip("/")
            names[:] = [name for name in names if f"{parent}/{name}" not in skipped]
            for name in IMPORT_ROOTS:
                path = f"{parent}/{name}"
                is_venv = Path(path, "../../../pyvenv.cfg").exists()
                if name in names and not is_venv and not is_within(path, kept):
                    names.remove(name)
                    hidden.add(path)
            for name in files:
                hidden.update(_copies_at(f"{parent}/{name}", by_name))
    return frozenset(hidden)


def _copies_at(path: str, by_name: SourcesByName) -> Iterator[str]:
    """Yield what to hide because of the file ``path``: itself, or the package that it is in."""
    stored = _IN_STORE.search(path)
    if stored:
        yield path[: stored.start()]
    if _ARCHIVE.search(path) and not _IN_PACKAGES.search(path):
        yield path
    if _ZIP.search(path) and _may_hold(path, by_name):
        yield path
    matching = _matching(path, by_name)
    file = Path(path)
    if not matching or file.is_symlink() or not file.is_file():
        return
    content = file.read_bytes()
    if content in [source for _, source in matching]:
        return
    for name, source in matching:
        root = path.removesuffix(f"/{name}")
        if root.endswith(IMPORT_ROOTS) or _resembles(name, source, content):
            top = name.split("/")[0]
            yield f"{root}/{top}"
            if top == name:
                yield from map(str, file.parent.glob(f"__pycache__/{file.stem}.*"))


def _matching(path: str, by_name: SourcesByName) -> list[Source]:
    sources = by_name.get(path.rpartition("/")[2], [])
    return [source for source in sources if f"/{path}".endswith(f"/{source[0]}")]


def _resembles(name: str, source: bytes, content: bytes) -> bool:
    lines = _lines(source)
    shared = len(lines & _lines(content))
    return ("/" in name or shared >= _MIN_SHARED) and 2 * shared > len(lines)


def _lines(content: bytes) -> set[bytes]:
    return {line for line in content.split(b"\n") if len(line) >= _MIN_LINE}


def _may_hold(path: str, by_name: SourcesByName) -> bool:
    """Return whether a zip file has a source; False for other files."""
    try:
        with ZipFile(path) as archive:
            return any(_matching(name, by_name) for name in archive.namelist())
    except (OSError, ValueError, NotImplementedError, BadZipFile):
        return False


def main(project: str, suffixes: str, folder: str, *kept: str) -> None:
    """Print what to hide in a container, each path with a NUL.

    ``folder`` is left out, and packages in ``kept`` stay.
    """
    sources = read_sources(Path(project), suffixes.split())
    skipped = ("/proc", "/sys", "/dev", "/run/harness", folder)
    for path in find_hidden(sources, (Path("/"),), kept, skipped):
        sys.stdout.buffer.write(os.fsencode(path) + b"\0")


if __name__ == "__main__":
    main(*sys.argv[1:])
