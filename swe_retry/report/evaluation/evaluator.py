"""What evaluators get and give: tasks, verdicts, and the proof that tests ran to their end."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from swe_retry.core.errors import UserError
from swe_retry.core.jsontypes import JsonMapping
from swe_retry.core.plaintext import Say
from swe_retry.instances.instance import Instance
from swe_retry.instances.split import Evaluation
from swe_retry.record.keys import is_safe_key
from swe_retry.report.evaluation.evaluation_settings import EvaluationRoot
from swe_retry.results.predictions import Prediction
from swe_retry.results.verdicts import Verdict, VerdictStatus

INCOMPLETE = (
    "its test output does not show that the tests ran from their beginning to their end, as when "
    "the container or the engine stops or memory runs out; repeat the command"
)
EXIT_CODE = ">>>>> Test Exit Code: "
"""The start of the line that swebench adds to scripts, for what the tests returned."""
# Anywhere in a line: the script's trace of its commands may be all that follows the tests.
_PRINTED = re.compile(rf"{EXIT_CODE}(\d+)")
# Signals that come from outside; a program's own faults end it with others.
_KILLED = (128 + signal.SIGKILL, 128 + signal.SIGTERM)


@dataclass(frozen=True)
class EvaluationTask:
    """A prediction to evaluate, with both halves of its instance.

    Attributes:
        is_trial: whether its verdict tells if a row can be evaluated here (``report.py gold``).
    """

    prediction: Prediction
    instance: Instance
    evaluation: Evaluation
    is_trial: bool = False

    @property
    def instance_id(self) -> str:
        return self.instance.instance_id

    @property
    def official_id(self) -> str:
        """The row's own id: the harness may use a neutral one, which hides the instance."""
        name = self.evaluation.instance_id
        if not is_safe_key(name):
            raise UserError(
                f"instance {name!r}: an id holds only letters, digits and ._+-"
            )
        return name

    def verdict(
        self,
        status: VerdictStatus,
        reason: str = "",
        *,
        log: str = "",
        report: JsonMapping | None = None,
    ) -> Verdict:
        """Return a verdict on the prediction; ``report`` is swebench's part on the instance.

        The evaluator's name is added where verdicts are saved.
        """
        return Verdict(
            instance_id=self.instance_id,
            status=status,
            evaluator="",
            reason=reason,
            log=log,
            report=None if report is None else {self.instance_id: report},
        )

    def no_result(self, reason: str, log: str = "") -> Verdict:
        return self.verdict(VerdictStatus.NOT_EVALUATED, reason, log=log)


Tasks = Sequence[EvaluationTask]


@dataclass(frozen=True)
class Evaluator:
    """Evaluates predictions.

    Attributes:
        name: the value of ``--evaluator`` that selects it.
        folder: for its files.
        dataset: as the user or the run named it.
    """

    name: str
    folder: Path
    settings: EvaluationRoot
    dataset: str
    split: str
    say: Say

    def accepts(self, verdict: Verdict | None) -> bool:
        """Return whether a verdict on the same patch need not be given again."""
        if verdict is None or not verdict.conclusive:
            return False
        return verdict.final or verdict.evaluator == self.name

    def batches(self, tasks: Tasks) -> Iterator[Tasks]:
        """Yield ``tasks`` in parts that are prepared and evaluated one after the other."""
        yield tasks

    def prepare(self, tasks: Tasks) -> dict[str, str]:
        """Fetch what ``tasks`` need, such as images, and say what is fetched.

        Returns:
            By id, why an instance cannot be evaluated.
        """
        return {}

    def evaluate(self, tasks: Tasks, run_id: str) -> Iterator[Verdict]:
        """Yield a verdict for each of ``tasks``, which were prepared, as soon as there is one.

        An error outside of the patch gives ``NOT_EVALUATED`` with the reason.
        """
        raise NotImplementedError


def tests_ended(exit_code: int | None) -> bool:
    """Return whether tests that returned ``exit_code``, None if unknown, ran to their end.

    Container, engine and evaluator may end before; what the tests printed until then is no verdict.
    """
    return exit_code is not None and exit_code not in _KILLED


def printed_exit_code(output: str) -> int | None:
    """Return the last exit code that an output states; None if it states none."""
    codes = _PRINTED.findall(output)
    if codes:
        return int(codes[-1])
    return None
