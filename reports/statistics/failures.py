"""Pure: the reasons why instances have no plausible prediction or no verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from core.plaintext import one_line, shortened
from reports.data.rundata import InstanceData, RunData

_LONGEST_REASON = 100


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
    pairs = [(i.status, _ending(i)) for i in run.instances]
    pairs += [(entry.status, _short(entry.reason)) for entry in run.unfinished]
    resolved = Counter(i.status for i in run.instances if i.resolved)
    statuses = dict.fromkeys(status for status, _ in pairs)
    return Failures(
        instances=tuple(_row(status, pairs, resolved[status]) for status in statuses),
        attempts=_ranked(a.status for i in run.instances for a in i.attempts),
        not_evaluated=_ranked(_not_evaluated(i) for i in run.instances if i.resolved is None),
    )


def _row(status: str, pairs: Iterable[tuple[str, str]], resolved: int) -> StatusRow:
    reasons = [reason for other, reason in pairs if other == status]
    return StatusRow(status, len(reasons), resolved, _ranked(reasons))


def _ending(instance: InstanceData) -> str:
    return instance.chosen.status if instance.chosen else "unknown"


def _not_evaluated(instance: InstanceData) -> str:
    reason = instance.verdict.reason if instance.verdict else ""
    return _short(reason) or "not evaluated yet"


def _short(reason: str) -> str:
    return one_line(shortened(reason, _LONGEST_REASON))


def _ranked(reasons: Iterable[str]) -> tuple[Reason, ...]:
    counted = sorted(Counter(reasons).items(), key=lambda pair: (-pair[1], pair[0]))
    return tuple(Reason(*pair) for pair in counted)
