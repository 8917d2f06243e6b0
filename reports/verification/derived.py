"""Compare the files that ``report.py`` wrote with what it would write now."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bench.instances.instance import split_row
from core.parsing.untrusted import damage_at, read_object
from reports.data.predictions import ALL_PREDS, Prediction, all_preds
from reports.data.rows import Row
from reports.evaluation.evaluators.base import BY_SWEBENCH, EvaluationTask, Verdict, VerdictStatus
from reports.evaluation.evaluators.swebench import tests_ended
from reports.evaluation.results import leaderboard_lists
from reports.evaluation.verdicts import (
    eval_log,
    eval_report,
    facts_of,
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
from runs.storage.layouts import RESULTS_FILE, STATS_FILE
from runs.storage.store import RunStore

_FIX = "delete it and evaluate again"
_WRITE = "have report.py write it again"


@dataclass(frozen=True)
class DerivedCheck:
    """Checks the files of a report on one run.

    Attributes:
        others: patches of attempts that are not predicted.
        rows: the dataset's rows by id; empty if the dataset is not available.
        stats: yields the valid contents of ``stats.json``: with and without the dataset's rows.
        regrade: returns the verdict on saved test output.
        official: the set's own ids by those of the run, where they differ.
    """

    store: RunStore
    predictions: Sequence[Prediction]
    others: Sequence[Prediction]
    rows: Mapping[str, Row]
    stats: Callable[[], Iterator[Mapping[str, Any]]]
    regrade: Callable[[EvaluationTask, Verdict | None], Verdict | None]
    official: Mapping[str, str] = field(default_factory=dict)

    def differences(self) -> Iterator[Difference]:
        """Yield what differs; files that do not exist yet are skipped."""
        folder = self.store.folder
        yield from readable(self._all_preds(folder / ALL_PREDS))
        yield from readable(self._verdicts())
        yield from readable(_json(folder / RESULTS_FILE, self._lists))
        yield from readable(_json(folder / STATS_FILE, self.stats))

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
        row = self.rows.get(prediction.instance_id)
        instance, evaluation = split_row(row) if row is not None else (None, None)
        if evaluation and data.get("repo") is not None:  # else it was evaluated without a row
            expected |= facts_of(evaluation)
        found = {key: data.get(key) for key in expected}
        if spot := first_difference(found, expected):
            yield Difference.at(path, spot)
        graded = None
        if instance and evaluation and verdict.swebench == version("swebench"):
            instance = replace(instance, instance_id=prediction.instance_id)
            task = EvaluationTask(prediction, instance, evaluation)
            graded = self.regrade(task, verdict)
        yield from self._against_report(path, prediction, verdict, graded)

    def _against_report(
        self, place: Path, prediction: Prediction, verdict: Verdict, graded: Verdict | None
    ) -> Iterator[Difference]:
        """Compare with swebench's report, if there is one, and that with its test output."""
        path = eval_report(self.store, prediction)
        if not path.is_file():
            return
        report = read_object(path, _FIX)
        own = report.get(verdict.instance_id)
        if not isinstance(own, dict) or not isinstance(own.get("resolved"), bool):
            words = f"does not say whether {verdict.instance_id} is resolved"
            keys = (verdict.instance_id, "resolved")
            raise damage_at(path, keys, words, _FIX)
        log = eval_log(self.store, prediction)
        needed = verdict.conclusive and verdict.evaluator in BY_SWEBENCH and log.is_file()
        if needed and not tests_ended(log.read_text("utf-8", "replace")):
            words = "is conclusive, but the test output in logs/ shows no end of the tests"
            yield Difference(place, words)
            return
        if (verdict.status is VerdictStatus.RESOLVED) is not own["resolved"]:
            words = f"says {verdict.status.value}, but the report in logs/ says the opposite"
            yield Difference(place, words)
        if graded and graded.report and (spot := first_difference(report, graded.report)):
            yield Difference.at(path, spot, (), "graded again: ")


def _json(path: Path, expected: Callable[[], Iterator[Mapping[str, Any]]]) -> Iterator[Difference]:
    """Yield the first difference of the file at ``path`` to the most similar of ``expected``."""
    if not path.is_file():
        return
    found = read_object(path, _WRITE)
    spots = min((list(all_differences(found, one)) for one in expected()), key=len)
    if spots:
        yield Difference.at(path, spots[0])
