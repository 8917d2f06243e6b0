"""Evaluators whose programs run containers of the instances' images on the local engine."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

from swe_retry.core.errors import InfrastructureError, UserError
from swe_retry.core.processes import without_secrets
from swe_retry.environments.choice import make_image_store
from swe_retry.environments.docker.engine import (
    connect,
    engine_answers,
    engine_error_types,
    engine_variables,
)
from swe_retry.environments.docker.images import digest, holds, missing_images
from swe_retry.environments.docker.imagestore import ImageStore
from swe_retry.environments.docker.registries import packed_sizes
from swe_retry.report.evaluation.evaluator import Evaluator, Tasks
from swe_retry.repositories.names import BUNDLED
from swe_retry.results.verdicts import Verdict

ENGINE_STOPPED = (
    "the Docker engine stopped answering during the evaluation; start it and "
    "repeat the command"
)
_FIX = "give --dataset one that has them, or --evaluator that of the set (docs/evaluators.md)"
_EMPTY_VALUES: tuple[object, ...] = (None, "", [], {})


class EngineEvaluator(Evaluator):
    """Runs a program that evaluates rows in containers.

    Attributes:
        columns: of a row that may not be empty.
        uses_engine: whether the containers run on the local engine.
    """

    columns: ClassVar[Sequence[str]] = ()
    uses_engine: ClassVar[bool] = True

    def run(self, tasks: Tasks, run_id: str) -> Iterator[Verdict]:
        """Run the program and yield a verdict for each of ``tasks``."""
        raise NotImplementedError

    def connect(self) -> Any | None:  # noqa: ANN401 - the SDK has no types
        """Return a client of the engine; None if none answers or the program uses none."""
        return connect() if self.uses_engine else None

    def batches(self, tasks: Tasks) -> Iterator[Tasks]:
        """Yield ``tasks`` in parts whose images find room, those first whose images are there.

        What cannot be pulled is yielded as well, for the evaluator to say why.
        """
        # No registry has the images of a bundled dataset.
        is_limited = self.settings.images.disk and self.dataset not in BUNDLED
        client = self.connect()
        if client is None or not is_limited:
            yield tasks
            return
        store = self._image_store(client)
        # A process of swebench takes seconds to start, and all its images stay until it ends.
        size = self.settings.evaluation.workers * 2
        left = sorted(
            tasks, key=lambda task: (task.instance.repo, task.instance.version)
        )
        while left:
            images = list(dict.fromkeys(task.instance.image for task in left))
            present = [image for image in images if holds(client, image)]
            with store.pin_some(present or images, size) as pinned:
                batch = [task for task in left if task.instance.image in pinned]
                batch = batch[:size]
                yield batch
            left = [task for task in left if task not in batch]

    def prepare(self, tasks: Tasks) -> dict[str, str]:
        reasons = self.incomplete_rows(tasks)
        if self.uses_engine:
            complete = [task for task in tasks if task.instance_id not in reasons]
            reasons |= self._prepare_images(complete)
        return reasons

    def evaluate(self, tasks: Tasks, run_id: str) -> Iterator[Verdict]:
        images = {}
        client = self.connect()
        if client:
            with closing(client), suppress(InfrastructureError):
                for task in tasks:
                    image = task.instance.image
                    images[task.instance_id] = f"{image}@{digest(client, image)}"
        for verdict in self.run(tasks, run_id):
            yield verdict.but(image=images.get(verdict.instance_id, ""))

    def incomplete_rows(self, tasks: Tasks) -> dict[str, str]:
        """Return by id what rows lack; a UserError if all of them lack something."""
        reasons = {}
        for task in tasks:
            row = task.evaluation.row
            missing = [key for key in self.columns if row.get(key) in _EMPTY_VALUES]
            if missing:
                reason = f"the row lacks {', '.join(missing)}, which {self.name} needs"
                reasons[task.instance_id] = reason
        if reasons and len(reasons) == len(tasks):
            name = tasks[0].instance_id
            raise UserError(f"instance {name}: {reasons[name]}; {_FIX}")
        return reasons

    def _image_store(self, client: Any) -> ImageStore:  # noqa: ANN401 - no types
        cache = self.settings.folders.cache
        return make_image_store(client, cache, self.settings.images, self.say)

    def _prepare_images(self, tasks: Tasks) -> dict[str, str]:
        """Pull the missing images; return by id why an instance cannot be evaluated."""
        names = [task.instance_id for task in tasks]
        client = connect()
        if client is None:
            reason = "no Docker engine answers: start one, or use --evaluator local"
            self.say(f"engine: {reason}")
            return dict.fromkeys(names, reason)
        missing = {}
        with closing(client):
            try:
                self._describe_engine(client)
                if self.dataset in BUNDLED:
                    BUNDLED[self.dataset].build_images(names)
                absent = self._absent_images(client, tasks)
                failures = self._image_store(client).fetch_all(absent)
                for task in tasks:
                    if task.instance.image in failures:
                        missing[task.instance_id] = failures[task.instance.image]
            except engine_error_types(InfrastructureError) as error:
                missing = dict.fromkeys(names, " ".join(str(error).split())[:300])
        # While an engine shuts down, its errors do not give the real reason.
        if missing and not engine_answers():
            return dict.fromkeys(missing, ENGINE_STOPPED)
        return missing

    def _describe_engine(self, client: Any) -> None:  # noqa: ANN401
        about = client.info()
        root = Path(str(about["DockerRootDir"]))
        # The engine may run on another machine, whose disk is not visible here.
        free = "unknown space"
        if root.is_dir():
            free = f"{shutil.disk_usage(root).free / 1e9:.0f} GB"
        self.say(f"engine: version {about['ServerVersion']}, {free} free in {root}")

    def _absent_images(self, client: Any, tasks: Tasks) -> list[str]:  # noqa: ANN401
        images = {task.instance.image for task in tasks}
        absent = missing_images(client, images)
        line = f"images: {len(images) - len(absent)} at hand"
        if absent:
            sizes = packed_sizes(absent)
            gigabytes = sum(sizes.values()) / 1e9
            line += (
                f", {len(absent)} to be pulled ({gigabytes:.1f} GB for {len(sizes)})"
            )
        self.say(line)
        return absent


def program_variables(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a program; rows are given as files, so it asks no hub."""
    return {
        **without_secrets(os.environ),
        **engine_variables(),
        "HF_HUB_OFFLINE": "1",
        **variables,
    }


def command_line(start: Sequence[str], options: Mapping[str, object]) -> list[str]:
    """Return a command with its options."""
    return [*start, *map(str, chain.from_iterable(options.items()))]
