"""The protocol of evaluators, and the verdict that they give."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from bench.instances import Evaluation, Instance
from reports.predictions import Prediction


class VerdictStatus(str, Enum):
    """What the evaluation of one prediction came to."""

    RESOLVED = "resolved"
    UNRESOLVED = "unresolved"
    EMPTY = "empty"
    NOT_EVALUATED = "not_evaluated"


@dataclass(frozen=True)
class Verdict:
    """One prediction's verdict.

    Attributes:
        evaluator: ``docker`` is swebench itself; anything else is not official.
        reason: why it was not evaluated, in one line.
        log: the test output; empty where there is none.
        report: swebench's report on the instance.
    """

    instance_id: str
    status: VerdictStatus
    evaluator: str
    reason: str = ""
    log: str = ""
    report: Mapping[str, object] | None = None

    @property
    def official(self) -> bool:
        """Whether swebench's own evaluation gave it."""
        return self.evaluator == "docker"


@dataclass(frozen=True)
class Job:
    """One prediction to evaluate, with both halves of its instance."""

    prediction: Prediction
    instance: Instance
    evaluation: Evaluation


class Evaluator(Protocol):
    """Evaluates predictions."""

    @property
    def name(self) -> str:
        """The value of ``--evaluator`` that means it."""

    def evaluate(self, jobs: Sequence[Job], run_id: str) -> dict[str, Verdict]:
        """Return a verdict for each job by instance id.

        Raises:
            UserError, InfrastructureError: nothing could be evaluated.
        """


def verdict_of_report(job: Job, report: Mapping[str, object], log: str, evaluator: str) -> Verdict:
    """Return the verdict that swebench's report on an instance states."""
    own = report.get(job.instance.instance_id)
    resolved = isinstance(own, Mapping) and bool(own.get("resolved"))
    status = VerdictStatus.RESOLVED if resolved else VerdictStatus.UNRESOLVED
    return Verdict(job.instance.instance_id, status, evaluator, log=log, report=report)
