"""How much of the gold patch's files and definitions a map shows, against all of them."""

from __future__ import annotations

import re
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from swe_retry.agent.repomap.build import FileEntry, RepoMap, render, render_file
from swe_retry.agent.repomap.scanning.store import TagStore
from swe_retry.agent.repomap.scanning.tags import Definition
from swe_retry.core.git import git
from swe_retry.llm.chat import estimate_tokens
from swe_retry.repositories.mirrors import Mirrors

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
            continue
        if path is None:
            if line.startswith("--- a/"):
                path = line.removeprefix("--- a/")
                touched[path] = set()
            continue
        hunk = _HUNK.match(line)
        if hunk:
            number = int(hunk[1])
            removing = False
        elif line[:1] == "-":
            touched[path].add(number)
            number += 1
            removing = True
        elif line[:1] == "+":
            if not removing and not line.startswith("+++ "):
                touched[path].add(number - 1)
        elif line[:1] in (" ", ""):
            number += 1
            removing = False
    return touched


def innermost(definitions: Sequence[Definition], lines: set[int]) -> set[int]:
    """Return the indexes of the innermost definitions around ``lines``, where there are any."""
    indexes = set()
    for line in lines:
        around = []
        # Outer definitions come first.
        for index, definition in enumerate(definitions):
            if definition.first <= line <= definition.last:
                around.append(index)
        indexes.update(around[-1:])
    return indexes


BUDGETS = (1024, 2048, 4096, 8192, 16384)
FILE_GOALS = (55, 70, 80, 90, 95)
DEFINITION_GOALS: tuple[int | None, ...] = (None, 55, None, 72, None)


@dataclass(frozen=True)
class Recall:
    """Whether all gold files and all changed definitions of one instance are shown, by budget.

    Attributes:
        definitions: None if the patch changes no definition.
    """

    instance_id: str
    files: tuple[bool, ...]
    definitions: tuple[bool, ...] | None


def recall_of(row: Mapping[str, Any], mirror: Path, store: TagStore) -> Recall:
    """Look for the gold patch in the maps of one instance."""
    commit = row["base_commit"]
    blobs = blobs_of(mirror, commit)
    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder) / "tree.tar"
        git("archive", "--format=tar", "-o", archive, commit, cwd=mirror)
        with tarfile.open(archive) as tar:
            tar.extractall(folder, filter="data")
        repo_map = RepoMap.of(blobs, Path(folder), store)
    gold = {}
    for path, lines in touched_lines(row["patch"]).items():
        if path in blobs:
            index = repo_map.index
            file = index.paths.index(path)
            first = index.first_unit[file] + 1
            end = index.first_unit[file + 1]
            units = [index.definition(unit) for unit in range(first, end)]
            gold[path] = innermost(units, lines)
    files = []
    definitions = []
    for tokens in BUDGETS:
        entries = _entries(repo_map, row["problem_statement"], tokens)
        files.append(gold.keys() <= entries.keys())
        definitions.append(_has_definitions(entries, gold))
    return Recall(
        instance_id=row["instance_id"],
        files=tuple(files),
        definitions=tuple(definitions) if any(gold.values()) else None,
    )


def table(title: str, results: Sequence[Recall]) -> Iterator[str]:
    """Yield the lines of the table for ``results``."""
    files = [result.files for result in results]
    definitions = [result.definitions for result in results if result.definitions]
    yield f"{title:<28}" + "".join(f"{budget:>14,}" for budget in BUDGETS)
    yield _row(f"  all gold files, n={len(files)}", files, FILE_GOALS)
    title = f"  all definitions, n={len(definitions)}"
    yield _row(title, definitions, DEFINITION_GOALS)


def mirrors_of(rows: Sequence[Mapping[str, Any]], root: Path) -> dict[str, Path]:
    """Return the mirrors below ``root`` by repository."""
    mirrors = {}
    repos = {row["repo"] for row in rows}
    for repo in sorted(repos):
        mirror = Mirrors(root).find(repo)
        if mirror is not None:
            mirrors[repo] = mirror
    return mirrors


def _row(
    title: str,
    results: Sequence[tuple[bool, ...]],
    goals: Sequence[int | None],
) -> str:
    line = f"{title:<28}"
    for index, goal in enumerate(goals):
        hits = sum(result[index] for result in results)
        share = 100 * hits / max(1, len(results))
        suffix = " " * 6
        if goal is not None:
            suffix = f" (≥{goal})"
        cell = f"{share:5.1f} %{suffix}"
        line += f"{cell:>14}"
    return line


def _entries(repo_map: RepoMap, text: str, tokens: int) -> dict[str, FileEntry]:
    entries = repo_map.select(text, tokens)
    rendered = render(entries)
    if estimate_tokens(rendered) > tokens:
        raise AssertionError(f"a map of {len(rendered)} characters for {tokens} tokens")
    lines = set(rendered.split("\n"))
    if any(f"{entry.path}:" not in lines for entry in entries):
        raise AssertionError("a chosen file is not in the map")
    return {entry.path: entry for entry in entries}


def _has_definitions(
    entries: Mapping[str, FileEntry], gold: Mapping[str, set[int]]
) -> bool:
    for path, definitions in gold.items():
        if not definitions:
            continue
        if path not in entries:
            return False
        if not definitions <= _visible(entries[path]):
            return False
    return True


def _visible(entry: FileEntry) -> set[int]:
    """Return the definitions whose names are in the text below the file's heading."""
    _, *lines = render_file(entry)
    names = set(re.findall(r"[\w~]+", "\n".join(lines)))
    visible = set()
    for index, definition in entry.definitions.items():
        if definition.name in names:
            visible.add(index)
    return visible


def blobs_of(mirror: Path, commit: str) -> dict[str, str]:
    """Return the blobs of a commit's files by path."""
    listing = git("ls-tree", "-r", "-z", commit, cwd=mirror)
    text = listing.decode("utf-8", "surrogateescape")
    blobs = {}
    for entry in text.split("\0"):
        if entry.startswith("100"):
            meta, _, path = entry.partition("\t")
            blobs[path] = meta.split()[2]
    return blobs
