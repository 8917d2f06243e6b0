"""The report on a study: its arms, each pair of them, a winner, and the cheapest policy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import fsum
from pathlib import Path

from pydantic import TypeAdapter

from swe_retry.core.errors import UserError
from swe_retry.core.jsontypes import JsonObject
from swe_retry.core.money import Dollars
from swe_retry.core.plaintext import Say
from swe_retry.core.redaction import Redactor
from swe_retry.core.sources import SourcedValue, check_settings
from swe_retry.record.result import InstanceStatus
from swe_retry.record.store import RunStore
from swe_retry.report.evaluation.evaluation_settings import ReportSettings
from swe_retry.report.pages.tables import Compared, Table
from swe_retry.report.pages.write import StudyPart, write_comparison
from swe_retry.report.report import report_on
from swe_retry.report.statistics.collect import RunStats, collect
from swe_retry.report.statistics.comparing import RunComparison, compare
from swe_retry.report.statistics.denominators import split_of
from swe_retry.report.statistics.methods import (
    CONFIDENCE,
    Interval,
    Share,
    bootstrap_interval,
    holm,
    needed_instances,
)
from swe_retry.report.statistics.wording import render_lines, render_text
from swe_retry.results.rundata import InstanceData, RunData
from swe_retry.study.arms import ended_by_budget
from swe_retry.study.lab.recorded import lab_data
from swe_retry.study.lab.report import cheapest_policy, lab_report
from swe_retry.study.studyfile import Study

_SAMPLES = 200


@dataclass(frozen=True)
class ArmResult:
    """An arm on its instances with an outcome.

    Attributes:
        config: tries and temperatures, as its run records them.
        solved: with a corrected Wilson's interval; the plain one of a share of 0.3 holds the truth
            in 91 % for 15 instances.
        unknown: the number of instances that broke, that the budget ended, or without a verdict.
        not_run: the number of those that were not started.
        stats: of the instances with an outcome.
        per_solved: the interval of dollars per solved instance; None if not all are known.
        spent: the dollars of the whole run.
    """

    name: str
    models: Sequence[str]
    config: JsonObject
    solved: Share
    unknown: int
    not_run: int
    stats: RunStats
    per_solved: Interval | None
    spent: Dollars | None


@dataclass(frozen=True)
class ArmPair:
    """Two arms on the instances with an outcome in both.

    Attributes:
        p_corrected: of McNemar's exact test, for the number of pairs (Holm).
        better: the arm that solves more; empty if chance explains the difference.
        further: the instances that are missing to tell the two apart; 0 if they are told apart,
            None if nothing differs.
        dollars: the mean of B minus A; None if not all are known.
        dollars_interval: by paired bootstrap.
    """

    solved: RunComparison
    p_corrected: float
    better: str
    further: int | None
    dollars: float | None
    dollars_interval: Interval | None


@dataclass(frozen=True)
class StudyResult:
    """What a study shows.

    Attributes:
        complete: the number of instances with an outcome in all arms.
        winner: the arm that solves more than each other; empty without one.
        policy: the row of the lab's cheapest policy on the complete instances, and its
            cross-validated figures; None without such instances.
    """

    name: str
    instances: int
    complete: int
    arms: Sequence[ArmResult]
    pairs: Sequence[ArmPair]
    winner: str
    policy: JsonObject | None


def report_settings(study: Study) -> ReportSettings:
    """Return the settings of the report; a UserError where they are wrong."""
    # The lab needs to know all attempts, which costs no call.
    layer = {"evaluation.all_attempts": SourcedValue("study", "true")}
    layer |= study.shared_layer(ReportSettings)
    return check_settings(ReportSettings, layer)


def report_study(study: Study, say: Say, show: Say, format: str) -> int:
    """Evaluate the arms, show what the study says, and write its page; call no model.

    Return the exit code: 1 if an instance lacks an outcome in an arm.
    """
    settings = report_settings(study)
    runs = []
    for arm in study.arms:
        folders = study.run_settings(arm).folders
        store = RunStore(folders.out, folders.run)
        if not store.folder.is_dir():
            fix = f"run `harness.py study {study.path}` first"
            raise UserError(f"arm {arm}: there is no run {store.folder}; {fix}")
        say(f"arm {arm}")
        report = report_on(store, settings, say)
        instances = tuple(map(hide_fault, report.run.instances))
        runs.append(replace(report.run, name=arm, instances=instances))
    result = compare_arms(study.name, runs)
    part = StudyPart(study.name, _lines("sentences.txt", result), list(_tables(result)))
    text = render_text(Path(__file__).with_name("study.md"), study=part)
    if format == "json":
        text = TypeAdapter(StudyResult).dump_json(result, indent=1).decode()
    show(text)
    code = int(result.complete < result.instances)
    if not settings.report.page:
        return code
    compared = [Compared(r, a.stats) for r, a in zip(runs, result.arms, strict=True)]
    comparisons = [pair.solved for pair in result.pairs]
    redact = Redactor.of_environment()
    page = write_comparison(store.out, compared, comparisons, redact, part)
    say(f"page           {page}")
    return code


def _lines(template: str, result: StudyResult) -> list[str]:
    return render_lines(Path(__file__).with_name(template), result=result)


def _tables(result: StudyResult) -> Iterator[Table]:
    for title, template in (("Arms", "arms.tsv"), ("Pairs of arms", "pairs.tsv")):
        head, *rows = [tuple(line.split("\t")) for line in _lines(template, result)]
        yield Table(title, head, tuple(rows), texts=2)


def hide_fault(instance: InstanceData) -> InstanceData:
    """Return an instance without a verdict where its end says nothing of the arm.

    It broke, or the money of the study ended.
    """
    if ended_by_budget(instance):
        return instance.but(verdict=None, status=InstanceStatus.BUDGET)
    if instance.status == InstanceStatus.ERROR:
        return instance.but(verdict=None)
    return instance


def with_outcomes(run: RunData, names: Collection[str] | None = None) -> RunData:
    """Return the part of a run whose outcome is known, of ``names`` alone if they are given."""
    instances = []
    for instance in run.instances:
        is_named = names is None or instance.instance_id in names
        if is_named and instance.resolved is not None:
            instances.append(instance)
    selected = tuple(instance.instance_id for instance in instances)
    return replace(run.part(instances), selected=selected, unfinished=())


def compare_arms(name: str, runs: Sequence[RunData]) -> StudyResult:
    """Compare runs, named as the arms, in which what a fault ended has no verdict."""
    evaluated = list(map(with_outcomes, runs))
    couples = list(combinations(evaluated, 2))
    comparisons = [compare(a, b) for a, b in couples]
    differences = [_cost_differences(a, b) for a, b in couples]
    pairs = compare_pairs(comparisons, differences)
    selected = set[str]().union(*(run.selected for run in runs))
    complete = selected.intersection(*(run.selected for run in evaluated))
    return StudyResult(
        name=name,
        instances=len(selected),
        complete=len(complete),
        arms=list(map(_arm_result, runs, evaluated)),
        pairs=pairs,
        winner=find_winner(pairs, len(runs)),
        policy=_cheapest_policy(evaluated, complete),
    )


def _arm_result(run: RunData, evaluated: RunData) -> ArmResult:
    instances = evaluated.instances
    started = len(run.instances) + len(run.unfinished)
    outcomes = [instance.resolved or False for instance in instances]
    return ArmResult(
        name=run.name,
        models=run.models,
        config=run.described.config,
        solved=Share.compute(evaluated.resolved_count, len(instances), correction=0.5),
        unknown=started - len(instances),
        not_run=len(run.selected) - started,
        stats=collect(evaluated, split_of("", "", 0)),
        per_solved=bootstrap_interval(evaluated.costs, outcomes),
        spent=run.cost,
    )


def compare_pairs(
    comparisons: Sequence[RunComparison], differences: Sequence[Sequence[float]]
) -> list[ArmPair]:
    """Return the pairs of arms; ``differences`` has for each the dollars of B minus A."""
    p_values = []
    for solved in comparisons:
        p_values.append(1.0 if solved.p_value is None else solved.p_value)
    pairs = []
    every = zip(comparisons, holm(p_values), differences, strict=True)
    for solved, p_value, dollars in every:
        better = ""
        further = needed_instances(solved.table, len(comparisons))
        if p_value < 1 - CONFIDENCE:
            better = solved.b if solved.table.difference > 0 else solved.a
            further = 0
        elif further is not None:
            # The exact test needs a few more than the formula says.
            further = max(further - solved.table.instances, 1)
        pair = ArmPair(
            solved=solved,
            p_corrected=p_value,
            better=better,
            further=further,
            dollars=fsum(dollars) / len(dollars) if dollars else None,
            dollars_interval=bootstrap_interval(dollars),
        )
        pairs.append(pair)
    return pairs


def _cost_differences(a: RunData, b: RunData) -> list[float]:
    """Return the dollars of B minus those of A by instance; none if not all are known."""
    costs = {instance.instance_id: instance.cost for instance in a.instances}
    differences = []
    for instance in b.instances:
        if instance.instance_id in costs:
            before = costs[instance.instance_id]
            if before is None or instance.cost is None:
                return []
            differences.append(float(instance.cost - before))
    return differences


def find_winner(pairs: Sequence[ArmPair], arms: int) -> str:
    """Return the arm that is better than each other; empty without one."""
    won = Counter(pair.better for pair in pairs)
    for name, count in won.items():
        if name and count == arms - 1:
            return name
    return ""


def _cheapest_policy(
    runs: Sequence[RunData], names: Collection[str]
) -> JsonObject | None:
    if not names:
        return None
    parts = [with_outcomes(run, names) for run in runs]
    report = lab_report(lab_data(parts, _SAMPLES), ())
    return {**cheapest_policy(report), "cross_validated": report["cross_validated"]}
