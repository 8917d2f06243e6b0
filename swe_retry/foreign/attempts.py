"""Attempts of other harnesses in our records, and what an export of ours says of them beside.

In an ``Attempt`` of another harness, ``calls`` has one reply for each message of the model; where
such a message may stand for several calls, its ``usage`` is a ``Totals`` with their number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from swe_retry.agent.named import OUTSIDE
from swe_retry.core.jsontypes import JsonObject, object_at, text_at
from swe_retry.core.money import as_number, total
from swe_retry.foreign.files import checked_patch, totals_of
from swe_retry.llm.chat import Message, Reply
from swe_retry.record.records import Attempt, Totals
from swe_retry.results.jsonvalues import integer
from swe_retry.results.rundata import InstanceData

ASSISTANT = "assistant"
TOOL = "tool"
EXTENSION = "swe_retry_harness"
"""The key of our extension of a format: the values that the format has no place for."""

_EXTENSION_FIELDS = (
    "edit_format",
    "reflections",
    *(name for name in Attempt.model_fields if name.endswith("_outcome")),
    "added_files",
    "edits_test_configuration",
    "tests_doubted",
)


@dataclass
class ChatStep:
    """A message with its call, if there was one, and what the tools returned that it called."""

    message: Message
    call: Reply | None = None
    answers: list[Message] = field(default_factory=list)

    @property
    def seconds(self) -> float | None:
        """How long its call took; replies of other harnesses say 0 where that is unknown."""
        if self.call is None:
            return None
        of_others = isinstance(self.call.usage, Totals)
        if of_others and not self.call.seconds:
            return None
        return self.call.seconds


def sums_of(steps: Sequence[ChatStep]) -> Totals:
    """Return the sums over calls; a value that one lacks is unknown, and so are those of none."""
    calls = calls_of(steps)
    if not calls:
        return Totals()
    counts = [getattr(call.usage, "calls", 1) for call in calls]
    count = None
    if None not in counts:
        count = sum(counts)
    return replace(Totals.of(calls), calls=count)


def calls_of(steps: Sequence[ChatStep]) -> tuple[Reply, ...]:
    calls = [step.call for step in steps]
    return tuple(filter(None, calls))


def with_cost(totals: Totals) -> dict[str, float | None]:
    return {
        **totals.counts(),
        "cost": as_number(totals.cost),
    }


def steps_of(attempt: Attempt) -> list[ChatStep]:
    """Return a step for each message; replies have their calls."""
    steps = list(map(ChatStep, attempt.messages or ()))
    replies = [step for step in steps if step.message.role == ASSISTANT]
    calls = attempt.calls or ()
    number = 0
    for step in replies:
        if number == len(calls):
            break
        call = calls[number]
        message = step.message
        is_reply = (
            message.content == call.content and message.tool_calls == call.tool_calls
        )
        # A conversation that goes on with another repeats its replies.
        if is_reply or len(calls) == len(replies):
            step.call = call
            number += 1
    return steps


def steps_by_lane(attempt: Attempt) -> dict[int, list[ChatStep]]:
    """Return the steps of each conversation, by its number; answers of tools are in their steps."""
    lanes: dict[int, list[ChatStep]] = {}
    for step in steps_of(attempt):
        steps = lanes.setdefault(step.message.lane, [])
        follows_reply = steps and steps[-1].message.role == ASSISTANT
        if step.message.role == TOOL and follows_reply:
            steps[-1].answers.append(step.message)
        else:
            steps.append(step)
    return dict(sorted(lanes.items()))


def instance_of(
    name: str,
    attempts: Sequence[Attempt],
    extension: JsonObject,
    label: str = "",
) -> InstanceData:
    """Return an instance of these attempts.

    ``extension`` is from an export of ours (``extension_of_attempt``), and empty for files of
    others. There the last attempt with a patch is predicted.
    """
    ordered = sorted(attempts, key=lambda attempt: attempt.attempt)
    winner = None
    patches = {}
    for attempt in ordered:
        patches[attempt.attempt] = attempt.model_patch
        if attempt.model_patch.strip():
            winner = attempt.attempt
    if "winner" in extension:
        winner = integer(extension["winner"])
    return InstanceData(
        instance_id=name,
        model_name_or_path=label or text_at(extension, "model_name_or_path"),
        model_patch=patches.get(winner or 0, ""),
        attempt=winner or ordered[-1].attempt,
        attempts=tuple(ordered),
        cost=total(attempt.cost for attempt in ordered),
        resolved_said=extension.get("resolved"),
        reason=text_at(extension, "reason"),
        status=text_at(extension, "status"),
    )


def attempt_of(
    path: Path,
    patch: object,
    totals: Totals,
    extension: JsonObject,
    attempt: int = 1,
    **values: Any,  # noqa: ANN401 - values of any field
) -> Attempt:
    """Return an attempt of another harness.

    Our extension, if there is one, says more of it; ``values`` hold what the format says.
    """
    values = {
        "attempt": attempt,
        "edit_format": OUTSIDE,
        "totals": totals,
        "model_patch": checked_patch(path, patch),
        "patch_known": patch is not None,
        **values,
    }
    if extension:
        values |= {
            "attempt": integer(extension.get("attempt")) or attempt,
            "model": text_at(extension, "model"),
            "status": extension.get("exit_status"),
            "seconds": extension.get("seconds"),
            "error": extension.get("error"),
            "totals": totals_of(extension.get("totals")),
        }
        # A format that needs a step, or a list of them, has one where there was none.
        if not integer(extension.get("steps")):
            values |= {"messages": None, "calls": ()}
    outcomes = object_at(extension, "known")
    if outcomes:
        for name in _EXTENSION_FIELDS:
            values[name] = outcomes.get(name)
        suffix = f"@{values['edit_format']}"
        values["model"] = values["model"].removesuffix(suffix)
    return Attempt(
        **values,
        cost=values["totals"].cost,
        try_=integer(outcomes.get("try")) or values["attempt"],
        imported=True,
        outcomes_known=bool(outcomes),
    )


def extension_of_instance(instance: InstanceData) -> JsonObject:
    winner = instance.winner
    return {
        "instance_id": instance.instance_id,
        "model_name_or_path": instance.model_name_or_path or None,
        "winner": winner and winner.attempt,
        "resolved": instance.resolved_said,
        "reason": instance.reason,
        "status": str(instance.status) or None,
    }


def extension_of_attempt(instance: InstanceData, attempt: Attempt) -> JsonObject:
    """Return the values of an attempt and its instance that other formats have no place for."""
    lanes = steps_by_lane(attempt)
    steps = sum(map(len, lanes.values()))
    outcomes = {}
    if attempt.outcomes_known:
        values = attempt.as_json()
        for name in ("try", *_EXTENSION_FIELDS):
            if name in values:
                outcomes[name] = values[name]
    return {
        **extension_of_instance(instance),
        "attempt": attempt.attempt,
        "model": attempt.label or None,
        "exit_status": str(attempt.status) or None,
        "seconds": attempt.seconds,
        "error": attempt.error,
        "steps": steps or None,
        "totals": with_cost(attempt.sums),
        "known": outcomes,
    }


def head_of(instance: InstanceData) -> Attempt:
    """Return the attempt that stands for an instance."""
    return instance.winner or instance.attempts[-1]


def predicted_patch(instance: InstanceData) -> str | None:
    """Return the predicted patch; None if no file says which."""
    recorded = [attempt.patch_known for attempt in instance.attempts]
    if instance.winner or all(recorded):
        return instance.patch
    return None
