"""The local evaluator works on ``evaluation.workers`` predictions at once."""

from __future__ import annotations

import time
from collections.abc import Generator
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from swe_retry.core.errors import StoppedError
from swe_retry.environments.local.environment import LocalEnvironment
from swe_retry.report.evaluation.evaluator import EvaluationTask
from swe_retry.report.evaluation.local import LocalEvaluator
from swe_retry.repositories.mirrors import Mirrors
from swe_retry.results.verdicts import Verdict, VerdictStatus
from tests.support.evaluated import TEXTKIT, report_settings, task


class TwoAtOnce(LocalEvaluator):
    """Each evaluation waits until another one is at work."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.barrier = Barrier(2, timeout=30)

    def _evaluate(
        self, task: EvaluationTask, mirrors: Mirrors, environment: LocalEnvironment
    ) -> Verdict:
        self.barrier.wait()
        return task.verdict(VerdictStatus.RESOLVED)


class FirstAtOnce(LocalEvaluator):
    """The first evaluation ends at once, and all others when they are asked to stop."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.started: list[EvaluationTask] = []
        self.stopped = 0

    def _evaluate(
        self, task: EvaluationTask, mirrors: Mirrors, environment: LocalEnvironment
    ) -> Verdict:
        self.started.append(task)
        if len(self.started) == 1:
            return task.verdict(VerdictStatus.RESOLVED)
        for _ in range(3000):
            try:
                environment.check()
            except StoppedError:
                self.stopped += 1
                raise
            time.sleep(0.01)
        raise AssertionError("the evaluation goes on")


def test_two_predictions_are_evaluated_at_once(tmp_path: Path, cache: Path) -> None:
    settings = report_settings(cache, "local", workers=2)
    evaluator = TwoAtOnce("local", tmp_path, settings, "demo", "test", print)
    tasks = [task(TEXTKIT) for _ in range(4)]
    verdicts = list(evaluator.evaluate(tasks, "r"))
    assert [verdict.status for verdict in verdicts] == [VerdictStatus.RESOLVED] * 4


@pytest.mark.parametrize("error", [KeyboardInterrupt, GeneratorExit])
def test_no_evaluation_goes_on_when_the_command_ends(
    tmp_path: Path, cache: Path, error: type[BaseException]
) -> None:
    settings = report_settings(cache, "local", workers=2)
    evaluator = FirstAtOnce("local", tmp_path, settings, "demo", "test", print)
    tasks = [task(TEXTKIT) for _ in range(20)]
    verdicts = evaluator.evaluate(tasks, "r")
    assert isinstance(verdicts, Generator)
    assert next(verdicts).status is VerdictStatus.RESOLVED
    with pytest.raises(error):
        verdicts.throw(error)
    # Those in work were stopped; the threads take no other.
    assert len(evaluator.started) <= 3
    assert evaluator.stopped == len(evaluator.started) - 1
    # The evaluator can go on with other tasks.
    evaluator.started.clear()
    (verdict,) = evaluator.evaluate(tasks[:1], "r")
    assert verdict.status is VerdictStatus.RESOLVED
