"""Values of our exports that the formats of others have no place for, there and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from core.money import as_number
from reports.data.jsonvalues import flag, mapping, number, text, whole
from reports.foreign.files import totals_of
from reports.foreign.model import AgentAttempt, AgentStep, AttemptedInstance
from runs.records import Totals

KEPT = "swe_retry_harness"
"""The key under which our exports keep the values that a format has no place for."""

_OF_ATTEMPT = ("attempt", "model", "exit_status", "seconds", "error")


def instance_of(
    name: str, attempts: Sequence[AgentAttempt], kept: Mapping[str, Any]
) -> AttemptedInstance:
    """Return an instance of these attempts.

    ``kept`` is from an export of ours (``kept_values``), and empty for files of others. There the
    last attempt with a patch is predicted.
    """
    ordered = tuple(sorted(attempts, key=lambda a: a.attempt))
    patched = [a.attempt for a in ordered if a.patch and a.patch.strip()]
    winner = (
        whole(kept.get("winner")) if "winner" in kept else max(patched, default=None)
    )
    return AttemptedInstance(
        instance_id=name,
        label=text(kept.get("model_name_or_path")) or None,
        attempts=ordered,
        winner=winner,
        resolved=flag(kept.get("resolved")),
        reason=text(kept.get("reason")),
        status=text(kept.get("status")) or None,
    )


def kept_values(instance: AttemptedInstance, attempt: AgentAttempt) -> dict[str, Any]:
    """Return the values of an attempt and its instance that other formats have no place for."""
    return {
        **kept_of_instance(instance),
        **{name: getattr(attempt, name) for name in _OF_ATTEMPT},
        "steps": None if attempt.steps is None else len(attempt.steps),
        "totals": _numbers(attempt.totals),
        "known": dict(attempt.known),
    }


def kept_of_instance(instance: AttemptedInstance) -> dict[str, Any]:
    names = ("winner", "resolved", "reason", "status")
    own = {"instance_id": instance.instance_id, "model_name_or_path": instance.label}
    return own | {name: getattr(instance, name) for name in names}


def _numbers(totals: Totals) -> dict[str, float | None]:
    return {**totals.counts(), "cost": as_number(totals.cost)}


def with_kept(attempt: AgentAttempt, kept: Mapping[str, Any]) -> AgentAttempt:
    """Return an attempt with the values of ``kept_values``; as it is where there are none."""
    if not kept:
        return attempt
    said = whole(kept.get("steps"))
    return replace(
        attempt,
        # A format that needs a step, or a list of them, gets one where there is none.
        steps=attempt.steps if said else None if said is None else (),
        attempt=whole(kept.get("attempt")) or attempt.attempt,
        model=text(kept.get("model")) or None,
        exit_status=text(kept.get("exit_status")) or None,
        seconds=number(kept.get("seconds")),
        error=text(kept.get("error")),
        totals=totals_of(kept.get("totals")),
        known=mapping(kept.get("known")),
    )


def kept_of_step(step: AgentStep) -> dict[str, Any]:
    """Return the numbers of a step of the model, for formats that have no place for them."""
    return {"totals": _numbers(step.totals), "seconds": step.seconds}


def step_with_kept(step: AgentStep, message: Mapping[str, Any]) -> AgentStep:
    """Return a step with the numbers of ``kept_of_step`` in its message, if there are any."""
    kept = mapping(message.get(KEPT))
    if not kept:
        return step
    numbers = totals_of(kept.get("totals"))
    return replace(step, totals=numbers, seconds=number(kept.get("seconds")))
