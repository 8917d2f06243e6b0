"""Fetch the images of an evaluation, and say what is fetched."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from core.errors import InfrastructureError
from environments.docker.engine import connect, engine_answers, engine_error_types
from environments.docker.images import digest, holds
from environments.docker.imagestore.store import ImageStore
from environments.docker.registries import Registries
from reports.evaluation.evaluators.base import EvaluationTask
from reports.evaluation.evaluators.swebench import ENGINE_STOPPED

_GB = 1e9


@dataclass(frozen=True)
class ImagePreparation:
    """Checks the engine and its disk, and pulls missing images.

    Attributes:
        build: builds the images of these instances that no registry has; called before pulling.
        images: returns the images of a client's engine.
    """

    build: Callable[[Sequence[str]], None]
    say: Callable[[str], None]
    images: Callable[[Any], ImageStore]
    registries: Registries = field(default_factory=Registries)

    def prepare(
        self, tasks: Sequence[EvaluationTask], first: Callable[[Any], None] = lambda _: None
    ) -> Mapping[str, str]:
        """Fetch the images of ``tasks``; return by id why one cannot be evaluated.

        ``first`` is called with a client of the engine before anything is fetched.
        """
        client = connect()
        if client is None:
            reason = "no Docker engine answers: start one, or use --evaluator local"
            self.say(f"engine: {reason}")
            return {task.instance.instance_id: reason for task in tasks}
        with closing(client):
            missing = self._missing(client, tasks, first)
        # While an engine shuts down, its errors do not give the real reason.
        return (
            dict.fromkeys(missing, ENGINE_STOPPED) if missing and not engine_answers() else missing
        )

    def _missing(
        self,
        client: Any,  # noqa: ANN401 - the SDK has no types
        tasks: Sequence[EvaluationTask],
        first: Callable[[Any], None],
    ) -> dict[str, str]:
        names = [task.instance.instance_id for task in tasks]
        try:
            self._say_engine(client)
            first(client)
            self.build(names)
            wanted = sorted({task.instance.image for task in tasks})
            absent = [image for image in wanted if not holds(client, image)]
            self._say_images(len(wanted), absent)
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


def digests(images: Iterable[str]) -> dict[str, str]:
    """Return ``NAME@DIGEST`` by name, for the images of the engine."""
    client = connect()
    if client is None:
        return {}
    found: dict[str, str] = {}
    with closing(client), suppress(InfrastructureError):
        for image in sorted({*images}):
            found[image] = f"{image}@{digest(client, image)}"
    return found
