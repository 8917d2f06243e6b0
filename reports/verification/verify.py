"""``report.py --verify``: compute all derived files again and report differences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from bench.instances.dataset import Dataset
from core.errors import DamagedFileError, InfrastructureError, UserError
from core.parsing.untrusted import read_object
from reports.cli.options import ReportOptions, Say
from reports.data.otherpatches import rounds
from reports.data.predictions import read_predictions
from reports.data.rundata import read_run
from reports.evaluation.evaluators.choice import make_swebench
from reports.evaluation.regrading import Regrading
from reports.evaluation.requested import RequestedEvaluation
from reports.statistics.collect import collect
from reports.statsfile import stats_json, validity_of
from reports.verification.derived import DerivedCheck
from reports.verification.described import run_differences
from reports.verification.difference import Difference, readable
from reports.verification.instances import InstanceCheck
from reports.verification.ledgers import ledger_differences
from runs.storage.layouts import STATS_FILE
from runs.storage.store import RunStore


def verify_command(runs: Sequence[Path], options: ReportOptions, say: Say) -> int:
    """Verify each run, print a line for each difference, and return 1 if there is one.

    This writes nothing and calls no model, engine or registry.

    Raises:
        UserError: a run cannot be read.
    """
    found = 0
    for folder in runs:
        verification = _Verification(RunStore.of_folder(folder), options, say)
        differences = list(verification.differences())
        for difference in differences:
            say(difference.line(verification.store.out))
        found += len(differences)
        words = f"differences: {len(differences)}" if differences else "nothing differs"
        say(f"{verification.store.folder}: {words}")
    return int(found > 0)


@dataclass(frozen=True)
class _Verification:
    store: RunStore
    options: ReportOptions
    say: Say

    def differences(self) -> Iterator[Difference]:
        """Yield what differs; derived files are not compared if a file cannot be read."""
        described, found = self._described()
        check = InstanceCheck(self.store, described)
        for path in self.store.prediction_paths():
            found += readable(check.differences(path))
        yield from found
        if not any(difference.unreadable for difference in found):
            yield from readable(self._derived(described))

    def _described(self) -> tuple[Mapping[str, Any], list[Difference]]:
        """Return the content of ``run.json``, or the difference that it cannot be read."""
        try:
            return self.store.read_run() or {}, []
        except DamagedFileError as error:
            return {}, [Difference.unread(error)]

    def _derived(self, described: Mapping[str, Any]) -> Iterator[Difference]:
        predictions = read_predictions(self.store)
        run = read_run(self.store)
        requested = RequestedEvaluation(self.store, self.options, described, self.say)
        dataset = _dataset(requested)
        recorded = dataset and not self.options.dataset
        sha256 = dataset.identity().sha256 if dataset and recorded else ""
        for spot in run_differences(described, run, sha256):
            yield Difference.at(self.store.run_file, spot)
        yield from ledger_differences(self.store, run)
        others = list(chain.from_iterable(rounds(run)))
        rows = dataset.rows if dataset else ()
        by_id = dataset.by_id if dataset else {}
        official = dataset.official_ids if dataset else {}

        def stats() -> Iterator[Mapping[str, Any]]:
            """Yield the valid contents of ``stats.json``; the report may not have had the rows."""
            used = validity_of(_content(self.store.folder / STATS_FILE))
            for some in [rows, ()] if rows else [()]:
                split = requested.split_with(len(some))
                yield stats_json(collect(read_run(self.store, some), split, used))

        regrade = Regrading(self.store, make_swebench(self.store, self.options))
        derived = DerivedCheck(self.store, predictions, others, by_id, stats, regrade, official)
        yield from derived.differences()


def _content(path: Path) -> Mapping[str, Any]:
    """Return the object in a file; empty if it cannot be read, which ``DerivedCheck`` says."""
    try:
        return read_object(path, "")
    except (DamagedFileError, OSError):
        return {}


def _dataset(requested: RequestedEvaluation) -> Dataset | None:
    try:
        return requested.dataset
    except (UserError, InfrastructureError):
        return None
