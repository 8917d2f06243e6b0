"""The official evaluator on Modal: passes swebench's own option on.

It was never run here, because it needs an account.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from reports.data.verdicts import Verdict
from reports.evaluation.evaluators.base import EvaluationTask
from reports.evaluation.evaluators.swebench import Swebench, check_rows


@dataclass(frozen=True)
class ModalEvaluator:
    """Evaluates with swebench in Modal's sandboxes."""

    swebench: Swebench
    say: Callable[[str], None]
    name: str = field(default="modal", init=False)

    def accepts(self, verdict: Verdict | None) -> bool:
        return verdict is not None and verdict.final

    def prepare(self, tasks: Sequence[EvaluationTask]) -> Mapping[str, str]:
        lacking = check_rows(tasks)
        self.say("note: --evaluator modal passes swebench's option on and is not tested")
        try:
            from swebench.harness.modal_eval.utils import validate_modal_credentials

            validate_modal_credentials()
        except Exception as error:  # swebench documents no exception
            reason = str(error).splitlines()[0] if str(error) else repr(error)
            return {task.instance.instance_id: reason for task in tasks}
        return lacking

    def evaluate(self, tasks: Sequence[EvaluationTask], run_id: str) -> Iterator[Verdict]:
        # Verdicts of local containers must not be taken for those of Modal.
        run_id = f"{run_id}-{self.name}"
        failure = self.swebench.run(tasks, run_id, ["--modal", "true"])
        for task in tasks:
            yield self.swebench.verdict(task, run_id, self.name, failure)
