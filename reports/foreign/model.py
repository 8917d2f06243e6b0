"""Pure: a run of any harness as one model; None where its format does not say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any

from core.money import total
from runs.records import Totals

ASSISTANT, TOOL = "assistant", "tool"
UNKNOWN_TOTALS = Totals()


class RunLayout(str, Enum):
    """The layouts that can be read, by their names for the user."""

    OURS = "swe-retry-harness"
    MINI = "mini-swe-agent"
    PREDICTIONS = "predictions"
    ATIF = "ATIF"


@dataclass(frozen=True)
class Action:
    name: str
    arguments: Mapping[
        str, Any
    ]  # a text that is not a JSON object stands under ``input``
    id: str = ""  # by which an observation names it


@dataclass(frozen=True)
class Observation:
    text: str
    action_id: str = ""  # of the ``Action`` that it answers; empty if unknown


@dataclass(frozen=True)
class AgentStep:
    """One message, with the actions in it and what they returned."""

    role: str  # ``system``, ``user`` or ``assistant``; others as their format has them
    text: str
    reasoning: str = ""
    actions: tuple[Action, ...] = ()
    observations: tuple[Observation, ...] = ()
    totals: Totals = UNKNOWN_TOTALS
    seconds: float | None = None
    lane: int = 0  # the number of its conversation in the attempt

    @property
    def by_model(self) -> bool:
        return self.role == ASSISTANT


@dataclass(frozen=True)
class AgentAttempt:
    attempt: int  # its number over the instance, from 1
    model: str | None
    steps: tuple[AgentStep, ...] | None  # None if the format holds no conversation
    totals: Totals
    patch: str | None  # None if the format holds none; empty if the agent left none
    exit_status: str | None
    seconds: float | None = None
    error: str = ""
    # Outcomes and other values of our own attempts, for the way back.
    known: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class AttemptedInstance:
    instance_id: str
    label: str | None  # ``model_name_or_path``
    attempts: tuple[AgentAttempt, ...]
    winner: int | None  # the number of the predicted attempt; None if there is none
    resolved: bool | None = None  # by a verdict in the run's files
    reason: str = ""
    status: str | None = None  # of an instance of ours

    @property
    def chosen(self) -> AgentAttempt | None:
        """The predicted attempt, else the only one."""
        only = self.attempts[0] if len(self.attempts) == 1 else None
        return next((a for a in self.attempts if a.attempt == self.winner), only)

    @property
    def patch(self) -> str | None:
        if self.chosen is not None:
            return self.chosen.patch
        return None if any(a.patch is None for a in self.attempts) else ""

    @property
    def cost(self) -> Decimal | None:
        return total(a.totals.cost for a in self.attempts) if self.attempts else None


@dataclass(frozen=True)
class AttemptedRun:
    name: str  # of its folder or file
    path: Path
    layout: RunLayout
    # Read when they are iterated over; they may not fit into memory together.
    instances: Iterator[AttemptedInstance]
    agent: str = ""  # its name and version, where they are known


def summed(steps: Sequence[AgentStep]) -> Totals:
    """Return the totals of all steps by the model; a value that one lacks is unknown."""
    every = [step.totals for step in steps if step.by_model]
    if not every:
        return UNKNOWN_TOTALS
    columns = {
        name: [totals.counts()[name] for totals in every] for name in every[0].counts()
    }
    sums = {
        n: None if None in each else sum(filter(None, each))
        for n, each in columns.items()
    }
    return Totals(**sums, cost=total(totals.cost for totals in every))


def folded(steps: Sequence[AgentStep]) -> tuple[AgentStep, ...]:
    """Return the steps with messages of tools as observations of the actions that they answer."""
    found: list[AgentStep] = []
    for step in steps:
        last = found[-1] if found else None
        if step.role != TOOL or last is None or not last.by_model or not last.actions:
            found.append(step)
            continue
        action = step.actions[0].id if step.actions else ""
        seen = Observation(step.text, action)
        found[-1] = replace(last, observations=(*last.observations, seen))
    return tuple(found)
