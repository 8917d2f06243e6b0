"""The official evaluator: swebench's containers on the local Docker engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from core.errors import InfrastructureError
from environments.docker.engine import connect
from environments.leftovers import remove_named
from reports.evaluation.evaluators.base import EvaluationTask, Verdict
from reports.evaluation.evaluators.images import ImagePreparation, digests
from reports.evaluation.evaluators.swebench import ENGINE_STOPPED, Swebench, check_rows


@dataclass(frozen=True)
class DockerEvaluator:
    """Evaluates with swebench in containers."""

    swebench: Swebench
    images: ImagePreparation
    say: Callable[[str], None]
    name: str = field(default="docker", init=False)

    def accepts(self, verdict: Verdict | None) -> bool:
        """Accept final verdicts."""
        return verdict is not None and verdict.final

    def prepare(self, tasks: Sequence[EvaluationTask]) -> Mapping[str, str]:
        """Check the engine and its disk, and pull missing images."""
        lacking = check_rows(tasks)
        tasks = [task for task in tasks if task.instance.instance_id not in lacking]
        clean = partial(self._remove_left, tasks=tasks, whose="an earlier evaluation")
        return {**lacking, **self.images.prepare(tasks, clean)}

    def evaluate(self, tasks: Sequence[EvaluationTask], run_id: str) -> Iterator[Verdict]:
        """Yield official verdicts."""
        images = digests(task.instance.image for task in tasks)
        try:
            failure = self.swebench.run(tasks, run_id)
        finally:
            answers = self._clean(tasks)
        failure = failure if answers else ENGINE_STOPPED
        for task in tasks:
            verdict = self.swebench.verdict(task, run_id, self.name, failure)
            yield replace(verdict, image=images.get(task.instance.image, ""))

    def _clean(self, tasks: Sequence[EvaluationTask]) -> bool:
        """Remove the containers that swebench left; return whether the engine answers."""
        client = connect()
        if client is None:
            return False
        with closing(client), suppress(InfrastructureError):
            self._remove_left(client, tasks, "the evaluation")
        return True

    def _remove_left(self, client: Any, tasks: Sequence[EvaluationTask], whose: str) -> None:  # noqa: ANN401
        for name in remove_named(client, self.swebench.left_containers(tasks)):
            self.say(f"removed what {whose} left: container {name}")
