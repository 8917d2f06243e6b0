"""Evaluate where images have limited room: those that are there first, pinned meanwhile."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from core.errors import InfrastructureError
from reports.evaluation.evaluators.base import EvaluationTask

if TYPE_CHECKING:
    from environments.docker.imagestore.store import ImageStore


def image_batches(
    store: ImageStore, tasks: Sequence[EvaluationTask], most: int
) -> Iterator[Sequence[EvaluationTask]]:
    """Yield ``tasks`` in parts of at most ``most``, whose images stay until the next part.

    The images of the others are pulled meanwhile, where there is room. Nothing is waited for while
    an image is pinned: a harness that uses the same engine may wait for the same room. What cannot
    be pulled is yielded as well, for the evaluator to say why.
    """
    left = sorted(tasks, key=lambda task: (task.instance.repo, task.instance.version))
    with store.fetching_ahead([task.instance.image for task in left]):
        while left:
            with store.pinned_present(_images(left), most) as held:
                part = [task for task in left if task.instance.image in held][:most]
                if part:
                    yield part
            if not part:
                part = [task for task in left if task.instance.image == left[0].instance.image]
                yield from _one_image(store, part)
            done = {task.instance.instance_id for task in part}
            left = [task for task in left if task.instance.instance_id not in done]


def _images(tasks: Sequence[EvaluationTask]) -> list[str]:
    return [*dict.fromkeys(task.instance.image for task in tasks)]


def _one_image(
    store: ImageStore, tasks: Sequence[EvaluationTask]
) -> Iterator[Sequence[EvaluationTask]]:
    """Yield ``tasks``, which have one image, when it is there."""
    image = tasks[0].instance.image
    with suppress(InfrastructureError):
        store.fetch(image)
    with store.pinned_present([image], 1):
        yield tasks
