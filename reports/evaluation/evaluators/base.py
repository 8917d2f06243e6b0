"""The protocol of evaluators, their tasks and their verdicts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from bench.instances.instance import Evaluation, Instance
from reports.data.predictions import Prediction

# The files of one evaluation, as swebench names them.
OUTPUT_FILE, REPORT_FILE, PATCH_FILE = "test_output.txt", "report.json", "patch.diff"
RUN_LOG = "run_instance.log"
BY_SWEBENCH = ("docker", "modal")
"""Evaluators that run the installed swebench in its own images."""
OFFICIAL_TOOLS = (
    "pro",
    "live",
    "live-python",
    "multi-swe-bench",
    "rebench",
    "rebench-v2",
    "gym",
    "smith",
    "sb-cli",
)
"""Evaluators that run the official program of another task set, or swebench's own service."""


class VerdictStatus(str, Enum):
    """The result of evaluating one prediction."""

    RESOLVED = "resolved"
    UNRESOLVED = "unresolved"
    EMPTY = "empty"
    NOT_EVALUATED = "not_evaluated"


@dataclass(frozen=True)
class Verdict:
    """The verdict on one prediction.

    Attributes:
        evaluator: the name of the evaluator.
        reason: why it was not evaluated, or what swebench could not read, in one line.
        log: the test output; empty if there is none.
        report: swebench's report on the instance.
        image: the image of the tests, as ``NAME@DIGEST``; empty if they ran in none.
        evaluated: the time in UTC; empty if it was not recorded.
        swebench: the version that graded the output; empty if another tool did.
        tool: the revision or version of that other tool.
    """

    instance_id: str
    status: VerdictStatus
    evaluator: str
    reason: str = ""
    log: str = ""
    report: Mapping[str, object] | None = None
    image: str = ""
    evaluated: str = ""
    swebench: str = ""
    tool: str = ""

    @property
    def official(self) -> bool:
        """Whether the official evaluator of the task set gave it."""
        return self.evaluator in BY_SWEBENCH or self.evaluator in OFFICIAL_TOOLS

    @property
    def conclusive(self) -> bool:
        """Whether the prediction was evaluated."""
        return self.status is not VerdictStatus.NOT_EVALUATED

    @property
    def final(self) -> bool:
        """Whether no evaluator can improve it: it is official, or the patch is empty."""
        return self.status is VerdictStatus.EMPTY or (self.conclusive and self.official)


@dataclass(frozen=True)
class EvaluationTask:
    """A prediction to evaluate, with both halves of its instance."""

    prediction: Prediction
    instance: Instance
    evaluation: Evaluation


class Evaluator(Protocol):
    """Evaluates predictions."""

    @property
    def name(self) -> str:
        """The value of ``--evaluator`` that selects it."""

    def accepts(self, verdict: Verdict | None) -> bool:
        """Return whether a known verdict on the same patch need not be given again."""

    def prepare(self, tasks: Sequence[EvaluationTask]) -> Mapping[str, str]:
        """Fetch what ``tasks`` need, such as images, and say what is fetched.

        Returns:
            By id, why an instance cannot be evaluated.
        """

    def evaluate(self, tasks: Sequence[EvaluationTask], run_id: str) -> Iterator[Verdict]:
        """Yield a verdict for each of ``tasks``, which were prepared, as soon as it is known.

        An error outside of the patch gives ``NOT_EVALUATED`` with the reason.
        """


def verdict_of_report(
    task: EvaluationTask, report: Mapping[str, object], log: str, evaluator: str
) -> Verdict:
    """Return the verdict in swebench's report on an instance."""
    own = report.get(task.instance.instance_id)
    own = own if isinstance(own, Mapping) else {}
    status = VerdictStatus.RESOLVED if own.get("resolved") else VerdictStatus.UNRESOLVED
    return Verdict(
        task.instance.instance_id, status, evaluator, _suspected(own), log=log, report=report
    )


def _suspected(own: Mapping[str, object]) -> str:
    why = own.get("infra_failure_reason")
    return f"no test results could be read; the output looks like {why}" if why else ""
