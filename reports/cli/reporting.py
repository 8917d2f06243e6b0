"""The report on one run: predictions, verdicts, statistics, each into its file."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.instances.dataset import Dataset
from bench.instances.validity import read_validity
from core.atomic import write_json_atomic
from core.plaintext import one_line
from core.redaction import Redactor
from reports.cli.options import EvaluatorKind, ReportOptions, Say
from reports.data.jsonvalues import texts
from reports.data.predictions import ALL_PREDS, Prediction, read_predictions, write_all_preds
from reports.data.provenance import evaluation
from reports.data.rundata import RunData, read_run
from reports.evaluation.evaluators.base import Verdict
from reports.evaluation.requested import RequestedEvaluation
from reports.evaluation.results import leaderboard_lists
from reports.statistics.collect import RunStats, collect
from reports.statistics.denominators import UsedValidity
from reports.statsfile import stats_json
from runs.storage.layouts import RESULTS_FILE, STATS_FILE
from runs.storage.manifest import note_evaluation
from runs.storage.store import RunStore


@dataclass(frozen=True)
class Report:
    """What was learned of a run.

    Attributes:
        all_preds: where the predictions for the evaluator lie.
        page: ``report.html``; None where none was asked for.
        verdicts: by instance id.
        exit_code: 1 when something was to be evaluated and was not.
    """

    run: RunData
    stats: RunStats
    all_preds: Path
    page: Path | None
    verdicts: Mapping[str, Verdict]
    exit_code: int

    def lines(self) -> Iterator[str]:
        """Yield a line for each instance: its verdict, by whom, and why there is none."""
        for instance in self.run.instances:
            verdict = self.verdicts[instance.instance_id]
            words = [verdict.status.value.replace("_", " "), f"({verdict.evaluator})"]
            words += [verdict.reason] if verdict.reason else []
            words += ["(edits test configuration)"] if instance.edits_test_configuration else []
            words += [f"(tests: {instance.test_note})"] if instance.test_note else []
            yield (
                one_line(f"{instance.instance_id:32s}").ljust(32) + f" {one_line(' '.join(words))}"
            )


def report_on(store: RunStore, options: ReportOptions, say: Say) -> Report:
    """Evaluate a run; write ``all_preds.jsonl``, verdicts, ``results.json``, ``stats.json``.

    With ``options.only_reads`` nothing is evaluated and nothing is written.

    Raises:
        UserError, InfrastructureError: it cannot be read, or nothing can be evaluated.
    """
    predictions = read_predictions(store)
    described = store.read_run() or {}
    used = _validity(options, described, predictions)
    reads = options.only_reads
    requested = RequestedEvaluation(store, options, described, say)
    path = store.folder / ALL_PREDS
    if not reads:
        write_all_preds(store, predictions, requested.official_ids())
    evaluated = requested.evaluate(predictions)
    verdicts = evaluated.verdicts
    dataset = requested.dataset_at_hand()
    run = read_run(store, _rows(dataset))
    for damage in run.damaged:
        say(f"note: {damage}; costs are shown without it")
    lacking = 0
    if options.all_attempts:
        lacking = requested.evaluate_others(run)
        run = read_run(store, _rows(dataset))
    stats = collect(run, requested.split(), used)
    if not reads:
        _write(store, predictions, verdicts, stats)
        note_evaluation(store, evaluation(run.instances))
    asked = requested.kind != EvaluatorKind.NONE
    lacking = lacking + stats.counts.not_evaluated + len(evaluated.failed)
    page = None
    if options.page and not reads:
        # Imported here: matplotlib takes half a second, which only pages need.
        from reports.pages.write import write_pages

        issues = dataset.statements(p.instance_id for p in predictions) if dataset else {}
        redact = Redactor.of_environment(os.environ)
        page = write_pages(store, run, stats, issues=issues, redact=redact)
    return Report(run, stats, path, page, verdicts, int(asked and lacking > 0))


def _validity(
    options: ReportOptions, described: Mapping[str, Any], predictions: Sequence[Prediction]
) -> UsedValidity | None:
    """Return what ``--validity`` says of the selected instances; read before any evaluation."""
    if options.validity is None:
        return None
    predicted = {prediction.instance_id for prediction in predictions}
    selected = {*texts(described.get("selected")), *predicted}
    return UsedValidity.of(read_validity(options.validity), selected)


def _rows(dataset: Dataset | None) -> Sequence[Mapping[str, Any]]:
    return dataset.rows if dataset else ()


def _write(
    store: RunStore,
    predictions: Sequence[Prediction],
    verdicts: Mapping[str, Verdict],
    stats: RunStats,
) -> None:
    write_json_atomic(store.folder / RESULTS_FILE, leaderboard_lists(predictions, verdicts))
    write_json_atomic(store.folder / STATS_FILE, stats_json(stats))
