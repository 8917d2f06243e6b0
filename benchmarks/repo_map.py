"""Recall, speed and memory of the map, against gold patches and a reference agent's map.

``python -m benchmarks.repo_map --dataset FILE --repos MIRRORS``.

Measures recall on the instances whose repositories have a mirror, then speed and memory on one
large tree, as ratios to the reference agent's map if a Python with that agent is given.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from benchmarks import map_speed
from benchmarks.map_recall import Recall, mirrors_of, recall_of, table
from swe_retry.agent.repomap.scanning.store import TagStore
from swe_retry.repositories.checkout import make_checkout
from swe_retry.repositories.snapshot import get_snapshot

# The largest allowed ratios to the peer: cold and warm CPU, a further message, and cold memory.
_GOALS = {
    "cold": 1 / 3,
    "warm": 1 / 10,
    "message": 1 / 20,
    "peak": 1 / 3,
}
_SPEED_INSTANCE = "sympy__sympy-18057"
_Figures = dict[str, float]


def main(
    dataset: Annotated[Path, typer.Option(help="SWE-bench rows, JSON lines.")],
    repos: Annotated[Path, typer.Option(help="Folder of mirrors.")],
    develop: Annotated[
        Path | None,
        typer.Option(help="Folder of <instance>.json; reported separately."),
    ] = None,
    reference: Annotated[
        Path | None, typer.Option(help="Python with the reference agent.")
    ] = None,
    store: Annotated[Path | None, typer.Option(help="Tags of an earlier run.")] = None,
    recall: Annotated[bool, typer.Option(help="Measure recall.")] = True,
    speed: Annotated[bool, typer.Option(help="Measure speed and memory.")] = True,
) -> None:
    """Print recall by budget and group, then the ratios."""
    lines = dataset.read_text(encoding="utf-8").splitlines()
    rows = list(map(json.loads, lines))
    mirrors = mirrors_of(rows, repos)
    rows = [row for row in rows if row["repo"] in mirrors]
    with tempfile.TemporaryDirectory() as work:
        if recall:
            tags = TagStore(store or Path(work, "tags.sqlite"))
            _print_recall(rows, mirrors, tags, develop)
        if speed:
            _print_speed(rows, mirrors, reference, Path(work))


def _print_recall(
    rows: Sequence[Mapping[str, Any]],
    mirrors: Mapping[str, Path],
    store: TagStore,
    develop: Path | None,
) -> None:
    groups: dict[str, list[Recall]] = {"all": []}
    develop_ids = set()
    if develop:
        develop_ids = {path.stem for path in develop.glob("*.json")}
    if develop_ids:
        groups["develop"] = []
        groups["others"] = []
    for row in rows:
        recall = recall_of(row, mirrors[row["repo"]], store)
        print(_describe(recall), file=sys.stderr, flush=True)
        groups["all"].append(recall)
        if recall.instance_id in develop_ids:
            groups["develop"].append(recall)
        elif develop_ids:
            groups["others"].append(recall)
    for title, group in groups.items():
        print(*table(f"{title}, tokens", group), sep="\n")


def _describe(recall: Recall) -> str:
    files = list(map(int, recall.files))
    definitions = map(int, recall.definitions or ())
    digits = "".join(map(str, definitions))
    return f"{recall.instance_id}: files {files} {digits}"


def _print_speed(
    rows: Sequence[Mapping[str, Any]],
    mirrors: Mapping[str, Path],
    reference: Path | None,
    work: Path,
) -> None:
    row_by_id = {row["instance_id"]: row for row in rows}
    row = row_by_id.get(_SPEED_INSTANCE)
    if row is None:
        print(f"no speed: {_SPEED_INSTANCE} or its mirror is not here")
        return
    repo = row["repo"]
    snapshots = work / "snapshots"
    snapshot = get_snapshot(snapshots, mirrors[repo], repo, row["base_commit"])
    folder = make_checkout(snapshot, work / "tree").root
    # If a checkout is as new as its index, git does not trust time stamps and reads every file.
    time.sleep(1.1)
    (folder / ".git" / "index").touch()
    text = work / "issue.txt"
    text.write_text(row["problem_statement"], encoding="utf-8")
    python = (sys.executable, "-m", "benchmarks.map_speed")
    ours = _measure(*python, folder, text, work / "speed.sqlite")
    _print_figures("ours", ours)
    if reference:
        theirs = _measure(reference, map_speed.__file__, folder, text, "reference")
        _print_figures("reference", theirs)
        for name, goal in _GOALS.items():
            ratio = ours[name] / theirs[name]
            print(f"{name}: {ratio:.3f} of the reference (≤ {goal:.3f})")


def _measure(*command: str | Path) -> _Figures:
    """Run ``command`` twice: without tags, then with the tags of the first run."""
    argv = list(map(str, command))
    cold = json.loads(subprocess.check_output(argv, text=True))
    warm = json.loads(subprocess.check_output(argv, text=True))
    return {
        "cold": cold["first"],
        "warm": warm["first"],
        "message": warm["message"],
        "peak": cold["peak"],
    }


def _print_figures(name: str, figures: _Figures) -> None:
    cells = [f"{key} {figures[key]:.2f} s" for key in ("cold", "warm", "message")]
    seconds = ", ".join(cells)
    print(f"{name}: {seconds} of CPU, peak {figures['peak']:.0f} MB")


if __name__ == "__main__":
    typer.run(main)
