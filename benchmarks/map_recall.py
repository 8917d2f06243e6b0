"""Measure how often a map shows the files and definitions of the gold patch."""

from __future__ import annotations

import re
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent.repomap import TagStore
from agent.repomap.build import FileEntry, RepoMap, render, render_file
from agent.repomap.scanning.tags import Definition
from bench.repos.mirrors import Mirrors
from core.git import git
from llm.chat import estimate_tokens

_HUNK = re.compile(r"@@ -(\d+)")


def touched_lines(patch: str) -> dict[str, set[int]]:
    """Return the changed lines of each old file of ``patch``, counted from 1.

    These are the removed lines and, for hunks that only insert, the line before them.
    """
    touched: dict[str, set[int]] = {}
    path = None
    number = 0
    removing = False
    for line in patch.splitlines():
        if line.startswith("diff --git"):
            path = None
        elif path is None and line.startswith("--- a/"):
            path = line.removeprefix("--- a/")
            touched[path] = set()
        elif path and (hunk := _HUNK.match(line)):
            number = int(hunk[1])
            removing = False
        elif path and line[:1] == "-":
            touched[path].add(number)
            number = number + 1
            removing = True
        elif path and line[:1] == "+" and not line.startswith("+++ "):
            touched[path] |= set() if removing else {number - 1}
        elif path and line[:1] in (" ", ""):
            number = number + 1
            removing = False
    return touched


def innermost(definitions: Sequence[Definition], lines: set[int]) -> set[int]:
    """Return the indexes of the innermost definitions around ``lines``, where there are any."""
    return {found[-1] for line in lines if (found := list(_around(definitions, line)))}


def _around(definitions: Sequence[Definition], line: int) -> Iterator[int]:
    """Yield the definitions around ``line``, outer ones first."""
    return (n for n, d in enumerate(definitions) if d.first <= line <= d.last)


BUDGETS = (1024, 2048, 4096, 8192, 16384)
FILE_GOALS = (55, 70, 80, 90, 95)
DEFINITION_GOALS: tuple[int | None, ...] = (None, 55, None, 72, None)


@dataclass(frozen=True)
class Shown:
    """Whether all gold files and all changed definitions of one instance are shown, by budget.

    Attributes:
        definitions: None if the patch changes no definition.
    """

    instance_id: str
    files: tuple[bool, ...]
    definitions: tuple[bool, ...] | None


def recall_of(
    row: Mapping[str, Any],
    mirror: Path,
    store: TagStore,
) -> Shown:
    """Look for the gold patch in the maps of one instance."""
    blobs = _blobs(mirror, row["base_commit"])
    with tempfile.TemporaryDirectory() as folder:
        _extract(mirror, row["base_commit"], Path(folder))
        repo_map = RepoMap.of(blobs, Path(folder), store)
    lines = {
        path: found
        for path, found in touched_lines(row["patch"]).items()
        if path in blobs
    }
    gold = {
        path: innermost(
            repo_map.index.definitions_of(repo_map.index.paths.index(path)), found
        )
        for path, found in lines.items()
    }
    maps = [_shown(repo_map, row["problem_statement"], tokens) for tokens in BUDGETS]
    definitions = tuple(_has_definitions(shown, gold) for shown in maps)
    return Shown(
        row["instance_id"],
        tuple(gold.keys() <= shown.keys() for shown in maps),
        definitions if any(gold.values()) else None,
    )


def table(title: str, results: Sequence[Shown]) -> Iterator[str]:
    """Yield the lines of the table for ``results``."""
    files = [result.files for result in results]
    definitions = [
        result.definitions for result in results if result.definitions is not None
    ]
    yield f"{title:<28}" + "".join(f"{budget:>14,}" for budget in BUDGETS)
    yield _row(f"  all gold files, n={len(files)}", files, FILE_GOALS)
    yield _row(
        f"  all definitions, n={len(definitions)}", definitions, DEFINITION_GOALS
    )


def mirrors_of(rows: Sequence[Mapping[str, Any]], root: Path) -> dict[str, Path]:
    """Return the mirrors below ``root`` by repository."""
    mirrors = Mirrors(root)
    found = {repo: mirrors.find(repo) for repo in sorted({row["repo"] for row in rows})}
    return {repo: mirror for repo, mirror in found.items() if mirror is not None}


def _row(
    title: str,
    results: Sequence[tuple[bool, ...]],
    goals: Sequence[int | None],
) -> str:
    cells = []
    for place, goal in enumerate(goals):
        share = 100 * sum(result[place] for result in results) / max(1, len(results))
        cells.append(
            f"{share:5.1f} %" + (f" (≥{goal})" if goal is not None else " " * 6)
        )
    return f"{title:<28}" + "".join(f"{cell:>14}" for cell in cells)


def _shown(repo_map: RepoMap, text: str, tokens: int) -> dict[str, FileEntry]:
    entries = repo_map.select(text, tokens)
    rendered = render(entries)
    if estimate_tokens(rendered) > tokens:
        raise AssertionError(f"a map of {len(rendered)} characters for {tokens} tokens")
    lines = set(rendered.split("\n"))
    if any(f"{entry.path}:" not in lines for entry in entries):
        raise AssertionError("a chosen file is not in the map")
    return {entry.path: entry for entry in entries}


def _has_definitions(
    shown: Mapping[str, FileEntry], gold: Mapping[str, set[int]]
) -> bool:
    return all(
        path in shown and definitions <= _named(shown[path])
        for path, definitions in gold.items()
        if definitions
    )


def _named(entry: FileEntry) -> set[int]:
    """Return the definitions whose names are in the text below the file's heading."""
    words = set(re.findall(r"[\w~]+", "\n".join(render_file(entry)[1:])))
    return {n for n in entry.visible_numbers() if entry.definitions[n].name in words}


def _blobs(mirror: Path, commit: str) -> dict[str, str]:
    listing = git("ls-tree", "-r", "-z", commit, cwd=mirror).decode(
        "utf-8", "surrogateescape"
    )
    entries = (entry.partition("\t") for entry in listing.split("\0") if entry)
    return {
        path: meta.split()[2] for meta, _, path in entries if meta.startswith("100")
    }


def _extract(mirror: Path, commit: str, folder: Path) -> None:
    archive = folder / "tree.tar"
    git("archive", "--format=tar", "-o", archive, commit, cwd=mirror)
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
