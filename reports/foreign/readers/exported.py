"""Values of our exports that the formats of others have no place for, there and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agent.named import OUTSIDE
from core.money import as_number, total
from llm.chat import Reply
from reports.data.jsonvalues import flag, mapping, number, text, whole
from reports.data.rundata import InstanceData
from reports.foreign.files import reply_of, totals_of
from reports.foreign.model import seconds_of, steps_by_lane, totals_of_call
from runs.records import Attempt, Totals

KEPT = "swe_retry_harness"
"""The key under which our exports keep the values that a format has no place for."""

_OF_OUR_ATTEMPTS = (
    "edit_format",
    "reflections",
    "edit_outcome",
    "lint_outcome",
    "test_outcome",
    "added_files",
    "edits_test_configuration",
)


def instance_of(
    name: str, attempts: Sequence[Attempt], kept: Mapping[str, Any]
) -> InstanceData:
    """Return an instance of these attempts.

    ``kept`` is from an export of ours (``kept_values``), and empty for files of others. There the
    last attempt with a patch is predicted.
    """
    ordered = tuple(sorted(attempts, key=lambda attempt: attempt.attempt))
    winner: int | None = None
    for attempt in ordered:
        if attempt.model_patch.strip():
            winner = attempt.attempt
    if "winner" in kept:
        winner = whole(kept.get("winner"))
    number = winner or ordered[-1].attempt
    patches = {attempt.attempt: attempt.model_patch for attempt in ordered}
    return InstanceData(
        instance_id=name,
        model_name_or_path=text(kept.get("model_name_or_path")),
        model_patch=patches.get(number, "") if winner else "",
        attempt=number,
        attempts=ordered,
        cost=total(attempt.cost for attempt in ordered),
        resolved_said=flag(kept.get("resolved")),
        reason=text(kept.get("reason")),
        status=text(kept.get("status")),
    )


def kept_values(instance: InstanceData, attempt: Attempt) -> dict[str, Any]:
    """Return the values of an attempt and its instance that other formats have no place for."""
    steps = sum(map(len, steps_by_lane(attempt).values()))
    own = {}
    if attempt.outcomes_known:
        values = attempt.as_json()
        own = {name: values[name] for name in ("try", *_OF_OUR_ATTEMPTS)}
    return {
        **kept_of_instance(instance),
        "attempt": attempt.attempt,
        "model": attempt.label or None,
        "exit_status": str(attempt.status) or None,
        "seconds": attempt.seconds,
        "error": attempt.error,
        "steps": steps or None,
        "totals": _numbers(attempt.sums),
        "known": own,
    }


def kept_of_instance(instance: InstanceData) -> dict[str, Any]:
    winner = instance.winner
    return {
        "instance_id": instance.instance_id,
        "model_name_or_path": instance.model_name_or_path or None,
        "winner": winner and winner.attempt,
        "resolved": instance.resolved_said,
        "reason": instance.reason,
        "status": str(instance.status) or None,
    }


def _numbers(totals: Totals) -> dict[str, float | None]:
    return {**totals.counts(), "cost": as_number(totals.cost)}


def attempt_of(attempt: Attempt, kept: Mapping[str, Any]) -> Attempt:
    """Return an attempt of another harness, with the values of ``kept_values`` if there are any."""
    values: dict[str, Any] = {
        "imported": True,
        "outcomes_known": False,
        "edit_format": OUTSIDE,
        "attempt": attempt.attempt,
    }
    if kept:
        values |= _values_of_attempt(attempt, kept)
    known = mapping(kept.get("known"))
    if known:
        values["outcomes_known"] = True
        values |= {name: known.get(name) for name in _OF_OUR_ATTEMPTS}
        values["model"] = values["model"].removesuffix(f"@{known.get('edit_format')}")
    values["try_"] = whole(known.get("try")) or values["attempt"]
    return attempt.but(**values)


def _values_of_attempt(attempt: Attempt, kept: Mapping[str, Any]) -> dict[str, Any]:
    # A format that needs a step, or a list of them, has one where there was none.
    messages = attempt.messages if whole(kept.get("steps")) else None
    totals = totals_of(kept.get("totals"))
    return {
        "messages": messages,
        "calls": attempt.calls if messages else (),
        "attempt": whole(kept.get("attempt")) or attempt.attempt,
        "model": text(kept.get("model")),
        "status": text(kept.get("exit_status")),
        "seconds": number(kept.get("seconds")),
        "error": text(kept.get("error")),
        "totals": totals,
        "cost": totals.cost,
    }


def kept_of_call(call: Reply | None) -> dict[str, Any]:
    """Return the numbers of a call of the model, for formats that have no place for them."""
    return {"totals": _numbers(totals_of_call(call)), "seconds": seconds_of(call)}


def reply_with_kept(reply: Reply, message: Mapping[str, Any]) -> Reply:
    """Return a reply with the numbers of ``kept_of_call`` in its message, if there are any."""
    kept = mapping(message.get(KEPT))
    if not kept:
        return reply
    return reply_of(totals_of(kept.get("totals")), kept.get("seconds"))
