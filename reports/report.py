"""Report on runs and compare them: evaluate, print, write."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path

from bench.instances.validity import read_validity
from core.atomic import write_json_atomic
from core.money import UNKNOWN, column, dollars, in_words
from core.plaintext import Say, one_line
from core.redaction import Redactor
from reports.data.checksums import checksums_file, write_checksums
from reports.data.predictions import ALL_PREDS, write_all_preds
from reports.data.provenance import evaluation
from reports.data.rundata import RunData, read_predictions, read_run
from reports.data.verdicts import Verdict, leaderboard_lists
from reports.evaluation.requested import RequestedEvaluation
from reports.evaluation.settings import (
    EvaluationRoot,
    EvaluationSettings,
    EvaluatorKind,
)
from reports.named_runs import stores_of
from reports.pages.markdown import comparison_table, percent, run_tables, within
from reports.settings import ReportFormat, ReportSettings
from reports.statistics.collect import Money, RunStats, collect
from reports.statistics.denominators import UsedValidity, short_split
from reports.statsfile import comparison_json, stats_json
from runs.description import Run
from runs.keys import RESULTS_FILE, STATS_FILE
from runs.storage.manifest import note_evaluation
from runs.storage.store import RunStore


def report_command(
    runs: Sequence[Path],
    settings: ReportSettings,
    say: Say,
    show: Say | None = None,
    format: ReportFormat = "text",
) -> int:
    """Evaluate each run and report on it; return the exit code.

    It is 1 when something was to be evaluated and was not. ``say`` takes lines about the progress,
    and ``show`` the result.
    """
    show = show or say
    stores = stores_of(runs)
    code = 0
    for store in stores:
        report = report_on(store, settings, say)
        code = max(code, report.exit_code)
        if format == "json":
            show(_text(stats_json(report.stats)))
            continue
        if len(stores) > 1:
            show(f"## {store.run}\n")
        lines = _lines(report)
        if format == "markdown":
            lines = run_tables(report.stats)
        for line in lines:
            show(line)
    return code


def _lines(report: Report) -> Iterator[str]:
    for instance in report.run.instances:
        verdict = report.verdicts[instance.instance_id]
        words = [verdict.status.value.replace("_", " "), f"({verdict.evaluator})"]
        words += [verdict.reason] if verdict.reason else []
        words += (
            ["(edits test configuration)"] if instance.edits_test_configuration else []
        )
        words += [f"(tests: {instance.test_note})"] if instance.test_note else []
        yield (
            one_line(f"{instance.instance_id:32s}").ljust(32)
            + f" {one_line(' '.join(words))}"
        )
    yield from count_lines(report.stats)
    yield f"predictions    {report.all_preds}"
    if report.page:
        yield f"page           {report.page}"


def compare_command(
    stores: Sequence[RunStore], say: Say, show: Say, *, as_json: bool = False
) -> int:
    """Show the runs as they are and each pair of them, and write a page; evaluate nothing."""
    from reports.combine.combine import labels
    from reports.pages.comparison import Compared
    from reports.pages.write import write_comparison
    from reports.statistics.comparing import compare

    settings = EvaluationRoot(
        evaluation=EvaluationSettings(evaluator=EvaluatorKind.NONE)
    )
    every = []
    for store, label in zip(stores, labels(stores), strict=True):
        requested = RequestedEvaluation(store, settings, store.read_run() or Run(), say)
        run, stats = read_statistics(requested, None)
        every.append(Compared(replace(run, name=label), stats))
    comparisons = [compare(a.run, b.run) for a, b in combinations(every, 2)]
    if as_json:
        content = {
            "runs": [stats_json(compared.stats) for compared in every],
            "comparisons": [comparison_json(pair) for pair in comparisons],
        }
        show(_text(content))
    else:
        tables = [(compared.run.name, run_tables(compared.stats)) for compared in every]
        for pair in comparisons:
            tables.append((f"{pair.a} and {pair.b}", comparison_table(pair)))
        for title, lines in tables:
            for line in (f"## {title}\n", *lines, ""):
                show(line)
    named = [
        replace(compared, stats=replace(compared.stats, run=compared.run.name))
        for compared in every
    ]
    redact = Redactor.of_environment(os.environ)
    page = write_comparison(stores[0].out, named, comparisons, redact)
    say(f"page           {page}")
    return 0


def _text(value: object) -> str:
    return json.dumps(value, indent=1, ensure_ascii=True)


def count_lines(stats: RunStats) -> Iterator[str]:
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
        yield f"cost           {_dollars(stats.effort.dollars)}"
        return
    score = f"{percent(scores.selected.share)} of the selected"
    yield f"resolved       {counts.resolved:5d}  {score}"
    yield f"               {'':5s}  95 % interval {within(scores.selected.interval)}"
    if not stats.official:
        yield f"               {'':5s}  UNOFFICIAL: not evaluated by swebench in its images"
    if scores.evaluated.of < counts.selected:
        of = f"{scores.evaluated.of} evaluated"
        yield f"               {'':5s}  {percent(scores.evaluated.share)} of the {of}"
    if scores.split and scores.split.of != counts.selected:
        of = f"{scores.split.of} of {short_split(scores.split_name)}"
        yield f"               {'':5s}  {percent(scores.split.share)} of the {of}"
    if scores.valid and stats.validity:
        of = f"{scores.valid.of} valid by {one_line(stats.validity.file)}"
        yield f"  of them valid {scores.valid.count:4d}  {percent(scores.valid.share)} of the {of}"
        yield f"               {'':5s}  95 % interval {within(scores.valid.interval)}"
    yield f"unresolved     {counts.unresolved:5d}"
    yield f"not evaluated  {counts.not_evaluated:5d}"
    yield f"cost           {_dollars(stats.effort.dollars)}"


def _dollars(money: Money) -> str:
    if not money.complete:
        return f"unknown, at least {in_words(money.known)}" if money.known else UNKNOWN
    if not money.per_resolved:
        return in_words(money.known)
    whole, each = column([money.known, dollars(money.per_resolved)])
    return f"{whole}, {each} per resolved instance"


@dataclass(frozen=True)
class Report:
    run: RunData
    stats: RunStats
    all_preds: Path
    page: Path | None
    verdicts: Mapping[str, Verdict]
    exit_code: int


def read_statistics(
    requested: RequestedEvaluation, validity: UsedValidity | None
) -> tuple[RunData, RunStats]:
    """Return a run as its files are, and its statistics."""
    dataset = requested.dataset_at_hand()
    rows = dataset.rows if dataset else ()
    run = read_run(requested.store, rows)
    return run, collect(run, requested.split_with(len(rows)), validity)


def report_on(store: RunStore, settings: ReportSettings, say: Say) -> Report:
    """Evaluate a run, and write what is derived from its files."""
    predictions = read_predictions(store)
    described = store.read_run() or Run()
    validity = None
    if settings.report.validity:  # read before any evaluation
        selected = {
            *(described.selected or ()),
            *(p.instance_id for p in predictions),
        }
        validity = UsedValidity.of(read_validity(settings.report.validity), selected)
    requested = RequestedEvaluation(store, settings, described, say)
    path = store.folder / ALL_PREDS
    checksums_file(store).unlink(missing_ok=True)
    write_all_preds(store, predictions, requested.official_ids())
    evaluated = requested.evaluate(predictions)
    verdicts = evaluated.verdicts
    lacking = len(evaluated.failed)
    if settings.evaluation.all_attempts:
        lacking += requested.evaluate_others(read_run(store))
    run, stats = read_statistics(requested, validity)
    for damage in run.damaged:
        say(f"note: {damage}; costs are shown without it")
    lacking += stats.counts.not_evaluated
    lists = leaderboard_lists(predictions, verdicts)
    write_json_atomic(store.folder / RESULTS_FILE, lists)
    write_json_atomic(store.folder / STATS_FILE, stats_json(stats))
    note_evaluation(store, evaluation(run.instances))
    page = None
    if settings.report.page:
        # Imported here: matplotlib takes half a second, which only pages need.
        from reports.pages.write import write_pages

        dataset = requested.dataset_at_hand()
        issues = (
            dataset.statements(p.instance_id for p in predictions) if dataset else {}
        )
        redact = Redactor.of_environment(os.environ)
        page = write_pages(store, run, stats, issues=issues, redact=redact)
    write_checksums(store)
    incomplete = lacking > 0 and requested.kind != EvaluatorKind.NONE
    return Report(run, stats, path, page, verdicts, int(incomplete))
