"""Pure: the patches of attempts that are not predicted."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest

from reports.data.predictions import Prediction, other_patch
from reports.data.rundata import InstanceData, RunData


def rounds(run: RunData) -> tuple[tuple[Prediction, ...], ...]:
    """Return all patches of attempts that are not predicted, without duplicates.

    Evaluators take one patch per instance at a time, so each round has at most one per instance.
    """
    patches = [tuple(_patches(run.model_name_or_path, instance)) for instance in run.instances]
    return tuple(tuple(filter(None, found)) for found in zip_longest(*patches))


def _patches(label: str, instance: InstanceData) -> Iterator[Prediction]:
    patches = dict.fromkeys(attempt.submittable_patch for attempt in instance.attempts)
    for patch in patches:
        if patch.strip() and patch != instance.patch:
            yield other_patch(instance.instance_id, label, patch)
