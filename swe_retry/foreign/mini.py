"""Read and write runs of mini-swe-agent: ``preds.json`` and a ``*.traj.json`` for each instance.

The layout is that of versions 1 and 2 (``trajectory_format`` mini-swe-agent-1 and -1.1), as
``minisweagent/agents/default.py`` of version 2.4 writes it.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from swe_retry.core.errors import DamagedFileError
from swe_retry.core.jsontypes import JsonObject, object_at, objects, text_at, value_at
from swe_retry.core.money import as_number
from swe_retry.foreign.attempts import (
    ASSISTANT,
    EXTENSION,
    TOOL,
    ChatStep,
    attempt_of,
    calls_of,
    extension_of_attempt,
    head_of,
    instance_of,
    steps_of,
    sums_of,
    with_cost,
)
from swe_retry.foreign.files import (
    arguments_of,
    checked_id,
    content_text,
    files_ending,
    object_of_file,
    reply_of,
    tool_call_of,
)
from swe_retry.foreign.predictions import predictions_file, read_predictions_file
from swe_retry.llm.chat import Message, Reply, ToolCall
from swe_retry.record.records import Attempt
from swe_retry.results.jsonvalues import dollars, integer
from swe_retry.results.rundata import InstanceData

ENDING = ".traj.json"
_FORMAT = "mini-swe-agent-1.1"
# Keys in a message that answers commands, whose role is `user` for models without tools.
_OF_ANSWERS = ("returncode", "raw_output")
_EXIT = "exit"
_FURTHER = re.compile(r"\.attempt-\d{1,4}$")


def is_mini(value: object) -> bool:
    messages = value_at(value, "messages")
    info = value_at(value, "info")
    return isinstance(messages, list) and isinstance(info, dict)


def read_mini(root: Path, paths: Sequence[Path]) -> Iterator[InstanceData]:
    """Yield the instances of trajectories; the file of predictions decides what is predicted."""
    predictions = {}
    trajectories = paths
    if root.is_dir():
        trajectories = files_ending(paths, ENDING)
        predicted = predictions_file(paths)
        if predicted:
            predictions = read_predictions_file(predicted)
    names = set()
    for stem, of_stem in _by_instance(trajectories).items():
        instance = _instance(stem, of_stem)
        name = instance.instance_id
        if name in names:
            problem = f"is a second trajectory of {name}"
            raise DamagedFileError(of_stem[0], problem, "keep one")
        names.add(name)
        prediction = predictions.pop(name, None)
        if prediction:
            instance = _as_predicted(instance, prediction)
        yield instance
    yield from predictions.values()


def _by_instance(paths: Sequence[Path]) -> dict[str, list[Path]]:
    """Return the trajectories of each instance: one, or one for each attempt."""
    by_stem: dict[str, Path] = {}
    by_instance = defaultdict(list)
    for path in paths:
        stem = path.name.removesuffix(ENDING)
        if stem == path.name:
            stem = path.stem
        if stem in by_stem:
            problem = f"and {by_stem[stem]} are both about {stem}"
            raise DamagedFileError(path, problem, "keep one")
        by_stem[stem] = path
        name = _FURTHER.sub("", stem)
        by_instance[name].append(path)
    return by_instance


def _instance(name: str, paths: Sequence[Path]) -> InstanceData:
    attempts = []
    for position, path in enumerate(paths, 1):
        data = object_of_file(path)
        name = checked_id(path, data.get("instance_id", name))
        extension = object_at(data, "info", EXTENSION)
        attempts.append(_attempt(path, data, position, extension))
    return instance_of(name, attempts, extension)


def _as_predicted(instance: InstanceData, prediction: InstanceData) -> InstanceData:
    """Return an instance whose chosen attempt has the patch of the file of predictions."""
    patch = prediction.model_patch
    attempts = []
    for attempt in instance.attempts:
        # An empty patch does not tell which of several attempts is meant.
        is_known = prediction.winner or len(instance.attempts) == 1
        if is_known and attempt.attempt == instance.attempt:
            attempt = attempt.but(model_patch=patch, patch_known=True)
        attempts.append(attempt)
    return instance.but(
        model_name_or_path=prediction.model_name_or_path,
        model_patch=patch,
        attempts=tuple(attempts),
    )


def _attempt(
    path: Path,
    data: JsonObject,
    position: int,
    extension: JsonObject,
) -> Attempt:
    info = object_at(data, "info")
    model = object_at(info, "config", "model")
    cost = dollars(value_at(info, "model_stats", "instance_cost"))
    if not cost and model.get("cost_tracking") == "ignore_errors":
        cost = None  # the harness was told to ignore unknown prices
    steps: list[ChatStep] = []
    for raw in objects(data, "messages"):
        steps += _read_message(_as_chat(raw))
    totals = replace(
        sums_of(steps),
        calls=integer(value_at(info, "model_stats", "api_calls")),
        cost=cost,
    )
    return attempt_of(
        path,
        info.get("submission"),
        totals,
        extension,
        attempt=position,
        model=model.get("model_name"),
        messages=[step.message for step in steps],
        calls=calls_of(steps),
        status=info.get("exit_status"),
        error=info.get("traceback"),
    )


def _as_chat(raw: JsonObject) -> JsonObject:
    """Return a message of OpenAI's responses in the form of its chat completions."""
    if raw.get("type") == "function_call_output":
        return {
            "role": TOOL,
            "content": raw.get("output"),
            "tool_call_id": raw.get("call_id"),
        }
    if raw.get("object") != "response":
        return raw
    texts = []
    tool_calls = []
    for part in objects(raw, "output"):
        if part.get("type") == "message":
            texts.append(content_text(part.get("content")))
        if part.get("type") == "function_call":
            tool_call = {**part, "id": part.get("call_id")}
            tool_calls.append(tool_call)
    return {
        "role": ASSISTANT,
        "content": texts,
        "tool_calls": tool_calls,
        "extra": {
            "response": raw,
            "cost": value_at(raw, "extra", "cost"),
        },
    }


def _read_message(raw: JsonObject) -> Iterator[ChatStep]:
    """Yield a message, with what it cost if it is of the model.

    A reply that the harness rejected stands in the message that says so, before it.
    """
    extra = object_at(raw, "extra")
    role = text_at(raw, "role")
    if role == ASSISTANT:
        message = _message(raw, role)
        if not message.tool_calls:
            commands = _commands(extra.get("actions"))
            message = replace(message, tool_calls=commands)
        extension = object_at(raw, EXTENSION)
        yield ChatStep(message, _call(extra, extension))
        return
    if "response" in extra:
        yield ChatStep(_rejected_reply(extra), _call(extra, {}))
    if role == "user" and any(key in extra for key in _OF_ANSWERS):
        role = TOOL
    message = _message(raw, role)
    repeated = (
        "",
        text_at(extra, "exit_status"),
        text_at(extra, "submission").strip(),
    )
    if role != _EXIT or message.content.strip() not in repeated:
        yield ChatStep(message)


def _message(raw: JsonObject, role: str) -> Message:
    """Return a message in OpenAI's form."""
    message = Message(
        role=role or "unknown",
        content=content_text(raw.get("content")),
        lane=integer(raw.get("lane")) or 0,
        reasoning=text_at(raw, "reasoning_content"),
    )
    if role == TOOL:
        id = text_at(raw, "tool_call_id")
        return replace(message, tool_call_id=id)
    tool_calls = _tool_calls(raw.get("tool_calls"))
    return replace(message, tool_calls=tool_calls)


def _rejected_reply(extra: JsonObject) -> Message:
    choices = objects(extra, "response", "choices") or [{}]
    message = object_at(choices[0], "message")
    content = content_text(message.get("content"))
    return Message(
        role=ASSISTANT,
        content=content or text_at(extra, "model_response"),
        tool_calls=_tool_calls(message.get("tool_calls")),
    )


def _tool_calls(calls: object) -> tuple[ToolCall, ...]:
    """Return calls of tools in OpenAI's form, flat or with ``function`` nested."""
    tool_calls = []
    for call in objects(calls):
        function = object_at(call.get("function", call))
        tool_call = tool_call_of(
            function.get("name"),
            function.get("arguments"),
            call.get("id"),
        )
        tool_calls.append(tool_call)
    return tuple(tool_calls)


def _commands(actions: object) -> tuple[ToolCall, ...]:
    """Return what a reply without calls of tools ran, as calls of a shell."""
    calls = []
    if isinstance(actions, list):
        for action in actions:
            command = value_at(action, "command")
            if not isinstance(action, dict):
                command = action
            id = value_at(action, "tool_call_id")
            call = tool_call_of("bash", {"command": command}, id)
            calls.append(call)
    return tuple(calls)


def _call(extra: JsonObject, extension: JsonObject) -> Reply:
    if extension:
        return reply_of(extension.get("totals"), extension.get("seconds"))
    usage = object_at(extra, "response", "usage")
    # OpenAI's chat completions and its responses have different names.
    details = usage.get("prompt_tokens_details", usage.get("input_tokens_details"))
    totals = {
        "calls": 1,
        "prompt_tokens": usage.get("prompt_tokens", usage.get("input_tokens")),
        "completion_tokens": usage.get("completion_tokens", usage.get("output_tokens")),
        "cached_tokens": value_at(details, "cached_tokens"),
        "cost": extra.get("cost"),
    }
    return reply_of(totals)


def mini_files(instance: InstanceData, agent: str) -> dict[str, JsonObject]:
    """Return a file for each attempt; the predicted attempt's has the name of the instance."""
    name = instance.instance_id
    files = {}
    for attempt in instance.attempts:
        stem = name
        if attempt is not head_of(instance):
            stem = f"{name}.attempt-{attempt.attempt}"
        ending = {
            "exit_status": str(attempt.status),
            "submission": attempt.patch,
        }
        end: JsonObject = {
            "role": _EXIT,
            "content": "",
            "extra": ending,
        }
        messages = list(map(_message_of, steps_of(attempt)))
        messages.append(end)
        info: JsonObject = {
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
        }
        files[f"{name}/{stem}{ENDING}"] = {
            "info": info,
            "messages": messages,
            "trajectory_format": _FORMAT,
            "instance_id": name,
        }
    return files


def _message_of(step: ChatStep) -> JsonObject:
    """Return a message; calls of tools have OpenAI's form."""
    message = step.message
    content: JsonObject = {
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
    for call in message.tool_calls:
        arguments = arguments_of(call.arguments)
        function = {
            "name": call.name,
            "arguments": json.dumps(arguments, ensure_ascii=False),
        }
        tool_call = {
            "id": call.id,
            "type": "function",
            "function": function,
        }
        tool_calls.append(tool_call)
        if "command" in arguments:
            actions.append({"command": arguments["command"]})
    if tool_calls:
        content["tool_calls"] = tool_calls
    if message.role == ASSISTANT:
        totals = sums_of([step])
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
        content[EXTENSION] = {
            "totals": with_cost(totals),
            "seconds": step.seconds,
        }
    return content
