"""``report.py RUN…``: evaluate runs, write what is derived from their files, and print it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from swe_retry.core.atomic import write_json_atomic, write_text_atomic
from swe_retry.core.plaintext import Say
from swe_retry.core.redaction import Redactor
from swe_retry.instances.validity import not_valid
from swe_retry.record.description import Run
from swe_retry.record.keys import RESULTS_FILE, STATS_FILE
from swe_retry.record.manifest import note_evaluation
from swe_retry.record.store import RunStore
from swe_retry.report.evaluation.evaluate import RunEvaluation
from swe_retry.report.evaluation.evaluation_settings import (
    EvaluatorKind,
    ReportFormat,
    ReportSettings,
    RowKind,
)
from swe_retry.report.named_runs import stores_of
from swe_retry.report.pages.tables import run_tables
from swe_retry.report.statistics.collect import RunStats, collect
from swe_retry.report.statistics.denominators import UsedValidity
from swe_retry.report.statistics.wording import render_lines
from swe_retry.report.statsfile import stats_json
from swe_retry.results.checksums import checksums_file, write_checksums
from swe_retry.results.predictions import ALL_PREDS, Prediction, all_preds
from swe_retry.results.provenance import evaluation
from swe_retry.results.read import read_predictions, read_run
from swe_retry.results.rows import csv_text, records_of
from swe_retry.results.rundata import RunData
from swe_retry.results.verdicts import Verdict, leaderboard_lists


@dataclass(frozen=True)
class Report:
    """What was written about a run.

    Attributes:
        exit_code: 1 if something was to be evaluated and was not, or the ledger is damaged.
    """

    run: RunData
    stats: RunStats
    all_preds: Path
    page: Path | None
    verdicts: Mapping[str, Verdict]
    exit_code: int


def report_command(
    runs: Sequence[Path],
    settings: ReportSettings,
    say: Say,
    show: Say | None = None,
    format: ReportFormat = "text",
    kind: RowKind = "instances",
) -> int:
    """Report on each run and return the largest exit code.

    ``say`` takes lines about the progress, and ``show`` the result. CSV has rows of one ``kind``.
    """
    show = show or say
    stores = stores_of(runs)
    code = 0
    for store in stores:
        report = report_on(store, settings, say)
        code = max(code, report.exit_code)
        if format == "json":
            show(json.dumps(stats_json(report.stats), indent=1))
            continue
        if format == "csv":
            is_first = store is stores[0]
            text = csv_text(records_of(report.run), kind, headed=is_first)
            if text:
                show(text.removesuffix("\n"))
            continue
        if len(stores) > 1:
            show(f"## {store.run}\n")
        lines = text_lines(report)
        if format == "markdown":
            lines = run_tables(report.stats)
        for line in lines:
            show(line)
    return code


def report_on(store: RunStore, settings: ReportSettings, say: Say) -> Report:
    """Evaluate a run, and write what is derived from its files."""
    predictions = read_predictions(store)
    described = store.read_run()
    # Read before any evaluation, which takes hours.
    validity = _read_validity(settings, described, predictions)
    run_evaluation = RunEvaluation(store, settings, described, say)
    preds_path = store.folder / ALL_PREDS
    checksums_file(store).unlink(missing_ok=True)
    write_text_atomic(preds_path, all_preds(predictions, run_evaluation.official_ids()))
    evaluated = run_evaluation.evaluate(predictions)
    lacking = len(evaluated.failed)
    if settings.evaluation.all_attempts:
        lacking += run_evaluation.evaluate_others(read_run(store))
    run, stats = read_statistics(run_evaluation, validity)
    lacking += stats.counts.not_evaluated
    for damage in run.damaged:
        say(f"note: {damage}; costs are shown without it")
    results = leaderboard_lists(predictions, evaluated.verdicts)
    write_json_atomic(store.folder / RESULTS_FILE, results)
    write_json_atomic(store.folder / STATS_FILE, stats_json(stats))
    note_evaluation(store, evaluation(run.instances))
    page = None
    if settings.report.page:
        page = _write_page(run_evaluation, run, stats)
    write_checksums(store)
    is_incomplete = lacking > 0 and run_evaluation.kind != EvaluatorKind.NONE
    is_damaged = bool(run.damaged)
    return Report(
        run=run,
        stats=stats,
        all_preds=preds_path,
        page=page,
        verdicts=evaluated.verdicts,
        exit_code=int(is_incomplete or is_damaged),
    )


def _read_validity(
    settings: ReportSettings,
    described: Run,
    predictions: Sequence[Prediction],
) -> UsedValidity | None:
    path = settings.report.validity
    if path is None:
        return None
    selected = {prediction.instance_id for prediction in predictions}
    selected.update(described.selected or ())
    return UsedValidity(path.name, not_valid(path, sorted(selected)))


def read_statistics(
    run_evaluation: RunEvaluation,
    validity: UsedValidity | None = None,
) -> tuple[RunData, RunStats]:
    """Return a run as its files are, and its statistics."""
    dataset = run_evaluation.dataset_at_hand()
    rows = dataset.rows if dataset else ()
    run = read_run(run_evaluation.store, rows)
    return run, collect(run, run_evaluation.split_with(len(rows)), validity)


def _write_page(run_evaluation: RunEvaluation, run: RunData, stats: RunStats) -> Path:
    # Imported here: matplotlib takes half a second, which only pages need.
    from swe_retry.report.pages.write import write_pages

    issues = {}
    dataset = run_evaluation.dataset_at_hand()
    if dataset:
        issues = dataset.statements(i.instance_id for i in run.instances)
    redact = Redactor.of_environment()
    return write_pages(run_evaluation.store, run, stats, issues=issues, redact=redact)


def text_lines(report: Report) -> list[str]:
    """Return a line for each instance, the counts, and the files that were written.

    A run on one's own repository has its summary in place of counts.
    """
    template = Path(__file__).with_name("report.txt")
    return render_lines(template, **vars(report))
