"""Our own runs, and runs that were imported, in the model of any harness."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from llm.chat import Message, Reply
from reports.data.rundata import InstanceData, RunData, read_instance, read_run
from reports.foreign.files import action_of
from reports.foreign.model import (
    ASSISTANT,
    TOOL,
    UNKNOWN_TOTALS,
    Action,
    AgentAttempt,
    AgentStep,
    AttemptedInstance,
    AttemptedRun,
    RunLayout,
    folded,
)
from runs.records import Attempt, Totals
from runs.storage.store import RunStore

OUTCOMES = tuple(name for name in Attempt.model_fields if name.endswith("_outcome"))


def ours_of(store: RunStore) -> AttemptedRun:
    """Return a run of ours; trajectories are read when its instances are iterated over."""
    run = read_run(store)
    imported = run.described.imported or {}
    agent = str(imported.get("agent") or imported.get("layout") or "")
    if not agent:
        version = run.described.versions.get("harness") or ""
        agent = f"{RunLayout.OURS.value} {version}".strip()
    instances = (_instance(store, run, one) for one in run.instances)
    return AttemptedRun(store.run, store.folder, RunLayout.OURS, instances, agent)


def _instance(
    store: RunStore, run: RunData, instance: InstanceData
) -> AttemptedInstance:
    path = store.prediction(instance.instance_id)
    whole = read_instance(store, path, run.models)
    return AttemptedInstance(
        instance_id=instance.instance_id,
        label=run.model_name_or_path,
        attempts=tuple(map(_attempt, whole.attempts)),
        winner=instance.winner.attempt if instance.winner else None,
        resolved=instance.resolved if instance.patch.strip() else None,
        reason=instance.reason,
        status=str(instance.status),
    )


def _attempt(attempt: Attempt) -> AgentAttempt:
    known = {
        "edit_format": attempt.edit_format,
        "try": attempt.try_,
        "reflections": attempt.reflections,
        **{name: getattr(attempt, name) for name in OUTCOMES},
        "added_files": list(attempt.added_files),
        "edits_test_configuration": attempt.edits_test_configuration,
    }
    messages = attempt.messages or ()
    steps = tuple(_steps(messages, attempt.calls or ())) if messages else None
    return AgentAttempt(
        attempt=attempt.attempt,
        model=attempt.label or None,
        steps=steps,
        totals=attempt.sums,
        patch=attempt.patch if attempt.patch_known else None,
        exit_status=str(attempt.status),
        seconds=attempt.seconds,
        error=attempt.error,
        known={} if attempt.totals else known,
    )


def _steps(messages: Sequence[Message], calls: Sequence[Reply]) -> Iterator[AgentStep]:
    """Yield the messages as steps; each reply has its call's tokens where there are as many."""
    replies = sum(message.role == ASSISTANT for message in messages)
    waiting = iter(calls if replies == len(calls) else ())
    steps = []
    for message in messages:
        call = next(waiting, None) if message.role == ASSISTANT else None
        actions = tuple(
            action_of(made.name, made.arguments, made.id) for made in message.tool_calls
        )
        if message.role == TOOL:
            actions = (Action("", {}, message.tool_call_id),)
        steps.append(
            AgentStep(
                role=message.role or "unknown",
                text=message.content,
                reasoning=message.reasoning,
                actions=actions,
                totals=Totals.of([call]) if call else UNKNOWN_TOTALS,
                seconds=call.seconds if call else None,
                lane=message.lane,
            )
        )
    yield from folded(steps)
