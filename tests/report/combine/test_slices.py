"""A data set in slices, a run for each, is one run when it is combined."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from swe_retry.record.store import RunStore
from swe_retry.report.combine.combine import combine
from swe_retry.report.evaluation.evaluation_settings import EvaluatorKind
from tests.support import read_json, without
from tests.support.killing import ALL
from tests.support.reported import replay, report_run

# What names the run, and its wall-clock time.
_OF_RUN = ("run", "model_name_or_path", "by_origin", "seconds")
_SLICES = {
    "part0": ALL[:2],
    "part1": ALL[2:3],
    "part2": ALL[3:],
}


def test_runs_of_slices_are_combined_into_what_one_run_of_all_gives(
    tmp_path: Path, cache: Path
) -> None:
    def run(name: str, ids: Sequence[str]) -> RunStore:
        replay(tmp_path, cache, *ids, run=name)
        return RunStore(tmp_path, name)

    def figures(store: RunStore) -> Any:
        printed = report_run(store.folder, cache, EvaluatorKind.NONE)
        assert printed.code == 0
        stats = read_json(store.folder / "stats.json")
        return without(stats, *_OF_RUN)

    undivided = run("whole", ALL)
    slices = [run(name, ids) for name, ids in _SLICES.items()]
    combined = combine(slices, "parts", lambda _: None)
    assert figures(combined) == figures(undivided)
    for path in undivided.prediction_paths():
        prediction = read_json(path)
        counterpart = read_json(combined.prediction(path.stem))
        assert counterpart["model_patch"] == prediction["model_patch"]
        assert counterpart["attempt"] == prediction["attempt"]
