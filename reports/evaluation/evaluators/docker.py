"""The official evaluator: swebench's containers on the local Docker engine."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from core.errors import InfrastructureError
from environments.docker.engine import connect, engine_answers, engine_error_types
from environments.docker.images import digest, missing_images
from environments.docker.imagestore.store import ImageStore
from environments.docker.registries import Registries
from environments.leftovers import remove_named
from reports.evaluation.evaluators.base import EvaluationTask, Verdict
from reports.evaluation.evaluators.swebench import ENGINE_STOPPED, Swebench, check_rows

_GB = 1e9


@dataclass(frozen=True)
class DockerEvaluator:
    """Evaluates with swebench in containers.

    Attributes:
        build: builds the images of these instances that no registry has; called before pulling.
        images: returns the images of a client's engine.
    """

    swebench: Swebench
    build: Callable[[Sequence[str]], None]
    say: Callable[[str], None]
    images: Callable[[Any], ImageStore]
    registries: Registries = field(default_factory=Registries)
    name: str = field(default="docker", init=False)

    def accepts(self, verdict: Verdict | None) -> bool:
        """Accept final verdicts."""
        return verdict is not None and verdict.final

    def prepare(self, tasks: Sequence[EvaluationTask]) -> Mapping[str, str]:
        """Check the engine and its disk, and pull missing images."""
        lacking = check_rows(tasks)
        tasks = [task for task in tasks if task.instance.instance_id not in lacking]
        return {**lacking, **self._unavailable(tasks)}

    def _unavailable(self, tasks: Sequence[EvaluationTask]) -> Mapping[str, str]:
        client = connect()
        if client is None:
            reason = "no Docker engine answers: start one, or use --evaluator local"
            self.say(f"engine: {reason}")
            return {task.instance.instance_id: reason for task in tasks}
        with closing(client):
            missing = self._missing(client, tasks)
        # While an engine shuts down, its errors do not give the real reason.
        return (
            dict.fromkeys(missing, ENGINE_STOPPED) if missing and not engine_answers() else missing
        )

    def _missing(self, client: Any, tasks: Sequence[EvaluationTask]) -> dict[str, str]:  # noqa: ANN401
        names = [task.instance.instance_id for task in tasks]
        try:
            self._say_engine(client)
            self._remove_left(client, tasks, "an earlier evaluation")
            self.build(names)
            absent = missing_images({task.instance.image for task in tasks})
            self._say_images(len({task.instance.image for task in tasks}), absent)
            failed = self.images(client).fetch_each(absent)
        except engine_error_types(InfrastructureError) as error:
            return dict.fromkeys(names, " ".join(str(error).split())[:300])
        return {
            task.instance.instance_id: failed[task.instance.image]
            for task in tasks
            if task.instance.image in failed
        }

    def _say_engine(self, client: Any) -> None:  # noqa: ANN401
        about = client.info()
        root = Path(str(about["DockerRootDir"]))
        # The engine may run on another machine, whose disk is not visible here.
        free = f"{shutil.disk_usage(root).free / _GB:.0f} GB" if root.is_dir() else "unknown space"
        self.say(f"engine: version {about['ServerVersion']}, {free} free in {root}")

    def _say_images(self, wanted: int, absent: Sequence[str]) -> None:
        if not absent:
            self.say(f"images: {wanted} at hand")
            return
        known = self.registries.sizes(absent)
        unknown = len(absent) - len(known)
        words = [f"{sum(known.values()) / _GB:.1f} GB to download"] if known else []
        words += [f"the size of {unknown} is unknown"] if unknown else []
        self.say(
            f"images: {wanted - len(absent)} at hand, {len(absent)} to be pulled "
            f"({', '.join(words)})"
        )

    def evaluate(self, tasks: Sequence[EvaluationTask], run_id: str) -> Iterator[Verdict]:
        """Yield official verdicts."""
        images = _digests(task.instance.image for task in tasks)
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


def _digests(images: Iterable[str]) -> dict[str, str]:
    """Return ``NAME@DIGEST`` by name, for the images of the engine."""
    client = connect()
    if client is None:
        return {}
    found: dict[str, str] = {}
    with closing(client), suppress(InfrastructureError):
        for image in sorted({*images}):
            found[image] = f"{image}@{digest(client, image)}"
    return found
