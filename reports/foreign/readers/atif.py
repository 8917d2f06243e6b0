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
from llm.chat import Message, Reply
from reports.data.jsonvalues import mapping, number, objects, text
from reports.data.rundata import InstanceData
from reports.foreign.files import (
    FIX,
    RunFiles,
    checked_id,
    content_text,
    object_at,
    patch_of,
    reply_of,
    tool_call_of,
    totals_of,
)
from reports.foreign.model import ASSISTANT, TOOL, sums_of
from reports.foreign.readers.exported import KEPT, attempt_of, instance_of
from runs.keys import RESULTS_FILE, is_safe_key
from runs.records import Attempt

NEWEST = "ATIF-v1.8"
_PREFIX = "ATIF-v1."
_TRIAL = "result.json"
_ROLES = {"agent": ASSISTANT, "user": "user", "system": "system"}
_MOST_NESTED = 20


def is_atif(value: object) -> bool:
    return text(mapping(value).get("schema_version")).startswith(_PREFIX)


def read_atif(files: RunFiles) -> Iterator[InstanceData]:
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


def _instance(path: Path, data: Mapping[str, Any]) -> InstanceData:
    extra = mapping(data.get("extra"))
    kept = mapping(extra.get(KEPT))
    embedded = objects(data.get("subagent_trajectories"))
    if kept and embedded:
        attempts = [_attempt(path, one, n) for n, one in enumerate(embedded, 1)]
        return instance_of(checked_id(path, kept.get("instance_id")), attempts, kept)
    trial = _trial_of(path)
    rewards = mapping(mapping(trial.get("verifier_result")).get("rewards"))
    reward = number(rewards.get("reward"))
    resolved = None if reward is None else reward >= 1
    # As recorded, else by the task, the session or the file.
    task = text(trial.get("task_name")).rpartition("/")[2]
    names = [extra.get("instance_id"), task, data.get("session_id")]
    safe_names = [str(name) for name in names if is_safe_key(name)]
    stem = path.parent.name if path.stem == "trajectory" else path.stem
    name = checked_id(path, safe_names[0] if safe_names else stem)
    return instance_of(name, [_attempt(path, data, 1)], {**kept, "resolved": resolved})


def _trial_of(path: Path) -> Mapping[str, Any]:
    """Return the result that Harbor writes beside the folder of a trajectory."""
    result = path.parent.parent / _TRIAL
    if path.parent.name != "agent" or not result.is_file() or result.is_symlink():
        return {}
    return object_at(result)


def _attempt(path: Path, data: Mapping[str, Any], number: int) -> Attempt:
    extra, agent = mapping(data.get("extra")), mapping(data.get("agent"))
    messages: list[Message] = []
    calls: list[Reply] = []
    for step in _all_steps(path, data, "", 0):
        message, *answers = _messages(step)
        messages += [message, *answers]
        if message.role == ASSISTANT:
            calls.append(_reply(step))
    # What the final metrics lack is the sum of all steps.
    final, totals = mapping(data.get("final_metrics")), sums_of(calls)
    finals = {name: final.get(f"total_{name}") for name in totals.counts()}
    final_totals = totals_of({**finals, "cost": final.get("total_cost_usd")})
    for name, value in vars(final_totals).items():
        if value is not None:
            totals = replace(totals, **{name: value})
    patch = patch_of(path, extra.get("patch"))
    attempt = Attempt(
        attempt=number,
        model=text(agent.get("model_name")),
        messages=tuple(messages),
        calls=tuple(calls),
        totals=totals,
        cost=totals.cost,
        model_patch=patch or "",
        patch_known=patch is not None,
    )
    return attempt_of(attempt, mapping(extra.get(KEPT)))


def _all_steps(
    path: Path, data: Mapping[str, Any], keys: str, depth: int
) -> Iterator[Mapping[str, Any]]:
    if not isinstance(data.get("steps"), list) or depth > _MOST_NESTED:
        raise DamagedFileError(path, f"is broken ({keys or 'it'} has no `steps`)", FIX)
    yield from objects(data["steps"])
    for nth, one in enumerate(objects(data.get("subagent_trajectories"))):
        yield from _all_steps(
            path, one, f"{keys}subagent_trajectories[{nth}].", depth + 1
        )


def made_id(step: object, nth: int) -> str:
    """Return the id of the ``nth`` action of a step if it has none: the format needs one."""
    return f"{step}-{nth}"


def _messages(step: Mapping[str, Any]) -> Iterator[Message]:
    """Yield the message of a step, and what its tools returned."""
    tool_calls = []
    for nth, call in enumerate(objects(step.get("tool_calls")), 1):
        id = text(call.get("tool_call_id"))
        if id == made_id(step.get("step_id"), nth):
            id = ""
        name, arguments = call.get("function_name"), call.get("arguments")
        tool_calls.append(tool_call_of(name, arguments, id))
    role = _ROLES.get(text(step.get("source")), "unknown")
    yield Message(
        role=text(mapping(step.get("extra")).get("role")) or role,
        content=content_text(step.get("message")),
        tool_calls=tuple(tool_calls),
        reasoning=text(step.get("reasoning_content")),
    )
    for result in objects(mapping(step.get("observation")).get("results")):
        id = text(result.get("source_call_id"))
        yield Message(TOOL, content_text(result.get("content")), tool_call_id=id)


def _reply(step: Mapping[str, Any]) -> Reply:
    metrics = mapping(step.get("metrics"))
    numbers = {
        **metrics,
        "calls": step.get("llm_call_count"),
        "cost": metrics.get("cost_usd"),
    }
    seconds = mapping(step.get("extra")).get("seconds")
    return reply_of(totals_of(numbers), seconds)
