"""Pure: an instance as files of mini-swe-agent, one for each attempt."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from core.money import as_number
from reports.foreign.files import as_text
from reports.foreign.model import ASSISTANT, AgentAttempt, AgentStep, AttemptedInstance
from reports.foreign.readers.joining import KEPT, further_name, kept_of_step, kept_values
from reports.foreign.readers.mini import ENDING, FORMAT


def mini_files(instance: AttemptedInstance, agent: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the files of an instance: the predicted attempt's has the name of the instance."""
    name = instance.instance_id
    chosen = instance.chosen or (instance.attempts[-1] if instance.attempts else None)
    for attempt in instance.attempts:
        stem = name if attempt is chosen else further_name(name, attempt.attempt)
        yield f"{name}/{stem}{ENDING}", _trajectory(instance, attempt, agent)


def _trajectory(instance: AttemptedInstance, attempt: AgentAttempt, agent: str) -> dict[str, Any]:
    ending = {"exit_status": attempt.exit_status or "", "submission": attempt.patch or ""}
    messages = [m for step in attempt.steps or () for m in messages_of(step)]
    last = {"role": "exit", "content": "", "extra": ending}
    return {
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
        "messages": [*messages, last],
        "trajectory_format": FORMAT,
        "instance_id": instance.instance_id,
    }


def messages_of(step: AgentStep) -> Iterator[dict[str, Any]]:
    """Yield a step and its observations as messages; tool calls have OpenAI's form."""
    message: dict[str, Any] = {"role": step.role, "content": step.text}
    if step.reasoning:
        message["reasoning_content"] = step.reasoning
    if step.actions:
        message["tool_calls"] = [
            {
                "id": action.id,
                "type": "function",
                "function": {"name": action.name, "arguments": as_text(dict(action.arguments))},
            }
            for action in step.actions
        ]
    if step.role == ASSISTANT:
        message |= {"extra": _extra(step), KEPT: kept_of_step(step)}
    yield message
    for seen in step.observations:
        yield {"role": "tool", "content": seen.text, "tool_call_id": seen.action_id}


def _extra(step: AgentStep) -> dict[str, Any]:
    totals = step.totals
    commands = [a.arguments["command"] for a in step.actions if "command" in a.arguments]
    return {
        "actions": [{"command": command} for command in commands],
        "cost": as_number(totals.cost),
        "response": {
            "usage": {
                "prompt_tokens": totals.prompt_tokens,
                "completion_tokens": totals.completion_tokens,
                "prompt_tokens_details": {"cached_tokens": totals.cached_tokens},
            }
        },
    }
