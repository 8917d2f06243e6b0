"""``report.py convert RUN LAYOUT FOLDER``: write a run in the layout of another harness.

The specification of ATIF is that of the ``harbor`` package (``harbor/models/trajectories``,
ATIF-v1.8); the layout of mini-swe-agent is the one that ``reports.foreign.readers.mini`` reads.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from core.atomic import write_json_atomic
from core.errors import UserError
from core.money import as_number
from core.plaintext import Say, counted
from core.redaction import Redactor
from llm.chat import Message, Reply
from reports.data.rundata import InstanceData
from reports.foreign.files import arguments_of, tool_call_of
from reports.foreign.layouts import ExportLayout
from reports.foreign.model import (
    ASSISTANT,
    TOOL,
    AnsweredMessage,
    messages_with_calls,
    seconds_of,
    steps_by_lane,
    totals_of_call,
)
from reports.foreign.readers import mini
from reports.foreign.readers.atif import NEWEST, made_id
from reports.foreign.readers.exported import (
    EXTENSION,
    extension_of_attempt,
    extension_of_call,
    extension_of_instance,
)
from reports.foreign.readers.predictions import PREDS
from reports.foreign.recognise import read_any
from runs.records import Attempt, Totals

Files = Iterator[tuple[str, Mapping[str, Any]]]
"""Names of JSON files below the folder of a run, and their contents."""


def export_command(
    path: Path,
    layout: ExportLayout,
    folder: Path,
    say: Say,
) -> int:
    """Write the run at ``path`` into the new folder ``folder`` and return the exit code.

    The predictions of mini-swe-agent are in ``preds.json``; ATIF has none, and keeps patches in
    ``extra``.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder} exists; delete it or name another")
    run = read_any(path)
    redact = Redactor.of_environment(os.environ)
    predictions = {}
    for instance in run.instances:
        name = instance.instance_id
        files = _WRITERS[layout](instance, run.agent)
        for file, content in files:
            write_json_atomic(folder / file, redact.of(content))
        if _predicted(instance) is not None:
            predictions[name] = {
                "model_name_or_path": instance.model_name_or_path or run.name,
                "instance_id": name,
                "model_patch": instance.patch,
            }
    if layout is ExportLayout.MINI:
        write_json_atomic(folder / PREDS, redact.of(predictions))
    say(f"exported {counted(len(predictions), 'instance')} as {layout.value}: {folder}")
    return 0


def _predicted(instance: InstanceData) -> str | None:
    """Return the predicted patch; None if no file says which."""
    if instance.winner or all(attempt.patch_known for attempt in instance.attempts):
        return instance.patch
    return None


def _head(instance: InstanceData) -> Attempt:
    """Return the attempt that stands for the instance."""
    return instance.winner or instance.attempts[-1]


def _mini_files(instance: InstanceData, agent: str) -> Files:
    """Yield a file for each attempt; the predicted attempt's has the name of the instance."""
    name = instance.instance_id
    head = _head(instance)
    for attempt in instance.attempts:
        stem = name
        if attempt is not head:
            stem = mini.further_name(name, attempt.attempt)
        ending = {
            "exit_status": str(attempt.status),
            "submission": attempt.patch,
        }
        messages = []
        for message, call in messages_with_calls(attempt):
            messages.append(_mini_message(message, call))
        messages.append(
            {
                "role": "exit",
                "content": "",
                "extra": ending,
            }
        )
        content = {
            "info": {
                "model_stats": {
                    "instance_cost": as_number(attempt.cost),
                    "api_calls": attempt.sums.calls,
                },
                "config": {
                    "agent": {},
                    "agent_type": agent,
                    "model": {"model_name": attempt.label},
                    "model_type": "",
                    "environment": {},
                    "environment_type": "",
                },
                "mini_version": "",
                **ending,
                EXTENSION: extension_of_attempt(instance, attempt),
            },
            "messages": messages,
            "trajectory_format": mini.FORMAT,
            "instance_id": name,
        }
        yield f"{name}/{stem}{mini.ENDING}", content


def _mini_message(
    message: Message,
    call: Reply | None,
) -> dict[str, Any]:
    """Return a message; tool calls have OpenAI's form."""
    content: dict[str, Any] = {
        "role": message.role,
        "content": message.content,
    }
    if message.role == TOOL:
        content["tool_call_id"] = message.tool_call_id
        return content
    if message.reasoning:
        content["reasoning_content"] = message.reasoning
    tool_calls = []
    actions = []
    for tool_call in message.tool_calls:
        name = tool_call.name
        written = tool_call_of(name, tool_call.arguments)
        function = {"name": name, "arguments": written.arguments}
        tool_calls.append(
            {
                "id": tool_call.id,
                "type": "function",
                "function": function,
            }
        )
        arguments = arguments_of(written.arguments)
        if "command" in arguments:
            actions.append({"command": arguments["command"]})
    if tool_calls:
        content["tool_calls"] = tool_calls
    if message.role == ASSISTANT:
        totals = totals_of_call(call)
        usage = {
            "prompt_tokens": totals.prompt_tokens,
            "completion_tokens": totals.completion_tokens,
            "prompt_tokens_details": {"cached_tokens": totals.cached_tokens},
        }
        content["extra"] = {
            "actions": actions,
            "cost": as_number(totals.cost),
            "response": {"usage": usage},
        }
        content[EXTENSION] = extension_of_call(call)
    return content


def _atif_files(instance: InstanceData, agent: str) -> Files:
    """Yield an instance as a trajectory, its attempts as embedded trajectories of subagents."""
    name = instance.instance_id
    results = []
    trajectories = []
    for attempt in instance.attempts:
        trajectory = _atif_attempt(instance, attempt, agent)
        trajectories.append(trajectory)
        reference = {"trajectory_id": trajectory["trajectory_id"]}
        results.append({"subagent_trajectory_ref": [reference]})
    count = counted(len(results), "attempt")
    content = {
        **_atif_head(agent, _head(instance)),
        "session_id": name,
        "trajectory_id": name,
        "steps": [
            {
                "step_id": 1,
                "source": "user",
                "message": f"Resolve {name}.",
            },
            {
                "step_id": 2,
                "source": "agent",
                "message": instance.reason or f"{count} on {name}.",
                "observation": {"results": results},
                "llm_call_count": 0,
            },
        ],
        "extra": {
            EXTENSION: extension_of_instance(instance),
            "instance_id": name,
            "patch": _predicted(instance),
        },
        "subagent_trajectories": trajectories,
    }
    yield f"{name}.json", content


def _atif_head(agent: str, attempt: Attempt) -> dict[str, Any]:
    name, _, version = (agent or "unknown").partition(" ")
    described = {
        "name": name,
        "version": version or "unknown",
    }
    if attempt.label:
        described["model_name"] = attempt.label
    return {"schema_version": NEWEST, "agent": described}


def _atif_attempt(
    instance: InstanceData, attempt: Attempt, agent: str
) -> dict[str, Any]:
    # A trajectory has at least one step: an attempt without messages ended before the first call.
    lanes = steps_by_lane(attempt)
    if not lanes:
        message = Message("user", "No message was saved.")
        lanes = {0: [AnsweredMessage(message)]}
    name = f"attempt-{attempt.attempt}"
    head = _atif_head(agent, attempt)
    trajectories = []
    for lane, steps in lanes.items():
        trajectory = {
            **head,
            "session_id": instance.instance_id,
            "trajectory_id": f"{name}-lane-{lane}",
            "steps": _atif_steps(steps),
        }
        trajectories.append(trajectory)
    totals = {}
    for key, value in _metrics(attempt.sums).items():
        totals[f"total_{key}"] = value
    content = {
        **trajectories.pop(0),
        "trajectory_id": name,
        "final_metrics": totals,
        "extra": {
            EXTENSION: extension_of_attempt(instance, attempt),
            "patch": attempt.patch if attempt.patch_known else None,
        },
    }
    if trajectories:
        content["subagent_trajectories"] = trajectories
    return content


def _atif_steps(steps: Sequence[AnsweredMessage]) -> list[dict[str, Any]]:
    return [_atif_step(step, number) for number, step in enumerate(steps, 1)]


def _atif_step(
    step: AnsweredMessage,
    number: int,
) -> dict[str, Any]:
    message = step.message
    source = _SOURCES.get(message.role, "user")
    content: dict[str, Any] = {
        "step_id": number,
        "source": source,
        "message": message.content,
    }
    ids = []
    tool_calls = []
    for nth, call in enumerate(message.tool_calls, 1):
        id = call.id or made_id(number, nth)
        ids.append(id)
        tool_call = {
            "tool_call_id": id,
            "function_name": call.name,
            "arguments": arguments_of(call.arguments),
        }
        tool_calls.append(tool_call)
    if source == "agent":
        totals = totals_of_call(step.call)
        content["reasoning_content"] = message.reasoning or None
        content["tool_calls"] = tool_calls or None
        if totals.calls != 0:
            content["metrics"] = _metrics(totals) or None
            content["llm_call_count"] = totals.calls
    results = []
    for answer in step.answers:
        result = {"content": answer.content}
        if answer.tool_call_id in ids:
            result["source_call_id"] = answer.tool_call_id
        results.append(result)
    if results:
        content["observation"] = {"results": results}
    extra: dict[str, Any] = {"seconds": seconds_of(step.call)}
    if message.role not in _SOURCES:
        extra["role"] = message.role
    content["extra"] = _without_none(extra) or None
    return _without_none(content)


def _metrics(totals: Totals) -> dict[str, Any]:
    metrics = {
        "prompt_tokens": totals.prompt_tokens,
        "completion_tokens": totals.completion_tokens,
        "cached_tokens": totals.cached_tokens,
        "cost_usd": as_number(totals.cost),
    }
    return _without_none(metrics)


def _without_none(values: Mapping[str, Any]) -> dict[str, Any]:
    # An absent key means unknown.
    return {key: value for key, value in values.items() if value is not None}


_SOURCES = {
    "user": "user",
    "system": "system",
    ASSISTANT: "agent",
}
"""What ATIF calls the author of a message, by its role."""


_WRITERS: Mapping[ExportLayout, Callable[[InstanceData, str], Files]] = {
    ExportLayout.ATIF: _atif_files,
    ExportLayout.MINI: _mini_files,
}
