"""Pure: an instance as an ATIF trajectory, its attempts as embedded trajectories of subagents.

The specification is that of the ``harbor`` package (``harbor/models/trajectories``, ATIF-v1.8).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from core.money import as_number
from core.plaintext import counted
from reports.foreign.model import ASSISTANT, AgentAttempt, AgentStep, AttemptedInstance, StepTotals
from reports.foreign.readers.atif import NEWEST, made_id
from reports.foreign.readers.joining import KEPT, kept_values

_SOURCES = {"system": "system", "user": "user", ASSISTANT: "agent"}


def atif_files(instance: AttemptedInstance, agent: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the one file of an instance."""
    name = instance.instance_id
    chosen = instance.chosen or instance.attempts[-1]
    own = {
        key: value for key, value in kept_values(instance, chosen).items() if key in _OF_INSTANCE
    }
    refs = [{"trajectory_id": _id(attempt)} for attempt in instance.attempts]
    made = counted(len(instance.attempts), "attempt")
    steps = [
        {"step_id": 1, "source": "user", "message": f"Resolve {name}."},
        {
            "step_id": 2,
            "source": "agent",
            "message": instance.reason or f"{made} on {name}.",
            "observation": {"results": [{"subagent_trajectory_ref": [ref]} for ref in refs]},
            "llm_call_count": 0,
        },
    ]
    yield (
        f"{name}.json",
        {
            **_head(agent, chosen),
            "session_id": name,
            "trajectory_id": name,
            "steps": steps,
            "extra": {KEPT: own, "instance_id": name, "patch": instance.patch},
            "subagent_trajectories": [_trajectory(instance, a, agent) for a in instance.attempts],
        },
    )


_OF_INSTANCE = ("instance_id", "model_name_or_path", "winner", "resolved", "reason", "status")


def _id(attempt: AgentAttempt) -> str:
    return f"attempt-{attempt.attempt}"


def _head(agent: str, attempt: AgentAttempt) -> dict[str, Any]:
    name, _, version = (agent or "unknown").partition(" ")
    described = {"name": name, "version": version or "unknown"}
    if attempt.model:
        described["model_name"] = attempt.model
    return {"schema_version": NEWEST, "agent": described}


def _trajectory(instance: AttemptedInstance, attempt: AgentAttempt, agent: str) -> dict[str, Any]:
    # A trajectory has at least one step: an attempt without messages ended before the first call.
    none = AgentStep("user", "No message was saved.")
    steps, totals = attempt.steps or (none,), attempt.totals
    return {
        **_head(agent, attempt),
        "session_id": instance.instance_id,
        "trajectory_id": _id(attempt),
        "steps": [_step(step, number) for number, step in enumerate(steps, 1)],
        "final_metrics": _known(
            {
                "total_prompt_tokens": totals.prompt_tokens,
                "total_completion_tokens": totals.completion_tokens,
                "total_cached_tokens": totals.cached_tokens,
                "total_cost_usd": as_number(totals.cost),
            }
        ),
        "extra": {KEPT: kept_values(instance, attempt), "patch": attempt.patch},
    }


def _step(step: AgentStep, number: int) -> dict[str, Any]:
    source = _SOURCES.get(step.role, "user")
    ids = [action.id or made_id(number, nth) for nth, action in enumerate(step.actions, 1)]
    extra = {"role": step.role} if source == "user" != step.role else {}
    if step.seconds is not None:
        extra["seconds"] = step.seconds  # type: ignore[assignment]
    found: dict[str, Any] = {"step_id": number, "source": source, "message": step.text}
    if source == "agent":
        found |= {"reasoning_content": step.reasoning or None, **_metrics(step.totals)}
        found["tool_calls"] = [
            {"tool_call_id": id, "function_name": a.name, "arguments": dict(a.arguments)}
            for id, a in zip(ids, step.actions, strict=True)
        ] or None
    if step.observations:
        results = []
        for seen in step.observations:
            answered = {"source_call_id": seen.action_id} if seen.action_id in ids else {}
            results.append({**answered, "content": seen.text})
        found["observation"] = {"results": results}
    return _known({**found, "extra": extra or None})


def _metrics(totals: StepTotals) -> dict[str, Any]:
    metrics = _known(
        {
            "prompt_tokens": totals.prompt_tokens,
            "completion_tokens": totals.completion_tokens,
            "cached_tokens": totals.cached_tokens,
            "cost_usd": as_number(totals.cost),
        }
    )
    if totals.calls == 0:
        return {}
    return {"metrics": metrics or None, "llm_call_count": totals.calls}


def _known(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values without None: a format's absent key means unknown."""
    return {key: value for key, value in values.items() if value is not None}
