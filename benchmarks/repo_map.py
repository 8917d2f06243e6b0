"""Measure the repo map: ``python -m benchmarks.repo_map --dataset FILE --repos MIRRORS``.

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

from agent.repomap import TagStore
from bench.repos.checkout import Snapshots, make_checkout
from benchmarks import map_speed
from benchmarks.map_recall import Shown, mirrors_of, recall_of, table

# The largest allowed ratios to the peer: cold and warm CPU, a further message, and cold memory.
_GOALS = {"cold": 1 / 3, "warm": 1 / 10, "message": 1 / 20, "peak": 1 / 3}
_SPEED_INSTANCE = "sympy__sympy-18057"
_Measure = dict[str, float]


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
    rows = []
    for line in dataset.read_text(encoding="utf-8").splitlines():
        rows.append(json.loads(line))
    mirrors = mirrors_of(rows, repos)
    rows = [row for row in rows if row["repo"] in mirrors]
    with tempfile.TemporaryDirectory() as work:
        if recall:
            _recall(
                rows, mirrors, TagStore(store or Path(work, "tags.sqlite")), develop
            )
        if speed:
            _speed(rows, mirrors, reference, Path(work))


def _recall(
    rows: Sequence[Mapping[str, Any]],
    mirrors: Mapping[str, Path],
    store: TagStore,
    develop: Path | None,
) -> None:
    results = []
    for row in rows:
        results.append(recall_of(row, mirrors[row["repo"]], store))
        print(_missed(results[-1]), file=sys.stderr, flush=True)
    known = {path.stem for path in develop.glob("*.json")} if develop else set()
    groups = {
        "all": results,
        "develop": [result for result in results if result.instance_id in known],
        "others": [result for result in results if result.instance_id not in known],
    }
    for title, group in groups.items() if known else [("all", results)]:
        print(*table(f"{title}, tokens", group), sep="\n")


def _missed(result: Shown) -> str:
    definitions = ["-" if d is None else "01"[d] for d in result.definitions or ()]
    return f"{result.instance_id}: files {[int(f) for f in result.files]} {''.join(definitions)}"


def _speed(
    rows: Sequence[Mapping[str, Any]],
    mirrors: Mapping[str, Path],
    reference: Path | None,
    work: Path,
) -> None:
    row = next((row for row in rows if row["instance_id"] == _SPEED_INSTANCE), None)
    if row is None:
        print(f"no speed: {_SPEED_INSTANCE} or its mirror is not here")
        return
    commit = row["base_commit"]
    snapshot = Snapshots(work / "snapshots").get(
        mirrors[row["repo"]], row["repo"], commit
    )
    folder = make_checkout(snapshot, work / "tree").root
    # If a checkout is as new as its index, git does not trust time stamps and reads every file.
    time.sleep(1.1)
    (folder / ".git" / "index").touch()
    text = work / "issue.txt"
    text.write_text(row["problem_statement"], encoding="utf-8")
    command: list[str | Path] = [
        sys.executable,
        "-m",
        "benchmarks.map_speed",
        folder,
        text,
        work / "speed.sqlite",
    ]
    ours = _measures(command)
    _print("ours", ours)
    if reference:
        theirs = _measures([reference, map_speed.__file__, folder, text, "reference"])
        _print("reference", theirs)
        for name, goal in _GOALS.items():
            print(
                f"{name}: {ours[name] / theirs[name]:.3f} of the reference (≤ {goal:.3f})"
            )


def _measures(command: Sequence[str | Path]) -> _Measure:
    """Run ``command`` twice: without tags, then with the tags of the first run."""
    cold, warm = (
        json.loads(subprocess.check_output(list(map(str, command)), text=True))
        for _ in range(2)
    )
    return {
        "cold": cold["first"],
        "warm": warm["first"],
        "message": warm["message"],
        "peak": cold["peak"],
    }


def _print(name: str, measured: _Measure) -> None:
    seconds = ", ".join(
        f"{key} {measured[key]:.2f} s" for key in ("cold", "warm", "message")
    )
    print(f"{name}: {seconds} of CPU, peak {measured['peak']:.0f} MB")


if __name__ == "__main__":
    typer.run(main)
