"""What recorded predictions say, to the harness."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from runs.storage.store import RunStore


def plausible_instances(runs: Iterable[Path]) -> frozenset[str]:
    """Return the ids of the instances that one of ``runs`` has a plausible patch for."""
    names = set()
    for folder in runs:
        store = RunStore.of_folder(folder)
        for path in store.prediction_paths():
            result = store.read_prediction(path)
            if result.plausible:
                names.add(result.instance_id)
    return frozenset(names)
