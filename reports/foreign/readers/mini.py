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
from reports.data.jsonvalues import dollars, mapping, objects, text, whole
from reports.foreign.files import (
    RunFiles,
    action_of,
    answer,
    called,
    checked_id,
    content_text,
    message_step,
    object_at,
    patch_of,
)
from reports.foreign.model import (
    ASSISTANT,
    TOOL,
    UNKNOWN_TOTALS,
    AgentAttempt,
    AgentStep,
    AttemptedInstance,
    folded,
    summed,
)
from reports.foreign.readers.exported import (
    KEPT,
    instance_of,
    step_with_kept,
    with_kept,
)
from reports.foreign.readers.predictions import plain_of, verdicts_beside
from runs.records import Totals

ENDING = ".traj.json"
FORMAT = "mini-swe-agent-1.1"
# Keys in a message that answers commands, whose role is `user` for models without tools.
_ANSWERED = ("returncode", "raw_output")
_EXIT = "exit"
_FURTHER = re.compile(r"\.attempt-\d{1,4}$")


def is_mini(value: object) -> bool:
    found = mapping(value)
    return isinstance(found.get("messages"), list) and isinstance(
        found.get("info"), dict
    )


def further_name(name: str, attempt: int) -> str:
    return f"{name}.attempt-{attempt}"


def read_mini(files: RunFiles) -> Iterator[AttemptedInstance]:
    """Yield the instances of trajectories; the file of predictions decides what is predicted."""
    alone = files.root.is_file()
    plain = {} if alone else plain_of(files)
    resolved = verdicts_beside(files)
    seen: set[str] = set()
    for key, paths in _by_instance(
        files.paths if alone else files.ending(ENDING)
    ).items():
        instance = _instance(key, paths)
        name = instance.instance_id
        if name in seen:
            raise DamagedFileError(
                paths[0], f"is a second trajectory of {name}", "keep one"
            )
        seen.add(name)
        if name in plain:
            instance = _as_predicted(instance, plain[name])
        if name in resolved:
            instance = replace(instance, resolved=resolved[name])
        yield instance
    for name, prediction in plain.items():
        if name not in seen:
            yield replace(prediction, resolved=resolved.get(name))


def _by_instance(paths: Iterable[Path]) -> dict[str, list[Path]]:
    found: dict[str, dict[str, Path]] = {}
    for path in paths:
        stem = (
            path.name.removesuffix(ENDING) if path.name.endswith(ENDING) else path.stem
        )
        files = found.setdefault(_FURTHER.sub("", stem), {})
        if (other := files.setdefault(stem, path)) != path:
            raise DamagedFileError(
                path, f"and {other} are both about {stem}", "keep one"
            )
    return {name: [*files.values()] for name, files in found.items()}


def _as_predicted(
    instance: AttemptedInstance, plain: AttemptedInstance
) -> AttemptedInstance:
    instance = replace(instance, label=plain.label)
    chosen = instance.chosen or instance.attempts[-1]
    if plain.winner is None and len(instance.attempts) > 1:
        return replace(instance, winner=None)
    attempts = tuple(
        replace(a, patch=plain.patch) if a.attempt == chosen.attempt else a
        for a in instance.attempts
    )
    return replace(instance, winner=plain.winner and chosen.attempt, attempts=attempts)


def _instance(name: str, paths: Sequence[Path]) -> AttemptedInstance:
    attempts: list[AgentAttempt] = []
    kept: Mapping[str, Any] = {}
    for number, path in enumerate(paths, 1):
        data = object_at(path)
        name = checked_id(path, data.get("instance_id", name))
        kept = mapping(mapping(data.get("info")).get(KEPT))
        attempts.append(_attempt(path, data, number))
    return instance_of(name, attempts, kept)


def _attempt(path: Path, data: Mapping[str, Any], number: int) -> AgentAttempt:
    info = mapping(data.get("info"))
    model = mapping(mapping(info.get("config")).get("model"))
    messages = objects(data.get("messages"))
    steps = folded([step for message in messages for step in _steps(message)])
    stats, sums = mapping(info.get("model_stats")), summed(steps)
    cost = dollars(stats.get("instance_cost"))
    if not cost and model.get("cost_tracking") == "ignore_errors":
        cost = None  # the harness was told to ignore unknown prices
    attempt = AgentAttempt(
        attempt=number,
        model=text(model.get("model_name")) or None,
        steps=steps,
        totals=replace(sums, calls=whole(stats.get("api_calls")), cost=cost),
        patch=patch_of(path, info.get("submission")),
        exit_status=text(info.get("exit_status")) or None,
        error=text(info.get("traceback")),
    )
    return with_kept(attempt, mapping(info.get(KEPT)))


def _steps(message: Mapping[str, Any]) -> Iterator[AgentStep]:
    extra = mapping(message.get("extra"))
    role = text(message.get("role"))
    if (
        message.get("object") == "response"
        or message.get("type") == "function_call_output"
    ):
        yield _of_responses(message)
        return
    if role != ASSISTANT and "response" in extra:
        choices = objects(mapping(extra.get("response")).get("choices"))
        said = mapping(choices[0].get("message")) if choices else {}
        yield AgentStep(
            role=ASSISTANT,
            text=content_text(said.get("content")) or text(extra.get("model_response")),
            actions=called(said.get("tool_calls")),
            totals=_billed(extra),
        )
    found = extra.get("actions")
    ran = found if isinstance(found, list) else []
    each = (one if isinstance(one, Mapping) else {"command": one} for one in ran)
    pairs = (({"command": one.get("command")}, one.get("tool_call_id")) for one in each)
    actions = [action_of("bash", arguments, id) for arguments, id in pairs]
    if role == "user" and any(key in extra for key in _ANSWERED):
        role = TOOL
    totals = _billed(extra) if role == ASSISTANT else UNKNOWN_TOTALS
    step = message_step(message, role=role, actions=actions, totals=totals)
    repeated = (
        "",
        text(extra.get("exit_status")),
        text(extra.get("submission")).strip(),
    )
    if role != _EXIT or step.text.strip() not in repeated:
        yield step_with_kept(step, message)


def _of_responses(message: Mapping[str, Any]) -> AgentStep:
    """Return a message in the form of OpenAI's responses: its ``output`` has typed parts."""
    if message.get("type") == "function_call_output":
        seen, actions = content_text(message.get("output")), answer(message, "call_id")
        return AgentStep(TOOL, seen, actions=actions)
    parts = objects(message.get("output"))
    written = [
        content_text(p.get("content")) for p in parts if p.get("type") == "message"
    ]
    calls = (p for p in parts if p.get("type") == "function_call")
    return AgentStep(
        role=ASSISTANT,
        text="\n".join(written),
        actions=tuple(
            action_of(p.get("name"), p.get("arguments"), p.get("call_id"))
            for p in calls
        ),
        totals=_billed({"response": message, **mapping(message.get("extra"))}),
    )


def _billed(extra: Mapping[str, Any]) -> Totals:
    said = mapping(mapping(extra.get("response")).get("usage"))
    prompt = said.get("prompt_tokens", said.get("input_tokens"))
    details = mapping(
        said.get("prompt_tokens_details", said.get("input_tokens_details"))
    )
    return Totals(
        calls=1,
        prompt_tokens=whole(prompt),
        cached_tokens=whole(details.get("cached_tokens")),
        completion_tokens=whole(
            said.get("completion_tokens", said.get("output_tokens"))
        ),
        cost=dollars(extra.get("cost")),
    )
