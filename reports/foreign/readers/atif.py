"""Read ATIF trajectories (Agent Trajectory Interchange Format, v1.0 to v1.8).

The specification is that of the ``harbor`` package (``harbor/models/trajectories``). Harbor writes
``<trial>/agent/trajectory.json`` and, beside ``agent``, ``result.json`` with the task and rewards.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from core.errors import DamagedFileError
from reports.data.jsonvalues import mapping, number, objects, text
from reports.foreign.files import (
    FIX,
    RunFiles,
    action_of,
    checked_id,
    content_text,
    object_at,
    patch_of,
    totals_of,
)
from reports.foreign.model import (
    ASSISTANT,
    AgentAttempt,
    AgentStep,
    AttemptedInstance,
    Observation,
    summed,
)
from reports.foreign.readers.exported import KEPT, instance_of, with_kept
from runs.keys import RESULTS_FILE, is_safe_key

NEWEST = "ATIF-v1.8"
_PREFIX = "ATIF-v1."
_TRIAL = "result.json"
_ROLES = {"agent": ASSISTANT, "user": "user", "system": "system"}
_MOST_NESTED = 20


def is_atif(value: object) -> bool:
    return text(mapping(value).get("schema_version")).startswith(_PREFIX)


def read_atif(files: RunFiles) -> Iterator[AttemptedInstance]:
    """Yield the instances of a folder of trajectories; other JSON files are left out."""
    seen: dict[str, Path] = {}
    for path in files.ending(".json"):
        if path.name in (_TRIAL, RESULTS_FILE):
            continue
        data = object_at(path)
        if not is_atif(data):
            continue
        instance = _instance(path, data)
        name = instance.instance_id
        if (other := seen.setdefault(name, path)) != path:
            raise DamagedFileError(
                path, f"and {other} are both about {name}", "keep one"
            )
        yield instance


def _instance(path: Path, data: Mapping[str, Any]) -> AttemptedInstance:
    kept = mapping(mapping(data.get("extra")).get(KEPT))
    if kept and isinstance(data.get("subagent_trajectories"), list):
        tried = objects(data["subagent_trajectories"])
        attempts = [_attempt(path, one, n) for n, one in enumerate(tried, 1)]
        return instance_of(checked_id(path, kept.get("instance_id")), attempts, kept)
    place = path.parent.parent / _TRIAL
    beside = path.parent.name == "agent" and place.is_file() and not place.is_symlink()
    trial = object_at(place) if beside else {}
    rewards = mapping(mapping(trial.get("verifier_result")).get("rewards"))
    reward = number(rewards.get("reward"))
    resolved = None if reward is None else reward >= 1
    # As recorded, else by the task, the session or the file.
    extra, task = (
        mapping(data.get("extra")),
        text(trial.get("task_name")).rpartition("/")[2],
    )
    stem = path.parent.name if path.stem == "trajectory" else path.stem
    names = (extra.get("instance_id"), task, data.get("session_id"))
    name = checked_id(
        path, next((str(name) for name in names if is_safe_key(name)), stem)
    )
    return instance_of(name, [_attempt(path, data, 1)], {**kept, "resolved": resolved})


def _attempt(path: Path, data: Mapping[str, Any], nth: int) -> AgentAttempt:
    extra, agent = mapping(data.get("extra")), mapping(data.get("agent"))
    kept = mapping(extra.get(KEPT))
    steps = tuple(_all_steps(path, data, "", 0))
    final, totals = mapping(data.get("final_metrics")), summed(steps)
    # What the final metrics lack is the sum of all steps.
    finals = {name: final.get(f"total_{name}") for name in totals.counts()}
    final_totals = totals_of({**finals, "cost": final.get("total_cost_usd")})
    known = {
        name: value for name, value in vars(final_totals).items() if value is not None
    }
    totals = replace(totals, **known)
    attempt = AgentAttempt(
        attempt=nth,
        model=text(agent.get("model_name")) or None,
        steps=steps,
        totals=totals,
        patch=patch_of(path, extra.get("patch")),
        exit_status=None,
    )
    return with_kept(attempt, kept)


def _all_steps(
    path: Path, data: Mapping[str, Any], place: str, depth: int
) -> Iterator[AgentStep]:
    if not isinstance(data.get("steps"), list) or depth > _MOST_NESTED:
        raise DamagedFileError(path, f"is broken ({place or 'it'} has no `steps`)", FIX)
    for step in objects(data["steps"]):
        yield _step(step)
    for nth, one in enumerate(objects(data.get("subagent_trajectories"))):
        yield from _all_steps(
            path, one, f"{place}subagent_trajectories[{nth}].", depth + 1
        )


def made_id(step: object, nth: int) -> str:
    """Return the id of the ``nth`` action of a step if it has none: the format needs one."""
    return f"{step}-{nth}"


def _step(step: Mapping[str, Any]) -> AgentStep:
    metrics = mapping(step.get("metrics"))
    results = objects(mapping(step.get("observation")).get("results"))
    role = _ROLES.get(text(step.get("source")), "unknown")
    calls = [
        (call, text(call.get("tool_call_id")), made_id(step.get("step_id"), nth))
        for nth, call in enumerate(objects(step.get("tool_calls")), 1)
    ]
    extra = mapping(step.get("extra"))
    return AgentStep(
        role=text(extra.get("role")) or role,
        text=content_text(step.get("message")),
        reasoning=text(step.get("reasoning_content")),
        actions=tuple(
            action_of(
                c.get("function_name"), c.get("arguments"), "" if id == made else id
            )
            for c, id, made in calls
        ),
        observations=tuple(
            Observation(
                content_text(result.get("content")), text(result.get("source_call_id"))
            )
            for result in results
        ),
        totals=totals_of(
            {
                **metrics,
                "calls": step.get("llm_call_count"),
                "cost": metrics.get("cost_usd"),
            }
        ),
        seconds=number(extra.get("seconds")),
    )
