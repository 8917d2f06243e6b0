"""Which tests are found for edited files, against those that the test patch edits.

``python -m benchmarks.related_tests --dataset FILE --repos MIRRORS``.

The gold patch's edited files are the input, the test patch's files that exist at the base commit
the truth. Neither reaches the harness. A hidden file without tests, as data of a test, is left out:
no runner takes it.
"""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

import typer

from benchmarks.map_recall import blobs_of, mirrors_of
from swe_retry.record.patches import patch_paths
from swe_retry.repositories.mirrors import Mirrors
from swe_retry.testing.related import RelatedTests

_TEST = re.compile(r"^[ \t]*(?:def test|class Test)", re.MULTILINE)


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
    def by_top_package(self) -> list[str]:
        """The chosen files that are only called like the top package of an edited file."""
        names = {f"test_{_top_package(path)}.py" for path in self.edited}
        return [path for path in self.chosen if PurePosixPath(path).name in names]

    @property
    def chosen_hidden(self) -> frozenset[str]:
        return self.hidden.intersection(self.chosen)


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

    def read(self, blob: str) -> str:
        """Return a blob's text."""
        if blob not in self.texts:
            assert self.process.stdin is not None
            assert self.process.stdout is not None
            self.process.stdin.write(f"{blob}\n".encode())
            self.process.stdin.flush()
            header = self.process.stdout.readline().split()
            size = int(header[2])
            data = self.process.stdout.read(size + 1)
            self.texts[blob] = data[:-1].decode("utf-8", "replace")
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
    lines = dataset.read_text(encoding="utf-8").splitlines()
    rows = list(map(json.loads, lines))
    choices: list[Choice] = []
    for repo, mirror in mirrors_of(rows, repos).items():
        if only and not any(part in repo for part in only):
            continue
        blobs = Blobs(mirror)
        changes = partial(Mirrors(repos).past_changes, repo)
        of_repo = []
        for row in rows:
            if row["repo"] == repo:
                of_repo.append(_choose(row, blobs, changes))
        print(_line(repo, of_repo), flush=True)
        choices += of_repo
    print(_line("all", choices))
    if missed:
        for choice in choices:
            lost = sorted(choice.hidden.difference(choice.chosen))
            if lost:
                print(f"{choice.instance_id}: {choice.edited} {lost}")
                print(f"  {choice.chosen}")


def _choose(
    row: Mapping[str, Any],
    blobs: Blobs,
    changes: Callable[..., list[set[str]]],
) -> Choice:
    tree = blobs_of(blobs.mirror, row["base_commit"])
    files = sorted(path for path in tree if path.endswith(".py"))
    edited = patch_paths(row["patch"])

    def read(path: str) -> str | None:
        if path in tree:
            return blobs.read(tree[path])
        return None

    # So that the time of git does not count.
    for path in files:
        if "test" in path:
            read(path)
    history = partial(changes, row["base_commit"])
    title, _, _ = row["problem_statement"].strip().partition("\n")
    tests = RelatedTests(files, read, history, title)

    def holds_tests(path: str) -> bool:
        return _TEST.search(read(path) or "") is not None

    hidden = frozenset(files).intersection(patch_paths(row["test_patch"]))
    seconds = []
    for _ in range(2):
        start = time.perf_counter()
        chosen = tests.of(edited)
        seconds.append(time.perf_counter() - start)
    return Choice(
        instance_id=row["instance_id"],
        edited=edited,
        hidden=frozenset(filter(holds_tests, hidden)),
        chosen=chosen,
        seconds=(seconds[0], seconds[1]),
    )


def _top_package(path: str) -> str:
    """Return the first folder of a path below ``src`` or ``lib``; empty for a file on top."""
    folders = PurePosixPath(path).parts[:-1]
    if folders[:1] in (("src",), ("lib",)):
        folders = folders[1:]
    return "".join(folders[:1])


def _line(title: str, choices: Sequence[Choice]) -> str:
    divisor = max(1, len(choices))
    with_hidden = [choice for choice in choices if choice.hidden]
    hidden = sum(len(choice.hidden) for choice in with_hidden)
    hits = [choice.chosen_hidden for choice in with_hidden if choice.chosen_hidden]
    chosen = sum(len(choice.chosen) for choice in choices)
    first = sum(choice.seconds[0] for choice in choices)
    second = sum(choice.seconds[1] for choice in choices)
    top = sum(bool(choice.by_top_package) for choice in choices)
    return (
        f"{title:<26}{len(choices):>4} rows{sum(map(len, hits)):>5} of {hidden:>3} hidden files "
        f"found (any in {len(hits)} of {len(with_hidden)} rows)"
        f"{chosen / divisor:6.2f} chosen{top:>4} by the top package"
        f"{1000 * first / divisor:8.1f} ms, again {1000 * second / divisor:.1f} ms"
    )


if __name__ == "__main__":
    typer.run(main)
