"""Have the patches judged that attempts left and that are not predicted, for pass@k."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest

from reports.judging import Judging
from reports.predictions import Prediction, other_patch
from reports.rundata import InstanceData, RunData


def rounds(run: RunData) -> tuple[tuple[Prediction, ...], ...]:
    """Return all patches of attempts that are not predicted, each once per instance.

    Evaluators take one patch per instance at a time: each round has at most one of each.
    """
    columns = [tuple(_patches(run.model_name_or_path, instance)) for instance in run.instances]
    return tuple(tuple(filter(None, found)) for found in zip_longest(*columns))


def _patches(label: str, instance: InstanceData) -> Iterator[Prediction]:
    patches = dict.fromkeys(attempt.fit_patch for attempt in instance.attempts)
    for patch in patches:
        if patch.strip() and patch != instance.patch:
            yield other_patch(instance.instance_id, label, patch)


def judge_others(run: RunData, judging: Judging) -> int:
    """Have them judged and return how many are not, now or before.

    Raises:
        UserError, InfrastructureError: nothing can be evaluated.
    """
    every = rounds(run)
    count = sum(map(len, every))
    judging.say(f"attempts that are not predicted: {count} patches, in {len(every)} rounds")
    lacking = 0
    for number, predictions in enumerate(every, 1):
        judging.say(f"round {number} of {len(every)}: {len(predictions)} patches")
        judged = judging.judge(predictions)
        lacking += sum(not verdict.settled for verdict in judged.verdicts.values())
    return lacking
