"""The protocol of evaluators and their tasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from bench.instances.instance import Evaluation, Instance
from reports.data.predictions import Prediction
from reports.data.verdicts import Verdict, VerdictStatus

MODEL = "candidate"
"""The model in predictions files: a tool names folders by it, so a run's own name is not used."""


@dataclass(frozen=True)
class EvaluationTask:
    """A prediction to evaluate, with both halves of its instance."""

    prediction: Prediction
    instance: Instance
    evaluation: Evaluation

    @property
    def instance_id(self) -> str:
        return self.instance.instance_id


Tasks = Sequence[EvaluationTask]


class Evaluator(Protocol):
    @property
    def name(self) -> str:
        """The value of ``--evaluator`` that selects it."""

    def accepts(self, verdict: Verdict | None) -> bool:
        """Return whether a known verdict on the same patch need not be given again."""
        if verdict is None or not verdict.conclusive:
            return False
        return verdict.final or verdict.evaluator == self.name

    def prepare(self, tasks: Tasks) -> Mapping[str, str]:
        """Fetch what ``tasks`` need, such as images, and say what is fetched.

        Returns:
            By id, why an instance cannot be evaluated.
        """
        return {}

    def evaluate(self, tasks: Tasks, run_id: str) -> Iterator[Verdict]:
        """Yield a verdict for each of ``tasks``, which were prepared, as soon as it is known.

        An error outside of the patch gives ``NOT_EVALUATED`` with the reason.
        """


def verdict_of_report(
    task: EvaluationTask, report: Mapping[str, object], log: str, evaluator: str
) -> Verdict:
    name = task.instance_id
    own = report.get(name)
    own = own if isinstance(own, Mapping) else {}
    status = VerdictStatus.RESOLVED if own.get("resolved") else VerdictStatus.UNRESOLVED
    why = own.get("infra_failure_reason")
    reason = (
        f"no test results could be read; the output looks like {why}" if why else ""
    )
    return Verdict(
        instance_id=name,
        status=status,
        evaluator=evaluator,
        reason=reason,
        log=log,
        report=dict(report),
    )


def swebench_prediction(
    name: str, task: EvaluationTask, model: str = MODEL
) -> dict[str, str]:
    return {
        "instance_id": name,
        "model_name_or_path": model,
        "model_patch": task.prediction.patch,
    }
