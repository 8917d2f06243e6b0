"""Pure: a run of any harness in the models of our records.

What a format does not say is None, or empty for a text. ``Attempt.calls`` has one reply for each
message of the model; where such a message may stand for several calls, its ``usage`` is a
``Totals`` with their number.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path

from llm.chat import Message, Reply
from reports.data.rundata import InstanceData
from runs.records import Attempt, Totals

ASSISTANT = "assistant"
TOOL = "tool"


class RunLayout(str, Enum):
    """The layouts that can be read, by their names for the user."""

    OURS = "swe-retry-harness"
    MINI = "mini-swe-agent"
    PREDICTIONS = "predictions"
    ATIF = "ATIF"


@dataclass(frozen=True)
class AnyRun:
    name: str  # of its folder or file
    path: Path
    layout: RunLayout
    # Read when they are iterated over; they may not fit into memory together.
    instances: Iterator[InstanceData]
    agent: str = ""  # its name and version, where they are known


@dataclass
class AnsweredMessage:
    """A message with its call, if there was one, and what the tools returned that it called."""

    message: Message
    call: Reply | None = None
    answers: list[Message] = field(default_factory=list)


def totals_of_call(call: Reply | None) -> Totals:
    if call is None:
        return Totals()
    if isinstance(call.usage, Totals):
        return replace(call.usage, cost=call.cost)
    return Totals.of([call])


def seconds_of(call: Reply | None) -> float | None:
    """Return how long a call took; other formats' replies say 0 where that is unknown."""
    if call is None or (not call.seconds and isinstance(call.usage, Totals)):
        return None
    return call.seconds


def sums_of(calls: Sequence[Reply]) -> Totals:
    """Return the sums over replies; a value that one lacks is unknown, and so are those of none."""
    if not calls:
        return Totals()
    counts = [totals_of_call(call).calls for call in calls]
    count = None
    if None not in counts:
        count = sum(filter(None, counts))
    return replace(Totals.of(calls), calls=count)


def messages_with_calls(attempt: Attempt) -> list[tuple[Message, Reply | None]]:
    """Return all messages, those of the model with their calls where there are as many."""
    messages = attempt.messages or ()
    calls = attempt.calls or ()
    roles = [message.role for message in messages]
    if len(calls) != roles.count(ASSISTANT):
        calls = ()
    remaining_calls = iter(calls)
    pairs = []
    for message in messages:
        call = None
        if message.role == ASSISTANT:
            call = next(remaining_calls, None)
        pairs.append((message, call))
    return pairs


def steps_by_lane(attempt: Attempt) -> dict[int, list[AnsweredMessage]]:
    """Return the steps of each conversation that an attempt held, by its number."""
    lanes: dict[int, list[AnsweredMessage]] = {}
    for message, call in messages_with_calls(attempt):
        steps = lanes.setdefault(message.lane, [])
        follows_reply = steps and steps[-1].message.role == ASSISTANT
        if message.role == TOOL and follows_reply:
            steps[-1].answers.append(message)
        else:
            step = AnsweredMessage(message, call)
            steps.append(step)
    return dict(sorted(lanes.items()))
