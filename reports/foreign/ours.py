"""Our own runs, and runs that were imported, in the model of any harness."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from reports.data.jsonvalues import mapping, objects, text, whole
from reports.data.rundata import (
    UNKNOWN_TOTALS,
    AttemptData,
    CallData,
    InstanceData,
    RunData,
    read_run,
    totals_of_calls,
)
from reports.foreign.files import message_step
from reports.foreign.model import (
    ASSISTANT,
    AgentAttempt,
    AgentStep,
    AttemptedInstance,
    AttemptedRun,
    RunLayout,
    folded,
)
from runs.storage.store import RunStore

OUTCOMES = ("edit_outcome", "lint_outcome", "test_outcome")


def ours_of(store: RunStore) -> AttemptedRun:
    """Return a run of ours; trajectories are read when its instances are iterated over."""
    run = read_run(store)
    versions = mapping(run.described.get("versions"))
    imported = mapping(run.described.get("imported"))
    agent = text(imported.get("agent")) or text(imported.get("layout"))
    own = f"{RunLayout.OURS.value} {text(versions.get('harness'))}".strip()
    instances = (_instance(store, run, one) for one in run.instances)
    return AttemptedRun(
        store.run, store.folder, RunLayout.OURS, instances, agent or own
    )


def _instance(
    store: RunStore, run: RunData, instance: InstanceData
) -> AttemptedInstance:
    name = instance.instance_id
    trajectory = store.raw_trajectory(name)
    raw = {whole(a.get("attempt")): a for a in objects(trajectory.get("attempts"))}
    return AttemptedInstance(
        instance_id=name,
        label=run.model_name_or_path,
        attempts=tuple(_attempt(a, raw.get(a.attempt)) for a in instance.attempts),
        winner=instance.winner,
        resolved=instance.resolved if instance.patch.strip() else None,
        reason=instance.reason,
        status=instance.status,
    )


def _attempt(data: AttemptData, raw: Mapping[str, Any] | None) -> AgentAttempt:
    messages = objects(raw.get("messages")) if raw else []
    known = {
        "edit_format": data.edit_format,
        "try": data.try_,
        "reflections": data.reflections,
        **dict(zip(OUTCOMES, (data.edit, data.lint, data.test), strict=True)),
        "added_files": list(data.added_files),
        "edits_test_configuration": data.edits_test_configuration,
    }
    steps = tuple(_steps(messages, data.calls)) if messages else None
    return AgentAttempt(
        attempt=data.attempt,
        model=data.model or None,
        steps=steps,
        totals=data.sums,
        patch=data.submittable_patch if data.patch_known else None,
        exit_status=data.status,
        seconds=data.seconds,
        error=data.error,
        known={} if data.totals else known,
    )


def _steps(
    messages: Sequence[Mapping[str, Any]], calls: Sequence[CallData]
) -> Iterator[AgentStep]:
    """Yield the messages as steps; each reply has its call's tokens where there are as many."""
    replies = sum(message.get("role") == ASSISTANT for message in messages)
    waiting = iter(calls if replies == len(calls) else ())
    found = []
    for message in messages:
        call = next(waiting, None) if message.get("role") == ASSISTANT else None
        totals = totals_of_calls([call]) if call else UNKNOWN_TOTALS
        step = message_step(message, reasoning="reasoning", totals=totals)
        found.append(replace(step, seconds=call.seconds) if call else step)
    yield from folded(found)
