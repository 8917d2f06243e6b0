"""No evaluation: keep the verdicts in verdict files and older predictions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from reports.data.verdicts import Verdict, VerdictStatus
from reports.evaluation.evaluators.base import EvaluationTask


@dataclass(frozen=True)
class NoEvaluator:
    """Accepts every known verdict and gives none."""

    name: str = field(default="none", init=False)

    def accepts(self, verdict: Verdict | None) -> bool:
        return True

    def prepare(self, tasks: Sequence[EvaluationTask]) -> Mapping[str, str]:
        return {}

    def evaluate(self, tasks: Sequence[EvaluationTask], run_id: str) -> Iterator[Verdict]:
        for task in tasks:
            yield Verdict(task.instance.instance_id, VerdictStatus.NOT_EVALUATED, self.name)
