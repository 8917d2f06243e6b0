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
    RunFiles,
    broken,
    checked_id,
    content_text,
    object_at,
    patch_of,
    reply_of,
    tool_call_of,
    totals_of,
    value_at,
)
from reports.foreign.model import ASSISTANT, TOOL, sums_of
from reports.foreign.readers.exported import EXTENSION, attempt_of, instance_of
from runs.keys import RESULTS_FILE, is_safe_key
from runs.records import Attempt

NEWEST = "ATIF-v1.8"
_PREFIX = "ATIF-v1."
_TRIAL = "result.json"
_ROLES = {
    "agent": ASSISTANT,
    "user": "user",
    "system": "system",
}
_MAX_NESTED = 20


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
        if name in seen:
            raise DamagedFileError(
                path, f"and {seen[name]} are both about {name}", "keep one"
            )
        seen[name] = path
        yield instance


def _instance(path: Path, data: Mapping[str, Any]) -> InstanceData:
    extra = mapping(data.get("extra"))
    extension = mapping(extra.get(EXTENSION))
    embedded = objects(data.get("subagent_trajectories"))
    if extension and embedded:
        attempts = []
        for nth, trajectory in enumerate(embedded, 1):
            attempts.append(_attempt(path, trajectory, nth))
        name = checked_id(path, extension.get("instance_id"))
        return instance_of(name, attempts, extension)
    trial = _trial_of(path)
    reward = number(value_at(trial, "verifier_result", "rewards", "reward"))
    resolved = None
    if reward is not None:
        resolved = reward >= 1
    # As recorded, else by the task, the session or the file.
    task = text(trial.get("task_name")).rpartition("/")[2]
    stem = path.stem
    if stem == "trajectory":
        stem = path.parent.name
    for key in (extra.get("instance_id"), task, data.get("session_id"), stem):
        if is_safe_key(key):
            break
    return instance_of(
        checked_id(path, key),
        [_attempt(path, data, 1)],
        {**extension, "resolved": resolved},
    )


def _trial_of(path: Path) -> Mapping[str, Any]:
    """Return the result that Harbor writes beside the folder of a trajectory."""
    result = path.parent.parent / _TRIAL
    if path.parent.name != "agent" or not result.is_file() or result.is_symlink():
        return {}
    return object_at(result)


def _attempt(
    path: Path,
    data: Mapping[str, Any],
    number: int,
) -> Attempt:
    extra = mapping(data.get("extra"))
    messages: list[Message] = []
    calls: list[Reply] = []
    for step in _all_steps(path, data, "", 0):
        step_messages = list(_messages(step))
        messages += step_messages
        if step_messages[0].role == ASSISTANT:
            calls.append(_reply(step))
    # What the final metrics lack is the sum of all steps.
    totals = sums_of(calls)
    metrics = mapping(data.get("final_metrics"))
    numbers = {"cost": metrics.get("total_cost_usd")}
    for name in totals.counts():
        numbers[name] = metrics.get(f"total_{name}")
    for name, value in vars(totals_of(numbers)).items():
        if value is not None:
            totals = replace(totals, **{name: value})
    patch = patch_of(path, extra.get("patch"))
    attempt = Attempt(
        attempt=number,
        model=text(value_at(data, "agent", "model_name")),
        messages=tuple(messages),
        calls=tuple(calls),
        totals=totals,
        cost=totals.cost,
        model_patch=patch or "",
        patch_known=patch is not None,
    )
    return attempt_of(attempt, mapping(extra.get(EXTENSION)))


def _all_steps(
    path: Path,
    data: Mapping[str, Any],
    keys: str,
    depth: int,
) -> Iterator[Mapping[str, Any]]:
    steps = data.get("steps")
    if not isinstance(steps, list) or depth > _MAX_NESTED:
        raise broken(path, f"{keys or 'it'} has no `steps`")
    yield from objects(steps)
    nested = objects(data.get("subagent_trajectories"))
    for nth, trajectory in enumerate(nested):
        nested_keys = f"{keys}subagent_trajectories[{nth}]."
        yield from _all_steps(path, trajectory, nested_keys, depth + 1)


def made_id(step: object, nth: int) -> str:
    """Return the id of the ``nth`` action of a step if it has none: the format needs one."""
    return f"{step}-{nth}"


def _messages(step: Mapping[str, Any]) -> Iterator[Message]:
    """Yield the message of a step, and what its tools returned."""
    tool_calls = []
    for nth, call in enumerate(objects(step.get("tool_calls")), 1):
        id = call.get("tool_call_id")
        if id == made_id(step.get("step_id"), nth):
            id = ""
        tool_call = tool_call_of(
            call.get("function_name"),
            call.get("arguments"),
            id,
        )
        tool_calls.append(tool_call)
    source = text(step.get("source"))
    role = _ROLES.get(source, "unknown")
    yield Message(
        role=text(value_at(step, "extra", "role")) or role,
        content=content_text(step.get("message")),
        tool_calls=tuple(tool_calls),
        reasoning=text(step.get("reasoning_content")),
    )
    for result in objects(value_at(step, "observation", "results")):
        yield Message(
            role=TOOL,
            content=content_text(result.get("content")),
            tool_call_id=text(result.get("source_call_id")),
        )


def _reply(step: Mapping[str, Any]) -> Reply:
    metrics = mapping(step.get("metrics"))
    numbers = {
        **metrics,
        "calls": step.get("llm_call_count"),
        "cost": metrics.get("cost_usd"),
    }
    totals = totals_of(numbers)
    return reply_of(totals, value_at(step, "extra", "seconds"))
