"""Pure: an instance as a ``.traj`` of SWE-agent, with ``attempts`` as its retrying agents do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from core.money import as_number
from reports.foreign.export.mini import messages_of
from reports.foreign.model import AgentAttempt, AgentStep, AttemptedInstance
from reports.foreign.readers.joining import KEPT, kept_values
from reports.foreign.readers.sweagent import ENDING

_TYPES = {"system": "system_prompt", "assistant": "action"}


def sweagent_files(
    instance: AttemptedInstance, agent: str
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the one file of an instance: all attempts, and the predicted one beside them."""
    name = instance.instance_id
    tried = [_attempt(instance, attempt, agent) for attempt in instance.attempts]
    chosen = instance.chosen or instance.attempts[-1]
    at = instance.attempts.index(chosen)
    info = {**tried[at]["info"], "best_attempt_idx": at if instance.winner is not None else None}
    yield f"{name}/{name}{ENDING}", {**tried[at], "info": info, "attempts": tried}


def _attempt(instance: AttemptedInstance, attempt: AgentAttempt, agent: str) -> dict[str, Any]:
    steps = attempt.steps or ()
    totals = attempt.totals
    return {
        "trajectory": [_taken(step) for step in steps if step.by_model],
        "history": [_typed(message) for step in steps for message in messages_of(step)],
        "info": {
            "exit_status": attempt.exit_status,
            "submission": attempt.patch,
            "model_stats": {
                "instance_cost": as_number(totals.cost),
                "tokens_sent": totals.prompt_tokens,
                "tokens_received": totals.completion_tokens,
                "api_calls": totals.calls,
            },
            "swe_agent_version": agent,
            KEPT: kept_values(instance, attempt),
        },
        "replay_config": None,
        "environment": "main",
    }


def _taken(step: AgentStep) -> dict[str, Any]:
    commands = (str(action.arguments.get("command", "")) for action in step.actions)
    return {
        "action": "\n".join(filter(None, commands)),
        "observation": "\n".join(seen.text for seen in step.observations),
        "response": step.text,
        "thought": step.text,
        "state": {},
        "execution_time": step.seconds or 0.0,
        "query": [],
        "extra_info": {},
    }


def _typed(message: dict[str, Any]) -> dict[str, Any]:
    typed = {"message_type": _TYPES.get(message["role"], "observation"), "agent": "main"}
    if "tool_call_id" in message:
        return {**message, **typed, "tool_call_ids": [message["tool_call_id"]]}
    return {**message, **typed}
