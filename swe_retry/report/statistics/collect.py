"""Pure: all statistics of a run, as ``stats.json`` holds them (docs/statistics.md).

``RunStats`` and the sections that it names are tables of fields, each with its computation.
"""

# ruff: noqa: RUF009 - the fields of statistics are made by functions
from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from statistics import fmean
from typing import Any

from swe_retry.attempts import choose, choose_by_evidence
from swe_retry.attempts.policy import SelectionRule
from swe_retry.core.money import Dollars, known_sum, total
from swe_retry.core.plaintext import abbreviate
from swe_retry.record.records import Attempt, AttemptStatus
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
from swe_retry.report.statistics.fields import Statistic, compute, statistic
from swe_retry.report.statistics.methods import Share, pass_at_k, ratio
from swe_retry.results.rundata import (
    InstanceData,
    RunData,
    repository_of,
    verdicts_on_patches,
)

SCHEMA = 1
UNFINISHED = {
    AttemptStatus.NOT_RECORDED,
    AttemptStatus.REPLAY_EXHAUSTED,
    AttemptStatus.INFRA_ERROR,
    AttemptStatus.INTERRUPTED,
}
"""Statuses of attempts that the harness or a recording, not the model, ended."""


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
class PassAtK:
    """The probability that at least one of ``k`` attempts is good, averaged over instances.

    Attributes:
        plausible: for plausible attempts; None if a harness does not say which are.
        resolved: for resolved attempts; None unless every attempt has a verdict.
    """

    k: int
    plausible: float | None
    resolved: float | None


def pass_at_ks(run: RunData) -> tuple[PassAtK, ...]:
    """Return pass@k for each k up to the number of attempts.

    The result is empty if instances have different numbers of attempts, or one each, because a run
    that stops at the first plausible candidate does not sample attempts. It is also empty if the
    harness or a recording, not the model, left an attempt unfinished.
    """
    numbers = {len(instance.attempts) for instance in run.instances}
    unfinished = any(attempt.status in UNFINISHED for attempt in run.attempts)
    if unfinished or len(numbers) != 1:
        return ()
    (number,) = numbers
    if number < 2:
        return ()
    plausible = []
    resolved = []
    for instance in run.instances:
        plausible.append(list(map(_plausible, instance.attempts)))
        resolved.append(list(map(instance.resolved_by, instance.attempts)))
    rows = []
    for k in range(1, number + 1):
        row = PassAtK(
            k=k,
            plausible=_pass_at_k(plausible, k),
            resolved=_pass_at_k(resolved, k),
        )
        rows.append(row)
    return tuple(rows)


def _plausible(attempt: Attempt) -> bool | None:
    if not attempt.outcomes_known:
        return None
    return attempt.plausible


def _pass_at_k(outcomes: Sequence[Sequence[bool | None]], k: int) -> float | None:
    """Return the mean over instances; None if an outcome is unknown."""
    values = []
    for samples in outcomes:
        if None in samples:
            return None
        values.append(pass_at_k(len(samples), samples.count(True), k))
    return fmean(values)


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


@dataclass(frozen=True)
class LimitedRun:
    """A run limited to a number of attempts per instance.

    Attributes:
        attempts: the limit.
        resolved: selected instances resolved by the harness's choice among these attempts, whose
            patches are assumed to apply.
        lower_bound: whether a choice has no verdict; it counts as not resolved.
        dollars: of these attempts, and from the second on of all scripts about candidates; None if
            a cost is unknown.
        further_resolved: the difference to the limit before; negative if the last attempt is chosen
            and is worse.
        further_dollars: the cost of the last attempts; None if unknown.
        dollars_per_further: per further resolved instance; None without any, or if unknown.
    """

    attempts: int
    resolved: Share
    lower_bound: bool
    dollars: Dollars | None
    further_resolved: int
    further_dollars: Dollars | None
    dollars_per_further: float | None


def limited_runs(run: RunData) -> tuple[LimitedRun, ...]:
    """Return a run's resolved instances and dollars with at most 1, 2, … attempts per instance."""
    costs = defaultdict(list)
    for instance in run.instances:
        numbers = sorted(attempt.attempt for attempt in instance.attempts)
        for attempt in instance.attempts:
            costs[attempt.attempt].append(attempt.cost)
        # A single candidate needs no scripts.
        for call in instance.script_calls:
            costs[numbers[:2][-1]].append(call.cost)
    rows = []
    dollars: Decimal | None = Decimal()
    resolved_before = 0
    for number in sorted(costs):
        verdicts = Counter(_resolved_after(run, i, number) for i in run.instances)
        further_resolved = verdicts[True] - resolved_before
        resolved_before = verdicts[True]
        further_dollars = total(costs[number])
        dollars = total([dollars, further_dollars])
        per_further = None
        if further_resolved > 0 and further_dollars is not None:
            per_further = float(further_dollars) / further_resolved
        row = LimitedRun(
            attempts=number,
            resolved=Share.compute(
                verdicts[True],
                len(run.selected),
                evaluated=run.is_evaluated,
            ),
            lower_bound=None in verdicts,
            dollars=dollars,
            further_resolved=further_resolved,
            further_dollars=further_dollars,
            dollars_per_further=per_further,
        )
        rows.append(row)
    return tuple(rows)


def _resolved_after(run: RunData, instance: InstanceData, number: int) -> bool | None:
    attempts = [a for a in instance.attempts if a.attempt <= number]
    configuration = run.described.configuration
    require_tests = configuration.require_tests
    if instance.winner is None or len(attempts) == len(instance.attempts):
        return instance.resolved
    if configuration.select == SelectionRule.EVIDENCE:
        winner = _choose_by_evidence(instance, attempts, require_tests)
    elif instance.attempt <= number:
        # The best of all attempts is also the best of any subset that holds it.
        return instance.resolved
    else:
        winner = choose(attempts, require_tests=require_tests).winner
    if winner is None:
        return False
    return instance.resolved_by(winner)


def _choose_by_evidence(
    instance: InstanceData, attempts: Sequence[Attempt], require_tests: bool
) -> Attempt | None:
    evidence = None
    if instance.evidence:
        numbers = [attempt.attempt for attempt in attempts]
        evidence = instance.evidence.among(dict(zip(numbers, numbers, strict=True)))
    return choose_by_evidence(
        attempts, evidence, instance.fit, require_tests=require_tests
    ).winner


@dataclass(frozen=True)
class Amount:
    """A sum over a run.

    Attributes:
        known: the sum of the known values.
        complete: whether all values are known.
        per_instance: the sum per predicted instance; None if incomplete or without instances.
        per_resolved: the sum per resolved instance; None if incomplete or without any.
    """

    known: float
    complete: bool
    per_instance: float | None
    per_resolved: float | None


@dataclass(frozen=True)
class Money:
    """An ``Amount`` of dollars; the sum is exact.

    Attributes:
        at_most: with calls that were lost or broke off, and may have been billed.
    """

    known: Dollars
    at_most: Dollars | None
    complete: bool
    per_instance: float | None
    per_resolved: float | None


def sum_over(
    values_of: Callable[[Attempt], Iterable[float | None]],
    heading: str = "",
) -> Statistic:
    """Return a statistic: the sum of values over all attempts."""

    def amount(run: RunData) -> Amount:
        total: float = 0
        complete = True
        for attempt in run.attempts:
            for value in values_of(attempt):
                if value is None:
                    complete = False
                else:
                    total += value
        return Amount(total, complete, *_per(run, total, complete))

    return statistic(amount, heading)


def _per(
    run: RunData, amount: float, complete: bool
) -> tuple[float | None, float | None]:
    """Return an amount per instance and per resolved instance; None if it is incomplete."""
    if not complete:
        return None, None
    return ratio(amount, len(run.instances)), ratio(amount, run.resolved_count)


def _dollars(run: RunData) -> Money:
    dollars = known_sum(run.costs)
    complete = run.cost is not None
    ratios = _per(run, float(dollars), complete)
    return Money(dollars, run.cost_at_most, complete, *ratios)


def _edit_errors(run: RunData) -> Share:
    outcomes = Counter(attempt.edit_outcome for attempt in run.attempts)
    return Share.compute(outcomes[False], outcomes[False] + outcomes[True])


def _tokens(name: str, attempt: Attempt) -> Iterator[float | None]:
    """Yield the tokens of each call; None for calls and attempts without this information."""
    if attempt.totals is not None:
        yield getattr(attempt.totals, name)
        return
    if attempt.edit_format is None:
        yield None
    for call in attempt.calls or ():
        yield getattr(call.usage, name, None)


@dataclass(frozen=True)
class Effort:
    """The effort of a run.

    Attributes:
        attempts: number of all attempts.
        edit_errors: attempts with a failed edit, of those whose edit outcome is known.
        dollars: of the whole run, from its ledger, else its predictions.
        seconds: sum of the wall-clock times of all attempts.
        prompt_tokens: including cached ones.
    """

    attempts: Amount = sum_over(lambda attempt: [1.0])
    edit_errors: Share = statistic(_edit_errors, "attempts with an edit error")
    reflections: Amount = sum_over(lambda attempt: [attempt.reflections])
    calls: Amount = sum_over(lambda attempt: [attempt.sums.calls])
    prompt_tokens: Amount = sum_over(partial(_tokens, "prompt_tokens"))
    cached_tokens: Amount = sum_over(
        partial(_tokens, "cached_tokens"), "of them cached"
    )
    completion_tokens: Amount = sum_over(partial(_tokens, "completion_tokens"))
    dollars: Money = statistic(_dollars)
    seconds: Amount = sum_over(lambda attempt: [attempt.seconds])


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
