"""Grade the test output that an earlier evaluation saved, without running tests."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

from reports.evaluation.evaluators.base import BY_SWEBENCH, EvaluationTask, Verdict
from reports.evaluation.evaluators.grading import grade_output
from reports.evaluation.evaluators.localoutput import grade_saved, is_saved
from reports.evaluation.evaluators.swebench import Swebench, saved_output, tests_ended
from reports.evaluation.verdicts import eval_log
from runs.storage.store import RunStore

# The end of evaluation ids of ``ModalEvaluator``.
_MODAL_RUN = re.compile(r"-[0-9a-f]{12}-modal$")


@dataclass(frozen=True)
class Regrading:
    """Grades the saved test output of a run.

    Attributes:
        swebench: finds its own logs, which are preferred to copies.
    """

    store: RunStore
    swebench: Swebench

    def __call__(self, task: EvaluationTask, known: Verdict | None) -> Verdict | None:
        """Return the verdict on the saved output of ``task``; None if there is no output.

        ``known`` is the current verdict. Without it, the copy in ``logs/<run>/`` is not used, for
        it may be of another patch.
        """
        image = known.image if known else ""
        if folder := self.swebench.saved(task):
            verdict = grade_output(task, saved_output(folder), _evaluator(folder))
            return replace(verdict, image=image)
        log = eval_log(self.store, task.prediction)
        if known is None or not known.conclusive or not log.is_file():
            return None
        text = log.read_text("utf-8", "replace")
        if known.evaluator not in BY_SWEBENCH:
            return grade_saved(task, text, known.evaluator) if is_saved(text) else None
        graded = replace(grade_output(task, text, known.evaluator), image=image)
        return graded if tests_ended(text) else None


def _evaluator(folder: Path) -> str:
    return "modal" if any(map(_MODAL_RUN.search, folder.parts)) else "docker"
