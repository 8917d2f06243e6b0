"""Pure: all statistics of a run, as ``stats.json`` holds them (docs/statistics.md)."""

from __future__ import annotations

from dataclasses import dataclass

from reports.data.rundata import RunData
from reports.evaluation.evaluators.base import Verdict
from reports.statistics.bought import Bought, bought
from reports.statistics.breakdown import (
    AttemptRow,
    Group,
    by_attempt,
    by_model,
    by_origin,
    by_repository,
    by_year,
    plausible_among,
)
from reports.statistics.confusion import Confusion, confusion
from reports.statistics.denominators import DatasetSplit, Scores, UsedValidity, scores
from reports.statistics.effort import Effort, effort
from reports.statistics.failures import Failures, failures
from reports.statistics.gold import GoldFiles, gold_files
from reports.statistics.samples import PassAtK, pass_at_ks

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
        patch_unknown: predicted by another harness whose files hold no patch.
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
    bought: tuple[Bought, ...]
    pass_at_k: tuple[PassAtK, ...]
    failures: Failures
    validity: UsedValidity | None = None


def collect(run: RunData, split: DatasetSplit, used: UsedValidity | None = None) -> RunStats:
    """Return all statistics of ``run`` on ``split``."""
    verdicts = _verdicts(run)
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
        bought=bought(run),
        pass_at_k=pass_at_ks(run.instances),
        failures=failures(run),
        validity=used,
    )


def _verdicts(run: RunData) -> list[Verdict]:
    """Return the verdicts on patches; an empty prediction needs no evaluator."""
    evaluated = (i for i in run.instances if i.may_resolve and i.resolved is not None)
    return [instance.verdict for instance in evaluated if instance.verdict]


def _counts(run: RunData) -> Counts:
    patched = [instance for instance in run.instances if instance.may_resolve]
    return Counts(
        selected=len(run.selected),
        predicted=len(run.instances),
        generated=sum(bool(i.patch.strip()) for i in run.instances),
        no_generation=sum(i.patch_known and not i.patch.strip() for i in run.instances),
        plausible=plausible_among(run.instances),
        resolved=sum(instance.resolved is True for instance in run.instances),
        unresolved=sum(instance.resolved is False for instance in patched),
        not_evaluated=sum(instance.resolved is None for instance in patched),
        unfinished=len(run.unfinished),
        patch_unknown=sum(not instance.patch_known for instance in run.instances),
    )
