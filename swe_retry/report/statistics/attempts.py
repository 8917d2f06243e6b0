"""Pure: what attempts are worth: pass@k, and what each further attempt buys."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from statistics import fmean

from swe_retry.attempts.choose import choose
from swe_retry.attempts.evidence.choice import choose_by_evidence
from swe_retry.attempts.policy import SelectionRule
from swe_retry.core.money import Dollars, total
from swe_retry.record.records import Attempt, AttemptStatus
from swe_retry.report.statistics.methods import Share, pass_at_k
from swe_retry.results.rundata import InstanceData, RunData

UNFINISHED = {
    AttemptStatus.NOT_RECORDED,
    AttemptStatus.REPLAY_EXHAUSTED,
    AttemptStatus.INFRA_ERROR,
    AttemptStatus.INTERRUPTED,
}
"""Statuses of attempts that the harness or a recording, not the model, ended."""


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
