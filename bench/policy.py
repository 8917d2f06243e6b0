"""The options of choosing and stopping: how many attempts are made, and which one is predicted."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any

from core.errors import UserError
from core.options import option, option_group
from runs.calls.budget import read_usd

CHOICE = "Choosing and stopping"


class StopRule(str, Enum):
    """When an instance has enough attempts; the value is that of ``--stop``."""

    PLAUSIBLE = "plausible"
    VALUE = "value"
    ALL = "all"


class SelectionRule(str, Enum):
    """How the prediction is chosen among the candidates."""

    PLAUSIBLE = "plausible"
    EVIDENCE = "evidence"


class ToldHistory(str, Enum):
    """What an attempt is told of those before it."""

    NONE = "none"
    OUTCOMES = "outcomes"
    SUMMARY = "summary"


Past = tuple[tuple[bool, Decimal | None], ...]
"""The attempts on an earlier instance in turn: whether each was plausible, and its dollars."""


@dataclass(frozen=True)
class History:
    """What happened to earlier instances."""

    instances: tuple[Past, ...] = ()

    def after_failures(self, attempts: int) -> Past:
        """Return what came next wherever this many attempts gave no plausible one."""
        return tuple(
            past[attempts]
            for past in self.instances
            if len(past) > attempts and not any(plausible for plausible, _ in past[:attempts])
        )


@dataclass(frozen=True)
class StopOptions:
    """When to stop.

    Attributes:
        value_usd: what a further plausible instance is worth; for the rule ``value``.
        history: of earlier runs; for the rule ``value``.
    """

    rule: StopRule = StopRule.PLAUSIBLE
    value_usd: Decimal | None = None
    history: History | None = None


@option_group
class PolicyOptions:
    """What is attempted, and what is chosen.

    Attributes:
        past: what happened in ``prior_runs``.
    """

    select: SelectionRule = option(
        SelectionRule.PLAUSIBLE,
        "plausible: predict the first plausible candidate, else the least bad one; evidence: run "
        "scripts that models write for the issue on all candidates, and choose by their outcomes.",
        "--select",
        panel=CHOICE,
        decides=True,
    )
    scripts: int = option(
        6, "Ask for this many scripts.", "--scripts", panel=CHOICE, least=0, decides=True
    )
    rounds: int = option(
        2,
        "Ask at most this often for a script that tells the two best groups of candidates apart.",
        "--rounds",
        panel=CHOICE,
        least=0,
        decides=True,
    )
    all_attempts: bool = option(
        False,
        "Go on after a plausible attempt (for studies); the same as --stop all.",
        "--all-attempts",
        panel=CHOICE,
        decides=True,
    )
    stop: StopRule = option(
        StopRule.PLAUSIBLE,
        "End the attempts on an instance when one is plausible; when another is worth less than it "
        "costs (value); or when all are made (all).",
        "--stop",
        panel=CHOICE,
        decides=True,
    )
    value_usd: Decimal | None = option(
        None,
        "Dollars that a plausible patch is worth (with --stop value).",
        "--value-usd",
        panel=CHOICE,
        given=str,
        decides=True,
        read=read_usd,
    )
    prior_runs: tuple[Path, ...] = option(
        (),
        "Take the chance of an attempt from this run (with --stop value); repeatable.",
        "--prior-runs",
        panel=CHOICE,
    )
    history: ToldHistory = option(
        ToldHistory.NONE,
        "Tell an attempt what became of those before it: nothing; which files they edited and "
        "which tests newly failed (outcomes); or a summary of that by its model (summary).",
        "--history",
        panel=CHOICE,
        decides=True,
    )
    past: tuple[Past, ...] = ()

    @property
    def by_evidence(self) -> bool:
        return self.select is SelectionRule.EVIDENCE

    @property
    def stops(self) -> StopOptions:
        rule = StopRule.ALL if self.all_attempts else self.stop
        return StopOptions(rule, self.value_usd, History(self.past))

    def check_policy(self) -> None:
        """Check that the options fit together."""
        if self.all_attempts and self.stop not in (StopRule.PLAUSIBLE, StopRule.ALL):
            raise UserError(f"--all-attempts and --stop {self.stop.value} differ; give one")
        if self.stop is StopRule.VALUE and (self.value_usd is None or not self.prior_runs):
            raise UserError("--stop value needs --value-usd and --prior-runs; give both")
        if self.stop is not StopRule.VALUE and (self.value_usd is not None or self.prior_runs):
            raise UserError("--value-usd and --prior-runs are for --stop value; give it too")

    def deciding_policy(self) -> dict[str, Any]:
        """Return what of the policy decides results; None where records of before have nothing."""
        return {
            "select": self.select.value if self.by_evidence else None,
            "scripts": self.scripts if self.by_evidence else None,
            "rounds": self.rounds if self.by_evidence else None,
            "stop": None if self.stop in (StopRule.PLAUSIBLE, StopRule.ALL) else self.stop.value,
            "history": None if self.history is ToldHistory.NONE else self.history.value,
            "value_usd": None if self.value_usd is None else str(self.value_usd),
            "past_sha256": _sha256(self.past) if self.past else None,
        }


def _sha256(past: tuple[Past, ...]) -> str:
    return hashlib.sha256(repr(past).encode()).hexdigest()
