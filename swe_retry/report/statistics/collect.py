"""Pure: all statistics of a run, as ``stats.json`` holds them (docs/statistics.md).

``RunStats`` and the sections that it names are tables of fields, each with its computation.
"""

# ruff: noqa: RUF009 - the fields of statistics are made by functions
from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from swe_retry.core.plaintext import abbreviate
from swe_retry.record.records import Attempt
from swe_retry.report.statistics.attempts import (
    LimitedRun,
    PassAtK,
    limited_runs,
    pass_at_ks,
)
from swe_retry.report.statistics.breakdown import (
    UNKNOWN,
    AttemptRow,
    Group,
    by_attempt,
    by_model,
    by_origin,
    groups,
)
from swe_retry.report.statistics.denominators import (
    DatasetSplit,
    ScoredRun,
    Scores,
    UsedValidity,
)
from swe_retry.report.statistics.effort import Effort
from swe_retry.report.statistics.fields import Statistic, compute, statistic
from swe_retry.report.statistics.methods import Share, ratio
from swe_retry.results.rundata import (
    InstanceData,
    RunData,
    repository_of,
    verdicts_on_patches,
)

SCHEMA = 1


def count(
    holds: Callable[[InstanceData], object],
    **options: Any,  # noqa: ANN401 - of dataclasses.field
) -> Statistic:
    """Return a statistic: the number of predicted instances for which something holds."""

    def number(run: RunData) -> int:
        return len(list(filter(holds, run.instances)))

    return statistic(number, **options)


@dataclass(frozen=True)
class Counts:
    """Numbers of instances.

    Attributes:
        selected: instances that the run was to attempt.
        predicted: with a prediction file; the sum of ``generated`` and ``no_generation``.
        no_generation: with a prediction that is empty.
        plausible: None if a prediction of another harness is among them.
        unresolved: with a patch and a verdict, and not resolved.
        not_evaluated: with a patch and without a verdict.
        unfinished: started, and without a prediction.
        patch_unknown: predicted by another harness whose files do not hold the patch.
    """

    selected: int = statistic(lambda run: len(run.selected))
    predicted: int = statistic(lambda run: len(run.instances))
    generated: int = count(lambda instance: instance.patch.strip())
    no_generation: int = count(lambda instance: not instance.may_resolve)
    plausible: int | None = statistic(lambda run: run.plausible_count)
    resolved: int = statistic(lambda run: run.resolved_count)
    unresolved: int = count(lambda i: i.may_resolve and i.resolved is False)
    not_evaluated: int = count(lambda i: i.may_resolve and i.resolved is None)
    unfinished: int = statistic(lambda run: len(run.unfinished))
    patch_unknown: int = count(lambda instance: not instance.patch_known, default=0)


@dataclass(frozen=True)
class Confusion:
    """Plausible against resolved, over the evaluated instances.

    Attributes:
        precision: share of plausible instances that are resolved; None without plausible ones.
        recall: share of resolved instances that are plausible; None without resolved ones.
    """

    plausible_resolved: int
    plausible_unresolved: int
    implausible_resolved: int
    implausible_unresolved: int
    precision: float | None
    recall: float | None


def confusion(run: RunData) -> Confusion:
    """Return the confusion table of plausibility (the prediction) and the verdict (the truth).

    C. J. van Rijsbergen, "Information Retrieval" (1979), chapter 7, for precision and recall.
    """
    numbers = Counter((i.plausible, i.resolved) for i in run.instances)
    resolved = numbers[True, True]
    plausible = resolved + numbers[True, False]
    all_resolved = resolved + numbers[False, True]
    return Confusion(
        plausible_resolved=resolved,
        plausible_unresolved=numbers[True, False],
        implausible_resolved=numbers[False, True],
        implausible_unresolved=numbers[False, False],
        precision=ratio(resolved, plausible),
        recall=ratio(resolved, all_resolved),
    )


def gold_share(
    lists_of: Callable[[InstanceData], Iterable[Sequence[str] | None]],
    heading: str,
) -> Statistic:
    """Return a statistic: the share of instances with all their gold files in one of the lists.

    It is of the instances whose gold files and lists are known.
    """

    def share(run: RunData) -> Share:
        count = 0
        total = 0
        for instance in run.instances:
            gold = set(instance.gold_files)
            lists = list(lists_of(instance))
            if gold and None not in lists:
                total += 1
                count += any(gold <= set(files or ()) for files in lists)
        return Share.compute(count, total)

    return statistic(share, heading)


def _chosen(instance: InstanceData) -> Attempt:
    return instance.chosen or Attempt()


@dataclass(frozen=True)
class GoldFiles:
    """Shares of instances, each with all of its gold files.

    Attributes:
        in_map: in the repository maps that models were shown; of the instances with known maps.
        added_by_winner: in the conversation of the predicted attempt.
        added_by_any: in the conversation of at least one attempt.
        edited_by_winner: edited by the predicted attempt.
        edited_by_any: edited by at least one attempt.
    """

    in_map: Share = gold_share(lambda i: [i.map_files], "in the repository map")
    added_by_winner: Share = gold_share(
        lambda i: [_chosen(i).added_files], "added by the chosen attempt"
    )
    added_by_any: Share = gold_share(
        lambda i: [a.added_files for a in i.attempts], "added by any attempt"
    )
    edited_by_winner: Share = gold_share(
        lambda i: [_chosen(i).changed_files], "edited by the chosen attempt"
    )
    edited_by_any: Share = gold_share(
        lambda i: [a.changed_files for a in i.attempts], "edited by any attempt"
    )


@dataclass(frozen=True)
class Reason:
    """A reason and how often it occurs."""

    reason: str
    count: int


@dataclass(frozen=True)
class StatusRow:
    """The instances of one status.

    Attributes:
        reasons: the status of the predicted attempt; for instances without a prediction, the
            recorded reason. The most frequent first.
    """

    status: str
    instances: int
    resolved: int
    reasons: tuple[Reason, ...]


@dataclass(frozen=True)
class Failures:
    """Reasons by status.

    Attributes:
        instances: by status, including instances without a prediction.
        attempts: statuses of attempts, the most frequent first.
        not_evaluated: why predictions have no verdict, as the evaluator says it.
    """

    instances: tuple[StatusRow, ...]
    attempts: tuple[Reason, ...]
    not_evaluated: tuple[Reason, ...]


def failures(run: RunData) -> Failures:
    """Return the reasons of ``run``, for successes as well."""
    reasons = defaultdict(list)
    resolved: Counter[str] = Counter()
    not_evaluated = []
    for instance in run.instances:
        status = str(instance.status)
        chosen = UNKNOWN
        if instance.chosen:
            chosen = str(instance.chosen.status)
        reasons[status].append(chosen)
        resolved[status] += instance.resolved is True
        if instance.may_resolve and instance.resolved is None:
            reason = ""
            if instance.verdict:
                reason = abbreviate(instance.verdict.reason, 100)
            not_evaluated.append(reason or "not evaluated yet")
    for entry in run.unfinished:
        reasons[entry.status].append(abbreviate(entry.reason, 100))
    rows = []
    for status, texts in reasons.items():
        rows.append(
            StatusRow(status, len(texts), resolved[status], _by_frequency(texts))
        )
    return Failures(
        instances=tuple(rows),
        attempts=_by_frequency(str(attempt.status) for attempt in run.attempts),
        not_evaluated=_by_frequency(not_evaluated),
    )


def _by_frequency(reasons: Iterable[str]) -> tuple[Reason, ...]:
    numbers = Counter(sorted(reasons))
    return tuple(Reason(reason, number) for reason, number in numbers.most_common())


def of_run(value_of: Callable[[RunData], object]) -> Statistic:
    """Return a statistic of a run, without its split and validity."""
    return statistic(lambda source: value_of(source.run))


def _is_official(run: RunData) -> bool:
    verdicts = verdicts_on_patches(run.instances)
    return bool(verdicts) and all(verdict.official for verdict in verdicts)


def _evaluators(run: RunData) -> tuple[str, ...]:
    verdicts = verdicts_on_patches(run.instances)
    return tuple(sorted({verdict.evaluator for verdict in verdicts}))


@dataclass(frozen=True)
class RunStats:
    """The statistics of a run.

    Attributes:
        schema_version: of this format.
        official: whether swebench itself gave every verdict.
        evaluators: that gave the verdicts on patches.
        validity: which selected instances are not known to be valid; None without a validity file.
    """

    schema_version: int = statistic(lambda source: SCHEMA)
    run: str = of_run(lambda run: run.name)
    model_name_or_path: str = of_run(lambda run: run.model_name_or_path)
    models: tuple[str, ...] = of_run(lambda run: run.models)
    official: bool = of_run(_is_official)
    evaluators: tuple[str, ...] = of_run(_evaluators)
    counts: Counts = of_run(partial(compute, Counts))
    scores: Scores = statistic(partial(compute, Scores))
    by_attempt: tuple[AttemptRow, ...] = of_run(by_attempt)
    by_model: tuple[Group, ...] = of_run(by_model)
    by_repository: tuple[Group, ...] = of_run(
        partial(groups, key=lambda i: i.repo, missing=repository_of)
    )
    by_year: tuple[Group, ...] = of_run(
        partial(
            groups,
            key=lambda i: str(i.year or UNKNOWN),
            missing=lambda _: UNKNOWN,
        )
    )
    by_origin: tuple[Group, ...] = of_run(by_origin)
    plausible: Confusion = of_run(confusion)
    gold_files: GoldFiles = of_run(partial(compute, GoldFiles))
    effort: Effort = of_run(partial(compute, Effort))
    bought: tuple[LimitedRun, ...] = of_run(limited_runs)
    pass_at_k: tuple[PassAtK, ...] = of_run(pass_at_ks)
    failures: Failures = of_run(failures)
    validity: UsedValidity | None = statistic(
        lambda source: source.validity, default=None
    )


def collect(
    run: RunData, split: DatasetSplit, used: UsedValidity | None = None
) -> RunStats:
    return compute(RunStats, ScoredRun(run, split, used))
