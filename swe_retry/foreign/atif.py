"""Read and write ATIF trajectories (Agent Trajectory Interchange Format, v1.0 to v1.8).

The specification is that of the ``harbor`` package (``harbor/models/trajectories``). Harbor writes
``<trial>/agent/trajectory.json`` and, beside ``agent``, ``result.json`` with the task and rewards.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path

from swe_retry.core.errors import DamagedFileError
from swe_retry.core.jsontypes import JsonObject, object_at, objects, text_at, value_at
from swe_retry.core.money import as_number
from swe_retry.core.plaintext import quantity
from swe_retry.foreign.attempts import (
    ASSISTANT,
    EXTENSION,
    TOOL,
    ChatStep,
    attempt_of,
    calls_of,
    extension_of_attempt,
    extension_of_instance,
    head_of,
    instance_of,
    predicted_patch,
    steps_by_lane,
    sums_of,
)
from swe_retry.foreign.files import (
    arguments_of,
    broken,
    checked_id,
    content_text,
    files_ending,
    object_of_file,
    reply_of,
    tool_call_of,
    totals_of,
)
from swe_retry.llm.chat import Message
from swe_retry.record.keys import RESULTS_FILE, is_safe_key
from swe_retry.record.records import Attempt, Totals
from swe_retry.results.jsonvalues import number
from swe_retry.results.rundata import InstanceData

_PREFIX = "ATIF-v1."
_WRITTEN = "ATIF-v1.8"
_TRIAL = "result.json"
_SOURCES = {
    ASSISTANT: "agent",
    "user": "user",
    "system": "system",
}
"""What ATIF calls the author of a message, by its role."""
_ROLES = {source: role for role, source in _SOURCES.items()}
_MAX_NESTED = 20


def is_atif(value: object) -> bool:
    version = text_at(value, "schema_version")
    return version.startswith(_PREFIX)


def read_atif(root: Path, paths: Sequence[Path]) -> Iterator[InstanceData]:
    """Yield the instances of trajectories; other JSON files are left out."""
    seen: dict[str, Path] = {}
    for path in files_ending(paths, ".json"):
        if path.name in (_TRIAL, RESULTS_FILE):
            continue
        data = object_of_file(path)
        if not is_atif(data):
            continue
        instance = _instance(path, data)
        name = instance.instance_id
        if name in seen:
            problem = f"and {seen[name]} are both about {name}"
            raise DamagedFileError(path, problem, "keep one")
        seen[name] = path
        yield instance


def _instance(path: Path, data: JsonObject) -> InstanceData:
    extension = object_at(data, "extra", EXTENSION)
    embedded = objects(data, "subagent_trajectories")
    if extension and embedded:
        name = checked_id(path, extension.get("instance_id"))
        attempts = []
        for position, trajectory in enumerate(embedded, 1):
            attempts.append(_attempt(path, trajectory, position))
        return instance_of(name, attempts, extension)
    trial = _trial_of(path)
    reward = number(value_at(trial, "verifier_result", "rewards", "reward"))
    resolved = None
    if reward is not None:
        resolved = reward >= 1
    stem = path.stem
    if stem == "trajectory":
        stem = path.parent.name
    # As recorded, else by the task, the session or the file.
    task = text_at(trial, "task_name").rpartition("/")[2]
    recorded = value_at(data, "extra", "instance_id")
    for candidate in (recorded, task, data.get("session_id"), stem):
        if is_safe_key(candidate):
            break
    return instance_of(
        checked_id(path, candidate),
        [_attempt(path, data, 1)],
        {**extension, "resolved": resolved},
    )


def _trial_of(path: Path) -> JsonObject:
    """Return the result that Harbor writes beside the folder of a trajectory."""
    result = path.parent.parent / _TRIAL
    is_trial = path.parent.name == "agent" and result.is_file()
    if is_trial and not result.is_symlink():
        return object_of_file(result)
    return {}


def _attempt(path: Path, data: JsonObject, position: int) -> Attempt:
    steps: list[ChatStep] = []
    for raw in _all_steps(path, data, "", 0):
        steps += _read_step(raw)
    # What the final metrics lack is the sum of all steps.
    sums = sums_of(steps)
    metrics = object_at(data, "final_metrics")
    numbers = {name: metrics.get(f"total_{name}") for name in sums.counts()}
    numbers["cost"] = metrics.get("total_cost_usd")
    totals = totals_of(numbers)
    return attempt_of(
        path,
        value_at(data, "extra", "patch"),
        replace(sums, **_without_none(vars(totals))),
        object_at(data, "extra", EXTENSION),
        attempt=position,
        model=value_at(data, "agent", "model_name"),
        messages=[step.message for step in steps],
        calls=calls_of(steps),
    )


def _all_steps(
    path: Path,
    data: JsonObject,
    keys: str,
    depth: int,
) -> Iterator[JsonObject]:
    steps = data.get("steps")
    if not isinstance(steps, list) or depth > _MAX_NESTED:
        raise broken(path, f"{keys or 'it'} has no `steps`")
    yield from objects(steps)
    nested = objects(data, "subagent_trajectories")
    for position, trajectory in enumerate(nested):
        nested_keys = f"{keys}subagent_trajectories[{position}]."
        yield from _all_steps(path, trajectory, nested_keys, depth + 1)


def _id_of_call(step: object, position: int) -> str:
    """Return the id of a call of a tool that has none, by the number of its step: ATIF needs it."""
    return f"{step}-{position}"


def _read_step(raw: JsonObject) -> Iterator[ChatStep]:
    """Yield the message of a step, and what its tools returned."""
    tool_calls = []
    for position, call in enumerate(objects(raw, "tool_calls"), 1):
        id = call.get("tool_call_id")
        if id == _id_of_call(raw.get("step_id"), position):
            id = ""
        tool_call = tool_call_of(
            call.get("function_name"),
            call.get("arguments"),
            id,
        )
        tool_calls.append(tool_call)
    source = text_at(raw, "source")
    role = _ROLES.get(source, "unknown")
    message = Message(
        role=text_at(raw, "extra", "role") or role,
        content=content_text(raw.get("message")),
        tool_calls=tuple(tool_calls),
        reasoning=text_at(raw, "reasoning_content"),
    )
    step = ChatStep(message)
    if message.role == ASSISTANT:
        metrics = object_at(raw, "metrics")
        totals = {
            **metrics,
            "calls": raw.get("llm_call_count"),
            "cost": metrics.get("cost_usd"),
        }
        step.call = reply_of(totals, value_at(raw, "extra", "seconds"))
    yield step
    for result in objects(raw, "observation", "results"):
        answer = Message(
            role=TOOL,
            content=content_text(result.get("content")),
            tool_call_id=text_at(result, "source_call_id"),
        )
        yield ChatStep(answer)


def atif_files(instance: InstanceData, agent: str) -> dict[str, JsonObject]:
    """Return an instance as a trajectory, its attempts as embedded trajectories of subagents."""
    name = instance.instance_id
    results = []
    attempts = []
    for attempt in instance.attempts:
        trajectory = _trajectory_of(instance, attempt, agent)
        attempts.append(trajectory)
        reference = {"trajectory_id": trajectory["trajectory_id"]}
        results.append({"subagent_trajectory_ref": [reference]})
    attempts_made = quantity(len(results), "attempt")
    task = {
        "step_id": 1,
        "source": "user",
        "message": f"Resolve {name}.",
    }
    work = {
        "step_id": 2,
        "source": "agent",
        "message": instance.reason or f"{attempts_made} on {name}.",
        "observation": {"results": results},
        "llm_call_count": 0,
    }
    content = {
        **_trajectory(name, name, agent, head_of(instance)),
        "steps": [task, work],
        "extra": {
            EXTENSION: extension_of_instance(instance),
            "instance_id": name,
            "patch": predicted_patch(instance),
        },
        "subagent_trajectories": attempts,
    }
    return {f"{name}.json": content}


def _trajectory(name: str, session: str, agent: str, attempt: Attempt) -> JsonObject:
    """Return a trajectory without steps."""
    program, _, version = agent.partition(" ")
    if attempt.agent_version:
        program = attempt.edit_format or program
        version = attempt.agent_version
    described = {
        "name": program or "unknown",
        "version": version or "unknown",
        "model_name": attempt.label or None,
    }
    return {
        "schema_version": _WRITTEN,
        "agent": _without_none(described),
        "session_id": session,
        "trajectory_id": name,
    }


def _trajectory_of(instance: InstanceData, attempt: Attempt, agent: str) -> JsonObject:
    """Return an attempt: its first conversation, in which others are those of subagents."""
    # A trajectory has at least one step: an attempt without messages ended before the first call.
    lanes = steps_by_lane(attempt)
    if not lanes:
        message = Message("user", "No message was saved.")
        lanes = {0: [ChatStep(message)]}
    name = f"attempt-{attempt.attempt}"
    trajectories = []
    for lane, steps in lanes.items():
        trajectory = _trajectory(
            f"{name}-lane-{lane}",
            instance.instance_id,
            agent,
            attempt,
        )
        numbers = count(1)
        trajectory["steps"] = list(map(_step_of, steps, numbers))
        trajectories.append(trajectory)
    content = trajectories.pop(0)
    content["trajectory_id"] = name
    content["final_metrics"] = {}
    for key, value in _metrics(attempt.sums).items():
        content["final_metrics"][f"total_{key}"] = value
    content["extra"] = {
        EXTENSION: extension_of_attempt(instance, attempt),
        "patch": attempt.patch if attempt.patch_known else None,
    }
    if trajectories:
        content["subagent_trajectories"] = trajectories
    return content


def _step_of(step: ChatStep, number: int) -> JsonObject:
    message = step.message
    source = _SOURCES.get(message.role, "user")
    content = {
        "step_id": number,
        "source": source,
        "message": message.content,
    }
    tool_calls = []
    for position, call in enumerate(message.tool_calls, 1):
        tool_call = {
            "tool_call_id": call.id or _id_of_call(number, position),
            "function_name": call.name,
            "arguments": arguments_of(call.arguments),
        }
        tool_calls.append(tool_call)
    if source == "agent":
        totals = sums_of([step])
        content["reasoning_content"] = message.reasoning or None
        content["tool_calls"] = tool_calls or None
        if totals.calls != 0:
            content["metrics"] = _metrics(totals) or None
            content["llm_call_count"] = totals.calls
    ids = [call["tool_call_id"] for call in tool_calls]
    results = []
    for answer in step.answers:
        result = {"content": answer.content}
        if answer.tool_call_id in ids:
            result["source_call_id"] = answer.tool_call_id
        results.append(result)
    if results:
        content["observation"] = {"results": results}
    extra: JsonObject = {"seconds": step.seconds}
    if message.role not in _SOURCES:
        extra["role"] = message.role
    content["extra"] = _without_none(extra) or None
    return _without_none(content)


def _metrics(totals: Totals) -> JsonObject:
    metrics = {
        "prompt_tokens": totals.prompt_tokens,
        "completion_tokens": totals.completion_tokens,
        "cached_tokens": totals.cached_tokens,
        "cost_usd": as_number(totals.cost),
    }
    return _without_none(metrics)


def _without_none(values: JsonObject) -> JsonObject:
    # An absent key means unknown.
    return {key: value for key, value in values.items() if value is not None}
