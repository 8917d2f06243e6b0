"""Measure the related tests: ``python -m benchmarks.related_tests --dataset FILE --repos MIRRORS``.

The gold patch's edited files are the input, the test patch's files that exist at the base commit
the truth. Neither reaches the harness.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

import typer

from bench.regression.related import RelatedTests
from benchmarks.map_recall import mirrors_of
from core.git import git
from runs.patches import patch_paths


@dataclass(frozen=True)
class Choice:
    """The files chosen for one instance, and the hidden ones that they should hold.

    Attributes:
        seconds: of the first and of a second choice on the same tree.
    """

    instance_id: str
    edited: tuple[str, ...]
    hidden: frozenset[str]
    chosen: tuple[str, ...]
    seconds: tuple[float, float]

    @property
    def by_top_package(self) -> tuple[str, ...]:
        """The chosen files that are only called like the top package of an edited file."""
        tops = {f"test_{part}.py" for path in self.edited for part in _top(path)}
        return tuple(path for path in self.chosen if PurePosixPath(path).name in tops)


class Blobs:
    """Reads a mirror's blobs, each once, with one process of git."""

    def __init__(self, mirror: Path) -> None:
        """Start git on ``mirror``."""
        self.mirror = mirror
        argv = ("git", "-C", str(mirror), "cat-file", "--batch")
        self.process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.texts: dict[str, str] = {}

    def of(self, commit: str) -> dict[str, str]:
        """Return the blobs of a commit's files by path."""
        listing = git("ls-tree", "-r", "-z", commit, cwd=self.mirror)
        entries = (
            e.partition("\t")
            for e in listing.decode("utf-8", "replace").split("\0")
            if e
        )
        return {
            path: meta.split()[2] for meta, _, path in entries if meta.startswith("100")
        }

    def read(self, blob: str) -> str:
        """Return a blob's text."""
        if blob not in self.texts:
            assert self.process.stdin is not None
            assert self.process.stdout is not None
            self.process.stdin.write(f"{blob}\n".encode())
            self.process.stdin.flush()
            size = int(self.process.stdout.readline().split()[2])
            self.texts[blob] = self.process.stdout.read(size + 1)[:-1].decode(
                "utf-8", "replace"
            )
        return self.texts[blob]


def main(
    dataset: Annotated[Path, typer.Option(help="SWE-bench rows, JSON lines.")],
    repos: Annotated[Path, typer.Option(help="Folder of mirrors.")],
    only: Annotated[
        list[str] | None, typer.Option(help="Parts of repositories' names.")
    ] = None,
    missed: Annotated[
        bool, typer.Option(help="Print what each instance misses.")
    ] = False,
) -> None:
    """Print by repository how many hidden test files are chosen, and how many files in all."""
    rows = []
    for line in dataset.read_text(encoding="utf-8").splitlines():
        rows.append(json.loads(line))
    mirrors = mirrors_of(rows, repos)
    found: dict[str, list[Choice]] = {}
    for repo, mirror in mirrors.items():
        if only and not any(part in repo for part in only):
            continue
        blobs = Blobs(mirror)
        found[repo] = [_chosen(row, blobs) for row in rows if row["repo"] == repo]
        print(_line(repo, found[repo]), flush=True)
    every = [choice for choices in found.values() for choice in choices]
    print(_line("all", every))
    for choice in every if missed else ():
        lost = choice.hidden - {*choice.chosen}
        if lost:
            print(
                f"{choice.instance_id}: {choice.edited} {sorted(lost)}\n  {choice.chosen}"
            )


def _chosen(row: Mapping[str, Any], blobs: Blobs) -> Choice:
    tree = blobs.of(row["base_commit"])
    files = sorted(path for path in tree if path.endswith(".py"))
    edited = patch_paths(row["patch"])

    def read(path: str) -> str | None:
        if path in tree:
            return blobs.read(tree[path])
        return None

    _warm(files, read)
    tests = RelatedTests(files, read)
    started = time.perf_counter()
    chosen = tests.of(edited)
    between = time.perf_counter()
    tests.of(edited)
    seconds = (between - started, time.perf_counter() - between)
    hidden = frozenset(
        p for p in patch_paths(row["test_patch"]) if p in tree and p[-3:] == ".py"
    )
    return Choice(row["instance_id"], edited, hidden, chosen, seconds)


def _warm(files: Sequence[str], read: Callable[[str], str | None]) -> None:
    """Read the files, so that the time of git does not count."""
    for path in files:
        if "test" in path:
            read(path)


def _top(path: str) -> tuple[str, ...]:
    parts = PurePosixPath(path).parts[:-1]
    if parts[:1] in (("src",), ("lib",)):
        return parts[1:2]
    return parts[:1]


def _line(title: str, choices: Sequence[Choice]) -> str:
    hidden = sum(len(choice.hidden) for choice in choices)
    found = sum(len(choice.hidden & {*choice.chosen}) for choice in choices)
    hits = [
        bool(choice.hidden & {*choice.chosen}) for choice in choices if choice.hidden
    ]
    files = sum(len(choice.chosen) for choice in choices)
    first, second = (
        sum(c.seconds[n] for c in choices) / max(1, len(choices)) for n in (0, 1)
    )
    top = sum(bool(choice.by_top_package) for choice in choices)
    return (
        f"{title:<26}{len(choices):>4} rows{found:>5} of {hidden:>3} hidden files found "
        f"(any in {sum(hits)} of {len(hits)} rows)"
        f"{files / max(1, len(choices)):6.2f} chosen"
        f"{top:>4} by the top package{1000 * first:8.1f} ms, again {1000 * second:.1f} ms"
    )


if __name__ == "__main__":
    typer.run(main)
