"""The official evaluator: swebench's containers on the local Docker engine."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from core.errors import InfrastructureError
from core.plaintext import Say
from environments.base import ResourceLimits
from environments.docker.containers import Containers
from environments.docker.engine import connect, engine_answers, engine_error_types
from environments.docker.environment import label_of
from environments.docker.images import digest, missing_images
from environments.docker.imagestore import ImageStore
from environments.docker.registries import packed_sizes
from environments.leftovers import remove_containers, remove_named
from reports.data.verdicts import Verdict, VerdictStatus
from reports.evaluation.evaluators.base import EvaluationTask, Evaluator, Tasks
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
class ImagePreparation:
    """Checks the engine and its disk, and pulls missing images."""

    # Builds the images of these instances that no registry has; called before pulling.
    build: Callable[[Sequence[str]], None]
    say: Say
    images: Callable[[Any], ImageStore]  # of a client's engine

    def prepare(
        self, tasks: Tasks, first: Callable[[Any], None] = lambda _: None
    ) -> Mapping[str, str]:
        """Fetch the images of ``tasks``; return by id why one cannot be evaluated.

        ``first`` is called with a client of the engine before anything is fetched.
        """
        names = [task.instance_id for task in tasks]
        client = connect()
        if client is None:
            reason = "no Docker engine answers: start one, or use --evaluator local"
            self.say(f"engine: {reason}")
            return dict.fromkeys(names, reason)
        with closing(client):
            try:
                self._say_engine(client)
                first(client)
                self.build(names)
                failed = self.images(client).fetch_all(self._absent(client, tasks))
                missing = {
                    task.instance_id: failed[task.instance.image]
                    for task in tasks
                    if task.instance.image in failed
                }
            except engine_error_types(InfrastructureError) as error:
                missing = dict.fromkeys(names, " ".join(str(error).split())[:300])
        # While an engine shuts down, its errors do not give the real reason.
        stopped = missing and not engine_answers()
        return dict.fromkeys(missing, ENGINE_STOPPED) if stopped else missing

    def _say_engine(self, client: Any) -> None:  # noqa: ANN401 - the SDK has no types
        about = client.info()
        root = Path(str(about["DockerRootDir"]))
        # The engine may run on another machine, whose disk is not visible here.
        free = (
            f"{shutil.disk_usage(root).free / 1e9:.0f} GB"
            if root.is_dir()
            else "unknown space"
        )
        self.say(f"engine: version {about['ServerVersion']}, {free} free in {root}")

    def _absent(self, client: Any, tasks: Tasks) -> list[str]:  # noqa: ANN401
        wanted = sorted({task.instance.image for task in tasks})
        absent = missing_images(client, wanted)
        if not absent:
            self.say(f"images: {len(wanted)} at hand")
            return []
        known = packed_sizes(absent)
        unknown = len(absent) - len(known)
        words = [f"{sum(known.values()) / 1e9:.1f} GB to download"] if known else []
        words += [f"the size of {unknown} is unknown"] if unknown else []
        self.say(
            f"images: {len(wanted) - len(absent)} at hand, {len(absent)} to be pulled "
            f"({', '.join(words)})"
        )
        return absent


def digests(images: Iterable[str]) -> dict[str, str]:
    client = connect()
    if client is None:
        return {}
    found: dict[str, str] = {}
    with closing(client), suppress(InfrastructureError):
        for image in sorted({*images}):
            found[image] = f"{image}@{digest(client, image)}"
    return found


@dataclass(frozen=True)
class DockerEvaluator(Evaluator):
    swebench: Swebench
    images: ImagePreparation
    say: Say
    name: str = field(default="docker", init=False)

    def prepare(self, tasks: Tasks) -> Mapping[str, str]:
        lacking = check_rows(tasks)
        tasks = [task for task in tasks if task.instance_id not in lacking]
        clean = partial(self._remove_left, whose="an earlier evaluation")
        return {**lacking, **self.images.prepare(tasks, clean)}

    def evaluate(self, tasks: Tasks, run_id: str) -> Iterator[Verdict]:
        images = digests(task.instance.image for task in tasks)
        try:
            failure = self.swebench.run(tasks, run_id)
            client = connect()
            failure = failure if client else ENGINE_STOPPED
            verdicts = [self._verdict(client, task, run_id, failure) for task in tasks]
        except BaseException:
            time.sleep(_SETTLE)
            raise
        finally:
            if client := connect():
                with closing(client), suppress(InfrastructureError):
                    self._remove_left(client, "the evaluation")
        for task, verdict in zip(tasks, verdicts, strict=True):
            yield verdict.but(image=images.get(task.instance.image, ""))

    def _verdict(
        self,
        client: Any,  # noqa: ANN401
        task: EvaluationTask,
        run_id: str,
        failure: str,
    ) -> Verdict:
        verdict = self.swebench.verdict(task, run_id, failure)
        why = _doubt(client, task, verdict, run_id)
        if not why:
            return verdict
        self.swebench.forget(task, run_id)
        return verdict.but(status=VerdictStatus.NOT_EVALUATED, reason=why, report=None)

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
    as_root = Containers(
        client, labels, ResourceLimits(), folder="/", user="0:0", home="/root"
    )
    script = _HAS_REPOSITORY + (_FAILS_TO_APPLY if verdict.report is None else "")
    try:
        with as_root.started(image) as container:
            container.put(
                {}, {_PATCH: task.prediction.patch, _SCRIPT: f"exec 2>&1\n{script}"}
            )
            result = container.bash([_SCRIPT], _SECONDS)
    except InfrastructureError as error:
        return f"the image {image} could not be looked at: {error}"
    return (
        ""
        if result.exit_code == 0
        else f"the image {image}: {result.output.strip()[-200:]}"
    )
