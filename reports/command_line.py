"""Evaluate and report on runs: ``python report.py predictions/run1``."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import typer

from bench.cli.cli import About
from bench.instances.validity import read_validity
from bench.selection import Selection
from core.atomic import check_folder, write_json_atomic
from core.errors import UserError
from core.money import UNKNOWN, column, dollars, in_words
from core.options import built, command
from core.plaintext import Say, one_line
from core.redaction import Redactor
from reports.cli.options import (
    EvaluatorKind,
    ReportOptions,
    ReportTask,
    SubmissionOptions,
)
from reports.data.checksums import checksums_file, write_checksums
from reports.data.predictions import ALL_PREDS, write_all_preds
from reports.data.provenance import evaluation
from reports.data.rundata import RunData, read_predictions, read_run
from reports.data.verdicts import Verdict, leaderboard_lists
from reports.evaluation.requested import RequestedEvaluation
from reports.pages.markdown import comparison_table, percent, run_tables, within
from reports.statistics.collect import Money, RunStats, collect
from reports.statistics.denominators import UsedValidity, short_split
from reports.statsfile import comparison_json, stats_json
from runs.description import Run
from runs.keys import RESULTS_FILE, STATS_FILE
from runs.signals import sigterm_as_interrupt
from runs.storage.manifest import note_evaluation
from runs.storage.store import RunStore


@command(ReportOptions, ReportTask, SubmissionOptions, Selection, About)
def main(context: typer.Context, values: dict[str, Any]) -> None:
    """Write and evaluate all_preds.jsonl, and print the counts, tables or statistics."""
    asked = built(ReportTask, values)
    if asked.policies and not asked.lab:
        raise UserError("--policy is for --lab; pass both")
    recorded = _recorded_options(asked.runs)
    for option in ("cache", "repos"):
        values[option] = values[option] or _existing_folder(recorded.get(option))
    values["image_disk"] = values["image_disk"] or recorded.get("image-disk")
    values["image_prefix"] = values["image_prefix"] or recorded.get("image-prefix")
    options = built(ReportOptions, values)
    looks = (
        options.table
        or options.as_json
        or options.compare
        or options.verify
        or asked.lab
    )
    if options.evaluator not in (None, EvaluatorKind.NONE) or not looks:
        check_folder("--cache", options.cache)
    with sigterm_as_interrupt():
        code = _run(asked, options, values)
    raise typer.Exit(code)


def _run(asked: ReportTask, options: ReportOptions, values: dict[str, Any]) -> int:
    """Run the command asked for, and import its modules only then."""
    if options.evaluator:
        from reports.evaluation.evaluators.choice import check_evaluator

        check_evaluator(options.evaluator)
    selection = built(Selection, values)
    if asked.gold:
        return _gold(asked, options, selection)
    if selection != Selection():
        raise UserError(
            "--instances, --filter, --slice and --shuffle are for --gold alone"
        )
    if asked.export:
        from reports.foreign.export import export_command

        if len(asked.runs) != 1:
            raise UserError("--export LAYOUT DIR writes one run; name one")
        return export_command(asked.runs[0], *asked.export, print)
    # Standard output has only the result, so that it can be sent to a file.
    alone = options.table or options.as_json or asked.lab
    say = partial(print, file=sys.stderr, flush=True) if alone else print
    asked, options = _imported(asked, options, say)
    if asked.submission:
        from reports.submission.commands import submission_command

        package = built(SubmissionOptions, values | {"cache": options.cache})
        return submission_command(asked.runs, asked.submission, package, print)
    if not asked.runs:
        raise UserError("no run given; usage: report.py predictions/RUN")
    if asked.lab:
        from reports.lab.command import lab_command

        return lab_command(asked, options, say, print)
    return report_command(asked.runs, options, say, print)


def _gold(asked: ReportTask, options: ReportOptions, selection: Selection) -> int:
    from reports.validity.command import gold_command

    if asked.runs or options.dataset:
        raise UserError(
            "--gold names a dataset and takes no run and no --dataset; leave them out"
        )
    # Such a command takes hours, and its lines are often sent to a file.
    say = partial(print, flush=True)
    return gold_command(
        replace(options, dataset=asked.gold), asked.repeat, selection, say
    )


def _imported(
    asked: ReportTask, options: ReportOptions, say: Say
) -> tuple[ReportTask, ReportOptions]:
    # The import needs most of the harness.
    from reports.foreign.recognise import is_foreign

    foreign = [is_foreign(run) for run in asked.runs]
    if not any(foreign):
        return asked, options
    from reports.foreign.importing import import_run

    name = options.name if len(asked.runs) == 1 else ""
    runs = tuple(
        import_run(run, asked.out, name, say).folder if other else run
        for run, other in zip(asked.runs, foreign, strict=True)
    )
    return replace(asked, runs=runs), replace(options, name="") if name else options


def _recorded_options(runs: Sequence[Path]) -> Mapping[str, Any]:
    """Return the options that the first run recorded, as they were given."""
    if not runs or not runs[0].expanduser().is_dir():
        return {}
    described = RunStore.of_folder(runs[0]).read_run()
    return described.options if described else {}


def _existing_folder(folder: object) -> Path | None:
    return Path(folder) if isinstance(folder, str) and Path(folder).is_dir() else None


def report_command(
    runs: Sequence[Path], options: ReportOptions, say: Say, show: Say | None = None
) -> int:
    """Report on a run, on the combination of several, or compare them; return the exit code.

    It is 1 when something was to be evaluated and was not. ``say`` takes lines about the progress,
    and ``show`` the result.
    """
    if options.verify:
        # Imported here, and the page below: they need most of the harness, numpy or matplotlib.
        from reports.verify import verify_command

        return verify_command(runs, options, show or say)
    stores = [RunStore.of_folder(run) for run in runs]
    _check(stores, options)
    show = show or say
    if options.compare:
        return _compare(stores, options, say, show)
    store = stores[0]
    if len(stores) > 1:
        from reports.combine.combine import combine

        store = combine(stores, options.name, say)
    report = report_on(store, options, say)
    if options.as_json:
        show(_text(stats_json(report.stats)))
    else:
        for line in run_tables(report.stats) if options.table else _lines(report):
            show(line)
    return report.exit_code


def _check(stores: Sequence[RunStore], options: ReportOptions) -> None:
    folders = [store.folder for store in stores]
    if len({*folders}) < len(folders):
        raise UserError("a run is given twice; name each once")
    if options.compare and (len(stores) < 2 or options.name):
        raise UserError("--compare takes two runs or more, and no --name")
    if options.name and len(stores) < 2:
        raise UserError(
            "--name is for the combination of several runs; give two runs or more"
        )
    if options.table and options.as_json:
        raise UserError("--table and --json exclude each other; give one")


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


def _compare(
    stores: Sequence[RunStore], options: ReportOptions, say: Say, show: Say
) -> int:
    from reports.combine.combine import labels
    from reports.statistics.comparing import compare

    reports = [report_on(store, options, say) for store in stores]
    runs = [
        replace(report.run, name=label)
        for report, label in zip(reports, labels(stores), strict=True)
    ]
    found = [compare(a, b) for a, b in combinations(runs, 2)]
    if options.as_json:
        every = [stats_json(report.stats) for report in reports]
        show(
            _text(
                {"runs": every, "comparisons": [comparison_json(one) for one in found]}
            )
        )
    else:
        tables = [(report.run.name, run_tables(report.stats)) for report in reports]
        tables += [(f"{one.a} and {one.b}", comparison_table(one)) for one in found]
        for title, lines in tables:
            for line in (f"## {title}\n", *lines, ""):
                show(line)
    if options.page:
        from reports.pages.comparison import Compared
        from reports.pages.write import write_comparison

        compared = [
            Compared(run, replace(report.stats, run=run.name))
            for report, run in zip(reports, runs, strict=True)
        ]
        redact = Redactor.of_environment(os.environ)
        say(
            f"page           {write_comparison(stores[0].out, compared, found, redact)}"
        )
    return max(report.exit_code for report in reports)


def _text(value: object) -> str:
    return json.dumps(value, indent=1, ensure_ascii=True)


def count_lines(stats: RunStats) -> Iterator[str]:
    counts, scores = stats.counts, stats.scores
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


def report_on(store: RunStore, options: ReportOptions, say: Say) -> Report:
    """Evaluate a run and write what is derived; ``options.only_reads`` does neither."""
    predictions = read_predictions(store)
    described = store.read_run() or Run()
    used = None
    if options.validity:  # read before any evaluation
        selected = {
            *(described.selected or ()),
            *(p.instance_id for p in predictions),
        }
        used = UsedValidity.of(read_validity(options.validity), selected)
    reads = options.only_reads
    requested = RequestedEvaluation(store, options, described, say)
    path = store.folder / ALL_PREDS
    if not reads:
        checksums_file(store).unlink(missing_ok=True)
        write_all_preds(store, predictions, requested.official_ids())
    evaluated = requested.evaluate(predictions)
    verdicts = evaluated.verdicts
    dataset = requested.dataset_at_hand()
    rows = dataset.rows if dataset else ()
    run = read_run(store, rows)
    for damage in run.damaged:
        say(f"note: {damage}; costs are shown without it")
    lacking = 0
    if options.all_attempts:
        lacking = requested.evaluate_others(run)
        run = read_run(store, rows)
    stats = collect(run, requested.split_with(len(rows)), used)
    if not reads:
        lists = leaderboard_lists(predictions, verdicts)
        write_json_atomic(store.folder / RESULTS_FILE, lists)
        write_json_atomic(store.folder / STATS_FILE, stats_json(stats))
        note_evaluation(store, evaluation(run.instances))
    asked = requested.kind != EvaluatorKind.NONE
    lacking = lacking + stats.counts.not_evaluated + len(evaluated.failed)
    page = None
    if options.page and not reads:
        # Imported here: matplotlib takes half a second, which only pages need.
        from reports.pages.write import write_pages

        issues = (
            dataset.statements(p.instance_id for p in predictions) if dataset else {}
        )
        redact = Redactor.of_environment(os.environ)
        page = write_pages(store, run, stats, issues=issues, redact=redact)
    if not reads:
        write_checksums(store)
    return Report(run, stats, path, page, verdicts, int(asked and lacking > 0))
