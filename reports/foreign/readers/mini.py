"""Read runs of mini-swe-agent: ``preds.json`` and a ``*.traj.json`` for each instance.

The layout is that of versions 1 and 2 (``trajectory_format`` mini-swe-agent-1 and -1.1), as
``minisweagent/agents/default.py`` of version 2.4 writes it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from core.errors import DamagedFileError
from llm.chat import Message, Reply, ToolCall
from reports.data.jsonvalues import dollars, integer, mapping, objects, text
from reports.data.rundata import InstanceData
from reports.foreign.files import (
    RunFiles,
    checked_id,
    content_text,
    message_of,
    object_at,
    patch_of,
    reply_of,
    tool_call_of,
    tool_calls_of,
    value_at,
)
from reports.foreign.model import ASSISTANT, TOOL, sums_of
from reports.foreign.readers.exported import (
    EXTENSION,
    attempt_of,
    extended_reply,
    instance_of,
)
from reports.foreign.readers.predictions import plain_of, verdicts_beside
from runs.records import Attempt, Totals

ENDING = ".traj.json"
FORMAT = "mini-swe-agent-1.1"
# Keys in a message that answers commands, whose role is `user` for models without tools.
_ANSWERED = ("returncode", "raw_output")
_EXIT = "exit"
_FURTHER = re.compile(r"\.attempt-\d{1,4}$")


def is_mini(value: object) -> bool:
    messages = value_at(value, "messages")
    info = value_at(value, "info")
    return isinstance(messages, list) and isinstance(info, dict)


def further_name(name: str, attempt: int) -> str:
    return f"{name}.attempt-{attempt}"


def read_mini(files: RunFiles) -> Iterator[InstanceData]:
    """Yield the instances of trajectories; the file of predictions decides what is predicted."""
    plain: dict[str, InstanceData] = {}
    trajectories = files.paths
    if not files.root.is_file():
        plain = plain_of(files)
        trajectories = files.ending(ENDING)
    resolved = verdicts_beside(files)
    names: set[str] = set()
    for key, by_stem in _by_instance(trajectories).items():
        paths = list(by_stem.values())
        instance = _instance(key, paths)
        name = instance.instance_id
        if name in names:
            raise DamagedFileError(
                paths[0], f"is a second trajectory of {name}", "keep one"
            )
        names.add(name)
        if name in plain:
            instance = _as_predicted(instance, plain[name])
        if name in resolved:
            instance = instance.but(resolved_said=resolved[name])
        yield instance
    for name, prediction in plain.items():
        if name not in names:
            yield prediction.but(resolved_said=resolved.get(name))


def _by_instance(paths: Iterable[Path]) -> dict[str, dict[str, Path]]:
    """Return the trajectories of each instance by stem: one, or one for each attempt."""
    by_instance: dict[str, dict[str, Path]] = {}
    for path in paths:
        stem = path.name.removesuffix(ENDING)
        if stem == path.name:
            stem = path.stem
        name = _FURTHER.sub("", stem)
        by_stem = by_instance.setdefault(name, {})
        if stem in by_stem:
            raise DamagedFileError(
                path, f"and {by_stem[stem]} are both about {stem}", "keep one"
            )
        by_stem[stem] = path
    return by_instance


def _as_predicted(instance: InstanceData, plain: InstanceData) -> InstanceData:
    """Return an instance whose chosen attempt has the patch of the file of predictions."""
    label = plain.model_name_or_path
    if plain.winner is None and len(instance.attempts) > 1:
        return instance.but(model_name_or_path=label, model_patch="")
    attempts = []
    for attempt in instance.attempts:
        if attempt.attempt == instance.attempt:
            attempt = attempt.but(
                model_patch=plain.model_patch,
                patch_known=True,
            )
        attempts.append(attempt)
    return instance.but(
        model_name_or_path=label,
        model_patch=plain.model_patch,
        attempts=tuple(attempts),
    )


def _instance(
    name: str,
    paths: Sequence[Path],
) -> InstanceData:
    attempts: list[Attempt] = []
    extension: Mapping[str, Any] = {}
    for number, path in enumerate(paths, 1):
        data = object_at(path)
        name = checked_id(path, data.get("instance_id", name))
        extension = mapping(value_at(data, "info", EXTENSION))
        attempts.append(_attempt(path, data, number))
    return instance_of(name, attempts, extension)


def _attempt(
    path: Path,
    data: Mapping[str, Any],
    number: int,
) -> Attempt:
    info = mapping(data.get("info"))
    model = mapping(value_at(info, "config", "model"))
    messages = []
    calls = []
    for raw in objects(data.get("messages")):
        for message, call in _messages(raw):
            messages.append(message)
            if call:
                calls.append(call)
    stats = mapping(info.get("model_stats"))
    cost = dollars(stats.get("instance_cost"))
    if not cost and model.get("cost_tracking") == "ignore_errors":
        cost = None  # the harness was told to ignore unknown prices
    count = integer(stats.get("api_calls"))
    totals = replace(
        sums_of(calls),
        calls=count,
        cost=cost,
    )
    patch = patch_of(path, info.get("submission"))
    attempt = Attempt(
        attempt=number,
        model=text(model.get("model_name")),
        messages=tuple(messages),
        calls=tuple(calls),
        totals=totals,
        cost=cost,
        model_patch=patch or "",
        patch_known=patch is not None,
        status=text(info.get("exit_status")),
        error=text(info.get("traceback")),
    )
    return attempt_of(attempt, mapping(info.get(EXTENSION)))


def _messages(raw: Mapping[str, Any]) -> Iterator[tuple[Message, Reply | None]]:
    """Yield a message, with what it cost if it is of the model.

    A reply that the harness rejected stands in the message that says so, before it.
    """
    extra = mapping(raw.get("extra"))
    role = text(raw.get("role"))
    if raw.get("type") == "function_call_output":
        answer = Message(
            role=TOOL,
            content=content_text(raw.get("output")),
            tool_call_id=text(raw.get("call_id")),
        )
        yield answer, None
        return
    if raw.get("object") == "response":
        call = _reply({"response": raw, **extra})
        yield _of_responses(raw), call
        return
    if role != ASSISTANT and "response" in extra:
        yield _rejected(extra), _reply(extra)
    if role == "user" and any(key in extra for key in _ANSWERED):
        role = TOOL
    message = message_of(raw, role)
    if role == ASSISTANT:
        if not message.tool_calls:
            commands = _commands(extra.get("actions"))
            message = replace(message, tool_calls=tuple(commands))
        yield message, extended_reply(_reply(extra), raw)
        return
    repeated = (
        "",
        text(extra.get("exit_status")),
        text(extra.get("submission")).strip(),
    )
    if role != _EXIT or message.content.strip() not in repeated:
        yield message, None


def _rejected(extra: Mapping[str, Any]) -> Message:
    choices = objects(value_at(extra, "response", "choices"))
    message = mapping(value_at(choices[0], "message")) if choices else {}
    content = content_text(message.get("content"))
    tool_calls = tool_calls_of(message.get("tool_calls"))
    return Message(
        role=ASSISTANT,
        content=content or text(extra.get("model_response")),
        tool_calls=tool_calls,
    )


def _commands(actions: object) -> Iterator[ToolCall]:
    """Yield what a reply without calls of tools ran, as calls of a shell."""
    if not isinstance(actions, list):
        return
    for action in actions:
        command = action
        if isinstance(action, Mapping):
            command = action.get("command")
        id = value_at(action, "tool_call_id")
        yield tool_call_of("bash", {"command": command}, id)


def _of_responses(response: Mapping[str, Any]) -> Message:
    """Return a message in the form of OpenAI's responses: its ``output`` has typed parts."""
    texts = []
    calls = []
    for part in objects(response.get("output")):
        if part.get("type") == "message":
            content = part.get("content")
            texts.append(content_text(content))
        if part.get("type") == "function_call":
            call = tool_call_of(
                part.get("name"),
                part.get("arguments"),
                part.get("call_id"),
            )
            calls.append(call)
    return Message(ASSISTANT, "\n".join(texts), tuple(calls))


def _reply(extra: Mapping[str, Any]) -> Reply:
    usage = mapping(value_at(extra, "response", "usage"))
    # OpenAI's chat completions and its responses have different names.
    prompt = usage.get("prompt_tokens", usage.get("input_tokens"))
    details = usage.get("prompt_tokens_details", usage.get("input_tokens_details"))
    completion = usage.get("completion_tokens", usage.get("output_tokens"))
    totals = Totals(
        calls=1,
        prompt_tokens=integer(prompt),
        cached_tokens=integer(value_at(details, "cached_tokens")),
        completion_tokens=integer(completion),
        cost=dollars(extra.get("cost")),
    )
    return reply_of(totals)
