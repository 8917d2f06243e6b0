"""``report.py RUN --export LAYOUT DIR``: write a run in the layout of another harness.

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
from reports.cli.options import ExportLayout
from reports.foreign.importing import messages_of_step
from reports.foreign.model import ASSISTANT, AgentAttempt, AgentStep, AttemptedInstance
from reports.foreign.readers import mini
from reports.foreign.readers.atif import NEWEST, made_id
from reports.foreign.readers.exported import (
    KEPT,
    kept_of_instance,
    kept_of_step,
    kept_values,
)
from reports.foreign.readers.predictions import PREDS
from reports.foreign.recognise import read_any
from runs.records import Totals

Files = Iterator[tuple[str, Mapping[str, Any]]]
"""Names of JSON files below the folder of a run, and their contents."""


def export_command(path: Path, layout: ExportLayout, folder: Path, say: Say) -> int:
    """Write the run at ``path`` into the new folder ``folder`` and return the exit code.

    The predictions of mini-swe-agent are in ``preds.json``; ATIF has none, and keeps patches in
    ``extra``.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(
            f"--export {layout.value} {folder}: it exists; delete it or name another"
        )
    run = read_any(path)
    redact = Redactor.of_environment(os.environ)
    predictions: dict[str, dict[str, Any]] = {}
    for instance in run.instances:
        name = instance.instance_id
        for file, content in _WRITERS[layout](instance, run.agent):
            write_json_atomic(folder / file, redact.of(content))
        if instance.patch is not None:
            predictions[name] = {
                "model_name_or_path": instance.label or run.name,
                "instance_id": name,
                "model_patch": instance.patch if instance.winner is not None else "",
            }
    if layout is ExportLayout.MINI:
        write_json_atomic(folder / PREDS, redact.of(predictions))
    say(f"exported {counted(len(predictions), 'instance')} as {layout.value}: {folder}")
    return 0


def _mini_files(instance: AttemptedInstance, agent: str) -> Files:
    """Yield a file for each attempt; the predicted attempt's has the name of the instance."""
    name = instance.instance_id
    chosen = instance.chosen or (instance.attempts[-1] if instance.attempts else None)
    for attempt in instance.attempts:
        stem = name if attempt is chosen else mini.further_name(name, attempt.attempt)
        ending = {
            "exit_status": attempt.exit_status or "",
            "submission": attempt.patch or "",
        }
        messages = [m for step in attempt.steps or () for m in _messages_of(step)]
        content = {
            "info": {
                "model_stats": {
                    "instance_cost": as_number(attempt.totals.cost),
                    "api_calls": attempt.totals.calls,
                },
                "config": {
                    "agent": {},
                    "agent_type": agent,
                    "model": {"model_name": attempt.model or ""},
                    "model_type": "",
                    "environment": {},
                    "environment_type": "",
                },
                "mini_version": "",
                **ending,
                KEPT: kept_values(instance, attempt),
            },
            "messages": [*messages, {"role": "exit", "content": "", "extra": ending}],
            "trajectory_format": mini.FORMAT,
            "instance_id": name,
        }
        yield f"{name}/{stem}{mini.ENDING}", content


def _messages_of(step: AgentStep) -> Iterator[dict[str, Any]]:
    """Yield a step and its observations as messages; tool calls have OpenAI's form."""
    first, *answers = messages_of_step(step)
    message: dict[str, Any] = {"role": first.role, "content": first.content}
    if first.reasoning:
        message["reasoning_content"] = first.reasoning
    if first.tool_calls:
        message["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in first.tool_calls
        ]
    if step.role == ASSISTANT:
        totals = step.totals
        commands = [
            a.arguments["command"] for a in step.actions if "command" in a.arguments
        ]
        usage = {
            "prompt_tokens": totals.prompt_tokens,
            "completion_tokens": totals.completion_tokens,
            "prompt_tokens_details": {"cached_tokens": totals.cached_tokens},
        }
        message["extra"] = {
            "actions": [{"command": command} for command in commands],
            "cost": as_number(totals.cost),
            "response": {"usage": usage},
        }
        message[KEPT] = kept_of_step(step)
    yield message
    for answer in answers:
        yield {
            "role": answer.role,
            "content": answer.content,
            "tool_call_id": answer.tool_call_id,
        }


def _atif_files(instance: AttemptedInstance, agent: str) -> Files:
    """Yield an instance as a trajectory, its attempts as embedded trajectories of subagents."""
    name = instance.instance_id
    chosen = instance.chosen or instance.attempts[-1]
    ids = [f"attempt-{attempt.attempt}" for attempt in instance.attempts]
    made = counted(len(ids), "attempt")
    results = [{"subagent_trajectory_ref": [{"trajectory_id": id}]} for id in ids]
    steps = [
        {"step_id": 1, "source": "user", "message": f"Resolve {name}."},
        {
            "step_id": 2,
            "source": "agent",
            "message": instance.reason or f"{made} on {name}.",
            "observation": {"results": results},
            "llm_call_count": 0,
        },
    ]
    kept = kept_of_instance(instance)
    content = {
        **_atif_head(agent, chosen),
        "session_id": name,
        "trajectory_id": name,
        "steps": steps,
        "extra": {KEPT: kept, "instance_id": name, "patch": instance.patch},
        "subagent_trajectories": [
            _atif_attempt(instance, a, agent) for a in instance.attempts
        ],
    }
    yield f"{name}.json", content


def _atif_head(agent: str, attempt: AgentAttempt) -> dict[str, Any]:
    name, _, version = (agent or "unknown").partition(" ")
    described = {"name": name, "version": version or "unknown"}
    if attempt.model:
        described["model_name"] = attempt.model
    return {"schema_version": NEWEST, "agent": described}


def _atif_attempt(
    instance: AttemptedInstance, attempt: AgentAttempt, agent: str
) -> dict[str, Any]:
    # A trajectory has at least one step: an attempt without messages ended before the first call.
    none = AgentStep("user", "No message was saved.")
    lanes: dict[int, list[AgentStep]] = {}
    for step in attempt.steps or (none,):
        lanes.setdefault(step.lane, []).append(step)
    (_, steps), *others = sorted(lanes.items())
    name, totals = f"attempt-{attempt.attempt}", attempt.totals
    head = {**_atif_head(agent, attempt), "session_id": instance.instance_id}
    nested = [
        {**head, "trajectory_id": f"{name}-lane-{lane}", "steps": _atif_steps(those)}
        for lane, those in others
    ]
    return {
        **head,
        "trajectory_id": name,
        "steps": _atif_steps(steps),
        **({"subagent_trajectories": nested} if nested else {}),
        "final_metrics": _known(
            {f"total_{name}": value for name, value in _metrics(totals).items()}
        ),
        "extra": {KEPT: kept_values(instance, attempt), "patch": attempt.patch},
    }


def _atif_steps(steps: Sequence[AgentStep]) -> list[dict[str, Any]]:
    return [_atif_step(step, number) for number, step in enumerate(steps, 1)]


def _atif_step(step: AgentStep, number: int) -> dict[str, Any]:
    sources = {"system": "system", ASSISTANT: "agent"}
    source, totals = sources.get(step.role, "user"), step.totals
    ids = [
        action.id or made_id(number, nth) for nth, action in enumerate(step.actions, 1)
    ]
    extra = {"role": step.role} if source == "user" != step.role else {}
    found: dict[str, Any] = {"step_id": number, "source": source, "message": step.text}
    if source == "agent":
        found["reasoning_content"] = step.reasoning or None
        if totals.calls != 0:
            found |= {
                "metrics": _known(_metrics(totals)) or None,
                "llm_call_count": totals.calls,
            }
        found["tool_calls"] = [
            {
                "tool_call_id": id,
                "function_name": a.name,
                "arguments": dict(a.arguments),
            }
            for id, a in zip(ids, step.actions, strict=True)
        ] or None
    if step.observations:
        results = []
        for seen in step.observations:
            answered = (
                {"source_call_id": seen.action_id} if seen.action_id in ids else {}
            )
            results.append({**answered, "content": seen.text})
        found["observation"] = {"results": results}
    return _known(
        {**found, "extra": _known({**extra, "seconds": step.seconds}) or None}
    )


def _metrics(totals: Totals) -> dict[str, float | None]:
    return {
        "prompt_tokens": totals.prompt_tokens,
        "completion_tokens": totals.completion_tokens,
        "cached_tokens": totals.cached_tokens,
        "cost_usd": as_number(totals.cost),
    }


def _known(values: Mapping[str, Any]) -> dict[str, Any]:
    # An absent key means unknown.
    return {key: value for key, value in values.items() if value is not None}


_WRITERS: Mapping[ExportLayout, Callable[[AttemptedInstance, str], Files]] = {
    ExportLayout.ATIF: _atif_files,
    ExportLayout.MINI: _mini_files,
}
