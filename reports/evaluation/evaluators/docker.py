"""The official evaluator: swebench's containers on the local Docker engine."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from core.errors import InfrastructureError
from environments.docker.containers import Containers
from environments.docker.engine import connect
from environments.docker.environment import label_of
from environments.leftovers import remove_containers, remove_named
from environments.limits import ResourceLimits
from reports.data.verdicts import Verdict, VerdictStatus
from reports.evaluation.evaluators.base import EvaluationTask
from reports.evaluation.evaluators.images import ImagePreparation, digests
from reports.evaluation.evaluators.swebench import ENGINE_STOPPED, Swebench, check_rows

# An engine may still work on the last request of a client that was ended.
_SETTLE = 1.0
_SECONDS = 120.0
# swebench's folder of every image, and its ways to apply a patch there.
_FOLDER, _PATCH, _SCRIPT = "/testbed", "/harness/patch.diff", "/harness/check.sh"
_HAS_REPOSITORY = f"""cd {_FOLDER} && git -c safe.directory='*' rev-parse HEAD ||
{{ echo it has no repository in {_FOLDER}; exit 1; }}
"""
_FAILS_TO_APPLY = f"""git apply {_PATCH} || git apply --3way {_PATCH} ||
{{ git reset -q --hard; patch --batch --forward --fuzz=5 -p1 -i {_PATCH}; }} || exit 0
echo the patch applies to it, though it did not when swebench tried; exit 1
"""


@dataclass(frozen=True)
class DockerEvaluator:
    """Evaluates with swebench in containers."""

    swebench: Swebench
    images: ImagePreparation
    say: Callable[[str], None]
    name: str = field(default="docker", init=False)

    def accepts(self, verdict: Verdict | None) -> bool:
        return verdict is not None and verdict.final

    def prepare(self, tasks: Sequence[EvaluationTask]) -> Mapping[str, str]:
        lacking = check_rows(tasks)
        tasks = [task for task in tasks if task.instance.instance_id not in lacking]
        clean = partial(self._remove_left, whose="an earlier evaluation")
        return {**lacking, **self.images.prepare(tasks, clean)}

    def evaluate(self, tasks: Sequence[EvaluationTask], run_id: str) -> Iterator[Verdict]:
        images = digests(task.instance.image for task in tasks)
        try:
            failure = self.swebench.run(tasks, run_id)
            verdicts = [*self._verdicts(tasks, run_id, failure)]
        except BaseException:
            time.sleep(_SETTLE)
            raise
        finally:
            if client := connect():
                with closing(client), suppress(InfrastructureError):
                    self._remove_left(client, "the evaluation")
        for task, verdict in zip(tasks, verdicts, strict=True):
            yield replace(verdict, image=images.get(task.instance.image, ""))

    def _verdicts(
        self, tasks: Sequence[EvaluationTask], run_id: str, failure: str
    ) -> Iterator[Verdict]:
        client = connect()
        for task in tasks:
            verdict = self.swebench.verdict(
                task, run_id, self.name, failure if client else ENGINE_STOPPED
            )
            if why := _doubt(client, task, verdict, run_id):
                self.swebench.forget(task, run_id)
                verdict = replace(
                    verdict, status=VerdictStatus.NOT_EVALUATED, reason=why, report=None
                )
            yield verdict

    def _remove_left(self, client: Any, whose: str) -> None:  # noqa: ANN401 - no types
        for run_id in self.swebench.ended():
            # swebench adds the time to a name that is taken (``create_container`` of swebench 5.0).
            named = re.compile(rf"sweb\.eval\..+\.{re.escape(run_id)}(?:\.\d+)?")
            for name in remove_named(client, named):
                self.say(f"removed what {whose} left: container {name}")
            remove_containers(client, run_id)
            self.swebench.settle(run_id)


def _doubt(client: Any, task: EvaluationTask, verdict: Verdict, run_id: str) -> str:  # noqa: ANN401
    """Return why not the patch, but the image or the engine may be at fault; empty if it is.

    A test that passed shows that the image is right. Without one the image is looked at.
    """
    own: Any = (verdict.report or {}).get(verdict.instance_id) or {}
    passed = any(each["success"] for each in own.get("tests_status", {}).values())
    late = verdict.report is None and verdict.reason.startswith("Test timed out")
    if verdict.status is not VerdictStatus.UNRESOLVED or passed or late:
        return ""
    if client is None:
        return ENGINE_STOPPED
    image, labels = task.instance.image, label_of(run_id)
    as_root = Containers(client, labels, ResourceLimits(), folder="/", user="0:0", home="/root")
    script = _HAS_REPOSITORY + (_FAILS_TO_APPLY if verdict.report is None else "")
    try:
        with as_root.started(image) as container:
            container.put({}, {_PATCH: task.prediction.patch, _SCRIPT: f"exec 2>&1\n{script}"})
            result = container.bash([_SCRIPT], _SECONDS)
    except InfrastructureError as error:
        return f"the image {image} could not be looked at: {error}"
    return "" if result.exit_code == 0 else f"the image {image}: {result.output.strip()[-200:]}"
