"""``report.py RUN…``: evaluate runs, write what is derived from their files, and print it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.instances.validity import read_validity
from core.atomic import write_json_atomic
from core.money import UNKNOWN, dollars, in_words, range_words
from core.plaintext import Say, one_line, some
from core.redaction import Redactor
from reports.data.checksums import checksums_file, write_checksums
from reports.data.predictions import ALL_PREDS, Prediction, write_all_preds
from reports.data.provenance import evaluation
from reports.data.rundata import InstanceData, RunData, read_predictions, read_run
from reports.data.verdicts import Verdict, leaderboard_lists
from reports.evaluation.requested import RequestedEvaluation
from reports.evaluation.settings import EvaluatorKind
from reports.named_runs import stores_of
from reports.pages.markdown import run_tables, within
from reports.settings import ReportFormat, ReportSettings
from reports.statistics.collect import Money, RunStats, collect
from reports.statistics.denominators import UsedValidity, short_split
from reports.statistics.methods import percent
from reports.statsfile import stats_json
from runs.description import Run
from runs.keys import RESULTS_FILE, STATS_FILE
from runs.storage.manifest import note_evaluation
from runs.storage.store import RunStore


@dataclass(frozen=True)
class Report:
    """What was written about a run.

    Attributes:
        exit_code: 1 if something was to be evaluated and was not.
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
) -> int:
    """Report on each run and return the largest exit code.

    ``say`` takes lines about the progress, and ``show`` the result.
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
        if len(stores) > 1:
            show(f"## {store.run}\n")
        lines = text_lines(report)
        if format == "markdown":
            lines = run_tables(report.stats)
        for line in lines:
            show(line)
    return code


def report_on(
    store: RunStore,
    settings: ReportSettings,
    say: Say,
) -> Report:
    """Evaluate a run, and write what is derived from its files."""
    predictions = read_predictions(store)
    described = store.read_run()
    # Read before any evaluation, which takes hours.
    validity = _read_validity(settings, described, predictions)
    requested = RequestedEvaluation(store, settings, described, say)
    all_preds = store.folder / ALL_PREDS
    checksums_file(store).unlink(missing_ok=True)
    write_all_preds(store, predictions, requested.official_ids())
    evaluated = requested.evaluate(predictions)
    lacking = len(evaluated.failed)
    if settings.evaluation.all_attempts:
        lacking += requested.evaluate_others(read_run(store))
    run, stats = read_statistics(requested, validity)
    lacking += stats.counts.not_evaluated
    for damage in run.damaged:
        say(f"note: {damage}; costs are shown without it")
    results = leaderboard_lists(predictions, evaluated.verdicts)
    write_json_atomic(store.folder / RESULTS_FILE, results)
    write_json_atomic(store.folder / STATS_FILE, stats_json(stats))
    note_evaluation(store, evaluation(run.instances))
    page = None
    if settings.report.page:
        page = _write_page(requested, run, stats)
    write_checksums(store)
    is_incomplete = lacking > 0 and requested.kind != EvaluatorKind.NONE
    return Report(
        run=run,
        stats=stats,
        all_preds=all_preds,
        page=page,
        verdicts=evaluated.verdicts,
        exit_code=int(is_incomplete),
    )


def _read_validity(
    settings: ReportSettings,
    described: Run,
    predictions: Sequence[Prediction],
) -> UsedValidity | None:
    if settings.report.validity is None:
        return None
    selected = {prediction.instance_id for prediction in predictions}
    selected.update(described.selected or ())
    return UsedValidity.of(read_validity(settings.report.validity), selected)


def read_statistics(
    requested: RequestedEvaluation,
    validity: UsedValidity | None = None,
) -> tuple[RunData, RunStats]:
    """Return a run as its files are, and its statistics."""
    dataset = requested.dataset_at_hand()
    rows = dataset.rows if dataset else ()
    run = read_run(requested.store, rows)
    return run, collect(run, requested.split_with(len(rows)), validity)


def _write_page(
    requested: RequestedEvaluation,
    run: RunData,
    stats: RunStats,
) -> Path:
    # Imported here: matplotlib takes half a second, which only pages need.
    from reports.pages.write import write_pages

    issues: Mapping[str, str] = {}
    dataset = requested.dataset_at_hand()
    if dataset:
        issues = dataset.statements(i.instance_id for i in run.instances)
    redact = Redactor.of_environment(os.environ)
    return write_pages(requested.store, run, stats, issues=issues, redact=redact)


def text_lines(report: Report) -> Iterator[str]:
    """Yield a line for each instance, the counts, and the files that were written.

    A run on one's own repository has its summary in place of counts.
    """
    run = report.run
    if run.own_summary:
        yield from map(one_line, run.own_summary.splitlines())
        yield f"apply          {run.apply_command or 'nothing to apply'}"
    else:
        yield from _result_lines(report)
    yield f"predictions    {report.all_preds}"
    if report.page:
        yield f"page           {report.page}"


def _result_lines(report: Report) -> Iterator[str]:
    run = report.run
    for instance in run.instances:
        verdict = report.verdicts[instance.instance_id]
        name = one_line(f"{instance.instance_id:32s}").ljust(32)
        yield f"{name} {one_line(_verdict_text(instance, verdict))}"
    yield from _count_lines(report.stats)
    heading = "recorded" if run.is_replay else "cost"
    yield f"{heading:14} {_cost_text(report.stats.effort.dollars)}"
    if run.continue_command:
        started = [entry.instance_id for entry in run.unfinished]
        not_started = sorted(run.not_predicted.difference(started))
        for heading, names in (("unfinished", started), ("not started", not_started)):
            if names:
                yield f"{heading:14} {len(names):5d}  {one_line(some(names, 5))}"
        yield f"continue       {run.continue_command}"


def _verdict_text(instance: InstanceData, verdict: Verdict) -> str:
    text = f"{verdict.status.value.replace('_', ' ')} ({verdict.evaluator})"
    if verdict.reason:
        text += f" {verdict.reason}"
    if instance.edits_test_configuration:
        text += " (edits test configuration)"
    if instance.test_note:
        text += f" (tests: {instance.test_note})"
    return text


def _count_lines(stats: RunStats) -> Iterator[str]:
    """Yield the counts of a run and its scores by denominator."""
    counts = stats.counts
    scores = stats.scores
    yield f"selected       {counts.selected:5d}"
    yield f"generated      {counts.generated:5d}"
    yield f"no generation  {counts.no_generation:5d}"
    if counts.patch_unknown:
        yield f"patch unknown  {counts.patch_unknown:5d}"
    if counts.plausible is None:
        yield "plausible          –  unknown: the other harness does not say"
    else:
        yield f"plausible      {counts.plausible:5d}"
    if scores.selected.share is None:
        yield "resolved           –  not evaluated"
    else:
        yield from _score_lines(stats)
        yield f"unresolved     {counts.unresolved:5d}"
        yield f"not evaluated  {counts.not_evaluated:5d}"


def _score_lines(stats: RunStats) -> Iterator[str]:
    scores = stats.scores
    selected = stats.counts.selected
    indent = " " * 20
    share = percent(scores.selected.share)
    yield f"resolved       {stats.counts.resolved:5d}  {share} of the selected"
    yield f"{indent}  95 % interval {within(scores.selected.interval)}"
    if not stats.official:
        yield f"{indent}  UNOFFICIAL: not evaluated by swebench in its images"
    if scores.evaluated.of < selected:
        share = percent(scores.evaluated.share)
        yield f"{indent}  {share} of the {scores.evaluated.of} evaluated"
    if scores.split and scores.split.of != selected:
        share = percent(scores.split.share)
        split = short_split(scores.split_name)
        yield f"{indent}  {share} of the {scores.split.of} of {split}"
    if scores.valid and stats.validity:
        share = percent(scores.valid.share)
        valid = f"{scores.valid.of} valid by {one_line(stats.validity.file)}"
        yield f"  of them valid {scores.valid.count:4d}  {share} of the {valid}"
        yield f"{indent}  95 % interval {within(scores.valid.interval)}"


def _cost_text(money: Money) -> str:
    if money.complete:
        text = range_words(money.known, money.at_most)
        if money.per_resolved:
            per_resolved = in_words(dollars(money.per_resolved))
            text += f", {per_resolved} per resolved instance"
        return text
    if money.known:
        return f"unknown, at least {in_words(money.known)}"
    return UNKNOWN
