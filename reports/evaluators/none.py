"""No evaluation: the verdicts that are already there, in verdict files or older predictions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from reports.evaluators.base import Job, Verdict, VerdictStatus


@dataclass(frozen=True)
class NoEvaluator:
    """Accepts whatever is known, and gives no verdict of its own."""

    name: str = field(default="none", init=False)

    def accepts(self, verdict: Verdict) -> bool:
        """Return True: see ``Evaluator``."""
        return True

    def prepare(self, jobs: Sequence[Job]) -> Mapping[str, str]:
        """Need nothing; see ``Evaluator``."""
        return {}

    def evaluate(self, jobs: Sequence[Job], run_id: str) -> dict[str, Verdict]:
        """Evaluate nothing; see ``Evaluator``."""
        names = [job.instance.instance_id for job in jobs]
        return {name: Verdict(name, VerdictStatus.NOT_EVALUATED, self.name) for name in names}
