"""Values of our exports that the formats of others have no place for, there and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agent.named import OUTSIDE
from core.money import as_number, total
from llm.chat import Reply
from reports.data.jsonvalues import flag, integer, mapping, number, text
from reports.data.rundata import InstanceData
from reports.foreign.files import reply_of, totals_of
from reports.foreign.model import seconds_of, steps_by_lane, totals_of_call
from runs.records import Attempt, Totals

EXTENSION = "swe_retry_harness"
"""The key of our extension of a format: the values that the format has no place for."""

_OF_OUR_ATTEMPTS = (
    "edit_format",
    "reflections",
    *(name for name in Attempt.model_fields if name.endswith("_outcome")),
    "added_files",
    "edits_test_configuration",
)


def instance_of(
    name: str, attempts: Sequence[Attempt], extension: Mapping[str, Any]
) -> InstanceData:
    """Return an instance of these attempts.

    ``extension`` is from an export of ours (``extension_of_attempt``), and empty for files of
    others. There the last attempt with a patch is predicted.
    """
    ordered = sorted(attempts, key=lambda attempt: attempt.attempt)
    winner: int | None = None
    patches = {}
    for attempt in ordered:
        patches[attempt.attempt] = attempt.model_patch
        if attempt.model_patch.strip():
            winner = attempt.attempt
    if "winner" in extension:
        winner = integer(extension["winner"])
    return InstanceData(
        instance_id=name,
        model_name_or_path=text(extension.get("model_name_or_path")),
        model_patch=patches.get(winner or 0, ""),
        attempt=winner or ordered[-1].attempt,
        attempts=tuple(ordered),
        cost=total(attempt.cost for attempt in ordered),
        resolved_said=flag(extension.get("resolved")),
        reason=text(extension.get("reason")),
        status=text(extension.get("status")),
    )


def extension_of_attempt(
    instance: InstanceData,
    attempt: Attempt,
) -> dict[str, Any]:
    """Return the values of an attempt and its instance that other formats have no place for."""
    lanes = steps_by_lane(attempt)
    steps = sum(map(len, lanes.values()))
    outcomes = {}
    if attempt.outcomes_known:
        values = attempt.as_json()
        for name in ("try", *_OF_OUR_ATTEMPTS):
            outcomes[name] = values[name]
    return {
        **extension_of_instance(instance),
        "attempt": attempt.attempt,
        "model": attempt.label or None,
        "exit_status": str(attempt.status) or None,
        "seconds": attempt.seconds,
        "error": attempt.error,
        "steps": steps or None,
        "totals": _numbers(attempt.sums),
        "known": outcomes,
    }


def extension_of_instance(instance: InstanceData) -> dict[str, Any]:
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
    return {
        **totals.counts(),
        "cost": as_number(totals.cost),
    }


def attempt_of(
    attempt: Attempt,
    extension: Mapping[str, Any],
) -> Attempt:
    """Return an attempt of another harness; our extension, if there is one, says more of it."""
    values: dict[str, Any] = {
        "imported": True,
        "outcomes_known": False,
        "edit_format": OUTSIDE,
        "attempt": attempt.attempt,
    }
    if extension:
        values |= _values_of_attempt(attempt, extension)
    outcomes = mapping(extension.get("known"))
    if outcomes:
        values["outcomes_known"] = True
        for name in _OF_OUR_ATTEMPTS:
            values[name] = outcomes.get(name)
        suffix = f"@{values['edit_format']}"
        values["model"] = values["model"].removesuffix(suffix)
    values["try_"] = integer(outcomes.get("try")) or values["attempt"]
    return attempt.but(**values)


def _values_of_attempt(
    attempt: Attempt, extension: Mapping[str, Any]
) -> dict[str, Any]:
    totals = totals_of(extension.get("totals"))
    values = {
        "attempt": integer(extension.get("attempt")) or attempt.attempt,
        "model": text(extension.get("model")),
        "status": text(extension.get("exit_status")),
        "seconds": number(extension.get("seconds")),
        "error": text(extension.get("error")),
        "totals": totals,
        "cost": totals.cost,
    }
    # A format that needs a step, or a list of them, has one where there was none.
    if not integer(extension.get("steps")):
        values.update(messages=None, calls=())
    return values


def extension_of_call(call: Reply | None) -> dict[str, Any]:
    """Return the numbers of a call of the model, for formats that have no place for them."""
    totals = totals_of_call(call)
    return {
        "totals": _numbers(totals),
        "seconds": seconds_of(call),
    }


def extended_reply(
    reply: Reply,
    message: Mapping[str, Any],
) -> Reply:
    """Return a reply, with the numbers of our extension of its message if there is one."""
    extension = mapping(message.get(EXTENSION))
    if not extension:
        return reply
    totals = totals_of(extension.get("totals"))
    return reply_of(totals, extension.get("seconds"))
