"""Pure: all statistics of a run, as ``stats.json`` holds them (docs/statistics.md)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal

from bench.attempts import choose
from core.money import Dollars, total
from core.plaintext import shortened
from reports.data.rundata import InstanceData, RunData
from reports.statistics.breakdown import (
    AttemptRow,
    Group,
    by_attempt,
    by_model,
    by_origin,
    by_repository,
    by_year,
    plausible_among,
    resolved_among,
)
from reports.statistics.denominators import DatasetSplit, Scores, UsedValidity, scores
from reports.statistics.methods import Share, mean_pass_at_k
from runs.records import Attempt, AttemptStatus

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


def pass_at_ks(instances: Sequence[InstanceData]) -> tuple[PassAtK, ...]:
    """Return pass@k for each k up to the number of attempts.

    The result is empty if instances have different numbers of attempts, or one each, because a run
    that stops at the first plausible candidate does not sample attempts. It is also empty if the
    harness or a recording, not the model, left an attempt unfinished.
    """
    if any(attempt.status in UNFINISHED for i in instances for attempt in i.attempts):
        return ()
    numbers = {len(instance.attempts) for instance in instances}
    if len(numbers) != 1 or (most := numbers.pop()) < 2:
        return ()
    plausible = _sample_counts(
        instances, lambda _, a: a.plausible if a.outcomes_known else None
    )
    resolved = _sample_counts(instances, InstanceData.resolved_by)
    return tuple(
        PassAtK(
            k,
            *(
                mean_pass_at_k(good, k) if good else None
                for good in (plausible, resolved)
            ),
        )
        for k in range(1, most + 1)
    )


def _sample_counts(
    instances: Sequence[InstanceData],
    is_good: Callable[[InstanceData, Attempt], bool | None],
) -> list[tuple[int, int]] | None:
    """Return the numbers of attempts and of good ones by instance; None if one is unknown."""
    counts = []
    for instance in instances:
        good = [is_good(instance, attempt) for attempt in instance.attempts]
        if None in good:
            return None
        counts.append((len(good), good.count(True)))
    return counts


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


def confusion(instances: Iterable[InstanceData]) -> Confusion:
    """Return the confusion table of plausibility (the prediction) and the verdict (the truth).

    C. J. van Rijsbergen, "Information Retrieval" (1979), chapter 7, for precision and recall.
    """
    pairs = [(i.plausible, i.resolved) for i in instances if i.resolved is not None]
    hit, miss = pairs.count((True, True)), pairs.count((True, False))
    lost, rest = pairs.count((False, True)), pairs.count((False, False))
    return Confusion(
        plausible_resolved=hit,
        plausible_unresolved=miss,
        implausible_resolved=lost,
        implausible_unresolved=rest,
        precision=hit / (hit + miss) if hit + miss else None,
        recall=hit / (hit + lost) if hit + lost else None,
    )


FileLists = Callable[[InstanceData], list[tuple[str, ...]]]


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

    in_map: Share
    added_by_winner: Share
    added_by_any: Share
    edited_by_winner: Share
    edited_by_any: Share


def gold_files(instances: Iterable[InstanceData]) -> GoldFiles:
    """Return the shares over the instances whose gold files are known."""
    known = [instance for instance in instances if instance.gold_files]
    mapped = [instance for instance in known if instance.map_files is not None]

    def share(among: Sequence[InstanceData], files: FileLists) -> Share:
        found = sum(
            any({*(i.gold_files or ())} <= {*each} for each in files(i)) for i in among
        )
        return Share.made(found, len(among))

    return GoldFiles(
        in_map=share(mapped, lambda i: [i.map_files or ()]),
        added_by_winner=share(
            known, lambda i: [i.chosen.added_files] if i.chosen else []
        ),
        added_by_any=share(known, lambda i: [a.added_files for a in i.attempts]),
        edited_by_winner=share(
            known, lambda i: [i.chosen.changed_files] if i.chosen else []
        ),
        edited_by_any=share(known, lambda i: [a.changed_files for a in i.attempts]),
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
    reasons: dict[str, list[str]] = {}
    for i in run.instances:
        reasons.setdefault(str(i.status), []).append(
            str(i.chosen.status) if i.chosen else "unknown"
        )
    for entry in run.unfinished:
        reasons.setdefault(entry.status, []).append(shortened(entry.reason, 100))
    resolved = Counter(str(i.status) for i in run.instances if i.resolved)
    missing = (
        i.verdict.reason if i.verdict else ""
        for i in run.instances
        if i.resolved is None
    )
    return Failures(
        instances=tuple(
            StatusRow(status, len(own), resolved[status], _ranked(own))
            for status, own in reasons.items()
        ),
        attempts=_ranked(str(attempt.status) for attempt in run.attempts),
        not_evaluated=_ranked(
            shortened(reason, 100) or "not evaluated yet" for reason in missing
        ),
    )


def _ranked(reasons: Iterable[str]) -> tuple[Reason, ...]:
    return tuple(Reason(*pair) for pair in Counter(sorted(reasons)).most_common())


@dataclass(frozen=True)
class LimitedRun:
    """A run limited to a number of attempts per instance.

    Attributes:
        attempts: the limit.
        resolved: selected instances resolved by the harness's choice among these attempts, whose
            patches are assumed to apply.
        lower_bound: whether a choice has no verdict; it counts as not resolved.
        dollars: of these attempts; None if a cost is unknown.
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
    spent: Decimal | None = Decimal()
    before, rows = 0, []
    tested = run.described.configuration.require_tests
    for number in sorted({a.attempt for i in run.instances for a in i.attempts}):
        verdicts = [
            _resolved_after(i, number, require_tests=tested) for i in run.instances
        ]
        found = verdicts.count(True)
        further, before = found - before, found
        dollars = total(
            a.cost for i in run.instances for a in i.attempts if a.attempt == number
        )
        spent = None if spent is None or dollars is None else spent + dollars
        each = float(dollars) / further if further > 0 and dollars is not None else None
        share = Share.made(found, len(run.selected), known=run.evaluated)
        rows.append(
            LimitedRun(number, share, None in verdicts, spent, further, dollars, each)
        )
    return tuple(rows)


def _resolved_after(
    instance: InstanceData, number: int, *, require_tests: bool
) -> bool | None:
    if instance.winner is None or instance.attempt <= number:
        # The best of all attempts is also the best of any subset that holds it.
        return instance.resolved
    attempts = {a.attempt: a for a in instance.attempts if a.attempt <= number}
    choice = choose(list(attempts.values()), require_tests=require_tests)
    return (
        instance.resolved_by(attempts[choice.winner.attempt])
        if choice.winner
        else False
    )


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
    """An ``Amount`` of dollars; the sum is exact."""

    known: Dollars
    complete: bool
    per_instance: float | None
    per_resolved: float | None


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

    attempts: Amount
    edit_errors: Share
    reflections: Amount
    calls: Amount
    prompt_tokens: Amount
    cached_tokens: Amount
    completion_tokens: Amount
    dollars: Money
    seconds: Amount


@dataclass(frozen=True)
class _Divisors:
    instances: int
    resolved: int

    def amount(self, values: Iterable[float | None]) -> Amount:
        every = list(values)
        known = [value for value in every if value is not None]
        complete = len(known) == len(every)
        total = sum(known)
        return Amount(total, complete, *self._each(total if complete else None))

    def money(self, known: Decimal, *, complete: bool) -> Money:
        return Money(known, complete, *self._each(float(known) if complete else None))

    def _each(self, total: float | None) -> tuple[float | None, float | None]:
        if total is None:
            return None, None
        per_instance = total / self.instances if self.instances else None
        return per_instance, total / self.resolved if self.resolved else None


def effort(run: RunData) -> Effort:
    attempts = run.attempts
    per = _Divisors(len(run.instances), resolved_among(run.instances))
    outcomes = [one.edit_outcome for one in attempts if one.edit_outcome is not None]
    return Effort(
        attempts=per.amount([float(len(attempts))]),
        edit_errors=Share.made(outcomes.count(False), len(outcomes)),
        reflections=per.amount(attempt.reflections for attempt in attempts),
        calls=per.amount(attempt.sums.calls for attempt in attempts),
        prompt_tokens=per.amount(_tokens(attempts, "prompt_tokens")),
        cached_tokens=per.amount(_tokens(attempts, "cached_tokens")),
        completion_tokens=per.amount(_tokens(attempts, "completion_tokens")),
        dollars=per.money(run.known_cost, complete=run.cost is not None),
        seconds=per.amount(attempt.seconds for attempt in attempts),
    )


def _tokens(attempts: Iterable[Attempt], name: str) -> Iterator[float | None]:
    """Yield the tokens of each call; None for calls and attempts without this information."""
    for attempt in attempts:
        if attempt.totals is not None:
            yield getattr(attempt.totals, name)
            continue
        if attempt.edit_format is None:
            yield None
        for call in attempt.calls or ():
            yield None if call.usage is None else getattr(call.usage, name)


SCHEMA = 1


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

    selected: int
    predicted: int
    generated: int
    no_generation: int
    plausible: int | None
    resolved: int
    unresolved: int
    not_evaluated: int
    unfinished: int
    patch_unknown: int = 0


@dataclass(frozen=True)
class RunStats:
    """The statistics of a run.

    Attributes:
        schema_version: of this format.
        official: whether swebench itself gave every verdict.
        evaluators: that gave the verdicts on patches.
        validity: which selected instances are not known to be valid; None without a validity file.
    """

    schema_version: int
    run: str
    model_name_or_path: str
    models: tuple[str, ...]
    official: bool
    evaluators: tuple[str, ...]
    counts: Counts
    scores: Scores
    by_attempt: tuple[AttemptRow, ...]
    by_model: tuple[Group, ...]
    by_repository: tuple[Group, ...]
    by_year: tuple[Group, ...]
    by_origin: tuple[Group, ...]
    plausible: Confusion
    gold_files: GoldFiles
    effort: Effort
    bought: tuple[LimitedRun, ...]
    pass_at_k: tuple[PassAtK, ...]
    failures: Failures
    validity: UsedValidity | None = None


def collect(
    run: RunData, split: DatasetSplit, used: UsedValidity | None = None
) -> RunStats:
    # An empty prediction needs no evaluator.
    evaluated = [i for i in run.instances if i.may_resolve and i.resolved is not None]
    verdicts = [instance.verdict for instance in evaluated if instance.verdict]
    return RunStats(
        schema_version=SCHEMA,
        run=run.name,
        model_name_or_path=run.model_name_or_path,
        models=run.models,
        official=bool(verdicts) and all(verdict.official for verdict in verdicts),
        evaluators=tuple(sorted({verdict.evaluator for verdict in verdicts})),
        counts=_counts(run),
        scores=scores(run, split, used),
        by_attempt=by_attempt(run),
        by_model=by_model(run),
        by_repository=by_repository(run),
        by_year=by_year(run),
        by_origin=by_origin(run),
        plausible=confusion(run.instances),
        gold_files=gold_files(run.instances),
        effort=effort(run),
        bought=limited_runs(run),
        pass_at_k=pass_at_ks(run.instances),
        failures=failures(run),
        validity=used,
    )


def _counts(run: RunData) -> Counts:
    patched = [instance for instance in run.instances if instance.may_resolve]
    return Counts(
        selected=len(run.selected),
        predicted=len(run.instances),
        generated=sum(bool(i.patch.strip()) for i in run.instances),
        no_generation=sum(i.patch_known and not i.patch.strip() for i in run.instances),
        plausible=plausible_among(run.instances),
        resolved=resolved_among(run.instances),
        unresolved=sum(instance.resolved is False for instance in patched),
        not_evaluated=sum(instance.resolved is None for instance in patched),
        unfinished=len(run.unfinished),
        patch_unknown=sum(not instance.patch_known for instance in run.instances),
    )
