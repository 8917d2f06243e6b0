"""Count the recorded attempts that a replay reproduces: ``python -m benchmarks.replay_recorded``.

Compares the patches of a run with ``--replay TRAJECTORIES --environment none --all-attempts`` with
the patches in the trajectories, ignoring lines that start with ``index ``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer


def main(
    run: Annotated[
        Path, typer.Argument(help="The replayed run, a folder under predictions/.")
    ],
    recorded: Annotated[
        Path, typer.Argument(help="The folder of recorded trajectories.")
    ],
) -> None:
    """Print each attempt that differs, then the counts; exit with 1 if one differs."""
    total = equal = same_edit = 0
    for name, want, got in _pairs(run, recorded):
        total += 1
        same_edit += want["edit_outcome"] == got["edit_outcome"]
        if _without_index(want["model_patch"]) == _without_index(got["model_patch"]):
            equal += 1
        else:
            print(f"differs: {name} attempt {got['attempt']} ({got['status']})")
    print(
        f"{equal} of {total} attempts give the recorded patch; {same_edit} the edit outcome"
    )
    sys.exit(equal != total)


def _pairs(
    run: Path, recorded: Path
) -> Iterator[tuple[str, dict[str, str], dict[str, str]]]:
    for path in sorted(recorded.glob("*.json")):
        prediction = json.loads((run / path.name).read_text(encoding="utf-8"))
        ours = {result["attempt"]: result for result in prediction["all_results"]}
        for attempt in json.loads(path.read_text(encoding="utf-8"))["attempts"]:
            yield path.stem, attempt["recorded"], ours[attempt["attempt"]]


def _without_index(patch: str | None) -> list[str]:
    return [
        line for line in (patch or "").rstrip("\n").split("\n") if line[:6] != "index "
    ]


if __name__ == "__main__":
    typer.run(main)
