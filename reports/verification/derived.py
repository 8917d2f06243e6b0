"""Compare the files that ``report.py`` wrote with what it would write now."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import eq
from pathlib import Path
from typing import Any

from bench.instances.instance import split_row
from bench.repos.patches import patch_paths
from core.parsing.untrusted import damage_at, read_object
from reports.data.predictions import ALL_PREDS, Prediction, all_preds
from reports.data.rows import Row
from reports.evaluation.evaluators.base import BY_SWEBENCH, Verdict, VerdictStatus
from reports.evaluation.evaluators.swebench import tests_ended
from reports.evaluation.results import leaderboard_lists
from reports.evaluation.verdicts import (
    eval_log,
    eval_report,
    known_verdict,
    read_verdict_file,
    verdict_path,
)
from reports.verification.difference import (
    Difference,
    Spot,
    all_differences,
    first_difference,
    first_line,
    readable,
)
from runs.storage.store import RESULTS_FILE, STATS_FILE, RunStore

_FIX = "delete it and evaluate again"
_WRITE = "have report.py write it again"


@dataclass(frozen=True)
class DerivedCheck:
    """Checks the files of a report on one run.

    Attributes:
        others: patches of attempts that are not predicted.
        rows: the dataset's rows by id; empty if the dataset is not available.
        stats: yields the valid contents of ``stats.json``: with and without the dataset's rows.
        same: compares two plain values of ``stats.json``.
        official: the set's own ids by those of the run, where they differ.
    """

    store: RunStore
    predictions: Sequence[Prediction]
    others: Sequence[Prediction]
    rows: Mapping[str, Row]
    stats: Callable[[], Iterator[Mapping[str, Any]]]
    same: Callable[[object, object], bool] = eq
    official: Mapping[str, str] = field(default_factory=dict)

    def differences(self) -> Iterator[Difference]:
        """Yield what differs; files that do not exist yet are skipped."""
        folder = self.store.folder
        yield from readable(self._all_preds(folder / ALL_PREDS))
        yield from readable(self._verdicts())
        yield from readable(_json(folder / RESULTS_FILE, self._lists))
        yield from readable(_json(folder / STATS_FILE, self.stats, self.same))

    def _lists(self) -> Iterator[Mapping[str, Any]]:
        verdicts = {p.instance_id: self._verdict(p) for p in self.predictions}
        yield leaderboard_lists(self.predictions, verdicts)

    def _all_preds(self, path: Path) -> Iterator[Difference]:
        if not path.is_file():
            return
        text = path.read_bytes().decode("utf-8", "replace")
        if found := first_line(text, all_preds(self.predictions, self.official)):
            number, words = found
            yield Difference(path, words, number)

    def _verdict(self, prediction: Prediction) -> Verdict:
        known = known_verdict(self.store, prediction)
        if known is not None:
            return known
        empty = not prediction.patch.strip()
        status = VerdictStatus.EMPTY if empty else VerdictStatus.NOT_EVALUATED
        return Verdict(prediction.instance_id, status, "none")

    def _verdicts(self) -> Iterator[Difference]:
        every = (*self.predictions, *self.others)
        by_path = {verdict_path(self.store, prediction): prediction for prediction in every}
        for path in sorted(self.store.verdict("x").parent.rglob("*.json")):
            prediction = by_path.get(path)
            if prediction is None:
                yield Difference(path, "belongs to no patch of this run")
            else:
                yield from self._wrong(path, prediction, read_verdict_file(path) or {})

    def _wrong(
        self, path: Path, prediction: Prediction, data: Mapping[str, Any]
    ) -> Iterator[Difference]:
        if data.get("patch_sha256") != prediction.patch_sha256:
            words = "is about another patch, not the predicted one; evaluate again"
            yield Difference.at(path, Spot(("patch_sha256",), words))
            return
        verdict = known_verdict(self.store, prediction)
        assert verdict is not None
        expected = {
            "resolved": verdict.status is VerdictStatus.RESOLVED,
            "official": verdict.official,
            "dropped_files": list(prediction.dropped),
        }
        expected |= self._of_row(prediction.instance_id, data)
        found = {key: data.get(key) for key in expected}
        if spot := first_difference(found, expected):
            yield Difference.at(path, spot)
        elif words := self._against_report(prediction, verdict):
            yield Difference(path, words)

    def _of_row(self, name: str, data: Mapping[str, Any]) -> dict[str, Any]:
        """Return the expected values of a verdict's row; some verdicts contain none."""
        row = self.rows.get(name)
        if row is None:
            return {}
        expected = {
            "repo": row.get("repo"),
            "created_at": str(row.get("created_at") or ""),
            "gold_files": list(patch_paths(split_row(row)[1].patch)),
        }
        return {key: value for key, value in expected.items() if data.get(key)}

    def _against_report(self, prediction: Prediction, verdict: Verdict) -> str:
        """Compare with swebench's report, if there is one."""
        path = eval_report(self.store, prediction)
        if not path.is_file():
            return ""
        own = read_object(path, _FIX).get(verdict.instance_id)
        if not isinstance(own, dict) or not isinstance(own.get("resolved"), bool):
            words = f"does not say whether {verdict.instance_id} is resolved"
            keys = (verdict.instance_id, "resolved")
            raise damage_at(path, keys, words, _FIX)
        log = eval_log(self.store, prediction)
        needed = verdict.conclusive and verdict.evaluator in BY_SWEBENCH and log.is_file()
        if needed and not tests_ended(log.read_text("utf-8", "replace")):
            return "is conclusive, but the test output in logs/ shows no end of the tests"
        resolved = verdict.status is VerdictStatus.RESOLVED
        if resolved is own["resolved"]:
            return ""
        return f"says {verdict.status.value}, but the report in logs/ says the opposite"


def _json(
    path: Path,
    expected: Callable[[], Iterator[Mapping[str, Any]]],
    same: Callable[[object, object], bool] = eq,
) -> Iterator[Difference]:
    """Yield the first difference of the file at ``path`` to the most similar of ``expected``."""
    if not path.is_file():
        return
    found = read_object(path, _WRITE)
    spots = min((list(all_differences(found, one, (), same)) for one in expected()), key=len)
    if spots:
        yield Difference.at(path, spots[0])
