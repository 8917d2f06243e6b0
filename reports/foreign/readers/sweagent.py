"""Read runs of SWE-agent: a ``.traj`` for each instance, and ``preds.json``.

The layout is that of version 1.1 (``sweagent/types.py``, ``sweagent/agent/agents.py``). Agents that
retry write their ``attempts``, and no other key until one is chosen.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from core.parsing.untrusted import DamagedError, json_of
from reports.data.jsonvalues import dollars, mapping, number, objects, text, whole
from reports.data.rundata import StepTotals
from reports.foreign.files import (
    RunFiles,
    action_of,
    checked_id,
    message_step,
    object_at,
    patch_of,
)
from reports.foreign.model import (
    ASSISTANT,
    TOOL,
    AgentAttempt,
    AgentStep,
    AttemptedInstance,
    Observation,
    folded,
)
from reports.foreign.readers.joining import (
    KEPT,
    instance_of,
    joined,
    priced,
    step_with_kept,
    with_kept,
)

ENDING = ".traj"


def is_sweagent(value: object) -> bool:
    found = mapping(value)
    own = isinstance(found.get("trajectory"), list) and isinstance(found.get("info"), dict)
    return own or (isinstance(found.get("attempts"), list) and "instance_id" not in found)


def read_sweagent(files: RunFiles) -> Iterator[AttemptedInstance]:
    yield from joined(files, ENDING, _instance)


def _instance(name: str, paths: Sequence[Path]) -> AttemptedInstance:
    path = paths[0]
    name, data = checked_id(path, name), object_at(path)
    info = mapping(data.get("info"))
    tried = objects(data.get("attempts"))
    attempts = [_attempt(path, one, n) for n, one in enumerate(tried, 1)]
    if not attempts:
        return instance_of(name, [_attempt(path, data, 1)], mapping(info.get(KEPT)))
    kept = dict(mapping(info.get(KEPT)))
    best = whole(info.get("best_attempt_idx"))
    if "winner" not in kept:
        kept["winner"] = None if best is None or best >= len(attempts) else best + 1
    return instance_of(name, attempts, kept)


def _attempt(path: Path, data: Mapping[str, Any], nth: int) -> AgentAttempt:
    info, config = mapping(data.get("info")), data.get("replay_config")
    stats = mapping(info.get("model_stats"))
    with suppress(DamagedError):
        config = json_of(config) if isinstance(config, str) else config
    model = mapping(mapping(mapping(config).get("agent")).get("model"))
    sent = whole(stats.get("tokens_sent"))
    attempt = AgentAttempt(
        attempt=nth,
        model=text(model.get("name")) or None,
        steps=_steps(data),
        totals=StepTotals(
            calls=whole(stats.get("api_calls")),
            prompt_tokens=sent,
            completion_tokens=whole(stats.get("tokens_received")),
            cost=priced(dollars(stats.get("instance_cost")), sent),
        ),
        patch=patch_of(path, info.get("submission")) or "",
        exit_status=str(info["exit_status"]) if info.get("exit_status") is not None else None,
        source=path,
    )
    return with_kept(attempt, mapping(info.get(KEPT)))


def _steps(data: Mapping[str, Any]) -> tuple[AgentStep, ...]:
    messages, acted = [], False
    for nth, message in enumerate(objects(data.get("history"))):
        messages.append(step := _message(message, nth, answers=acted))
        acted = bool(step.actions) if step.by_model else acted
    rest = [*folded(messages)]
    found: list[AgentStep] = []
    for nth, one in enumerate(objects(data.get("trajectory"))):
        step = _taken(one, nth)
        at = next((n for n, said in enumerate(rest) if said.by_model), len(rest))
        found += rest[:at]
        rest = rest[at:]
        if rest and rest[0].text.strip() == step.text.strip():
            said = rest.pop(0)
            # The observation of the step, unless the messages show it.
            shown = [o.text for o in said.observations]
            shown += [s.text for s in rest[:1] if not s.by_model]
            new = [o for o in step.observations if not any(o.text.strip() in t for t in shown)]
            step = replace(said, observations=(*said.observations, *new))
        found.append(step)
    return (*found, *rest)


def _taken(one: Mapping[str, Any], nth: int) -> AgentStep:
    place, command = f"trajectory[{nth}]", text(one.get("action"))
    seen = text(one.get("observation"))
    return AgentStep(
        role=ASSISTANT,
        text=text(one.get("response")) or text(one.get("thought")),
        actions=(action_of("bash", {"command": command}),) if command.strip() else (),
        observations=(Observation(seen, place=f"{place}.observation"),) if seen else (),
        totals=StepTotals(calls=1),
        seconds=number(one.get("execution_time")),
        place=place,
    )


def _message(message: Mapping[str, Any], nth: int, *, answers: bool) -> AgentStep:
    role, command = text(message.get("role")), text(message.get("action"))
    if role == "user" and message.get("message_type") == "observation" and answers:
        role = TOOL
    ran = role == ASSISTANT and command.strip()
    actions = [action_of("bash", {"command": command})] if ran else []
    ids = message.get("tool_call_ids")
    answered = {"tool_call_id": ids[0] if isinstance(ids, list) and ids else ""}
    step = message_step({**message, **answered}, f"history[{nth}]", role=role, actions=actions)
    if role == ASSISTANT and not message.get("is_demo"):
        step = replace(step, totals=StepTotals(calls=1))
    if message.get("is_demo") is True:
        step = replace(step, role="user")
    return step_with_kept(step, message)
