"""How many attempts a replay reproduces, against the patches of their recording.

``python -m benchmarks.replay_recorded``.

Compares the patches of a run with ``--replay TRAJECTORIES --environment none`` and ``--set
choice.stop=all`` with the patches in the trajectories, ignoring lines that start with ``index ``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from swe_retry.record.records import Attempt
from swe_retry.record.store import RunStore
from swe_retry.runner.modelsource import read_recording


def main(
    run: Annotated[
        Path, typer.Argument(help="The replayed run, a folder under predictions/.")
    ],
    recorded: Annotated[
        Path, typer.Argument(help="The folder of recorded trajectories.")
    ],
) -> None:
    """Print each attempt that differs, then the counts; exit with 1 if one differs."""
    total = 0
    equal = 0
    same_edit = 0
    for name, expected, actual in _pairs(run, recorded):
        total += 1
        same_edit += expected.edit_outcome == actual.edit_outcome
        patch = _without_index(expected.model_patch)
        if patch == _without_index(actual.model_patch):
            equal += 1
        else:
            print(f"differs: {name} attempt {actual.attempt} ({actual.status})")
    print(
        f"{equal} of {total} attempts give the recorded patch; {same_edit} the edit outcome"
    )
    sys.exit(equal != total)


def _pairs(run: Path, recorded: Path) -> Iterator[tuple[str, Attempt, Attempt]]:
    store = RunStore.of_folder(run)
    for path in sorted(recorded.glob("*.json")):
        result = store.read_prediction(store.prediction(path.stem))
        ours = {attempt.attempt: attempt for attempt in result.attempts}
        for number, attempt in read_recording(path).items():
            yield path.stem, attempt, ours[number]


def _without_index(patch: str) -> list[str]:
    lines = patch.rstrip("\n").split("\n")
    return [line for line in lines if not line.startswith("index ")]


if __name__ == "__main__":
    typer.run(main)
