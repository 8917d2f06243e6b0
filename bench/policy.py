"""The options of choosing and stopping: how many attempts are made, and which one is predicted."""

from __future__ import annotations

from enum import Enum
from typing import Any

from core.options import option, option_group

CHOICE = "Choosing and stopping"


class StopRule(str, Enum):
    """When an instance has enough attempts; the value is that of ``--stop``."""

    PLAUSIBLE = "plausible"
    ALL = "all"


class SelectionRule(str, Enum):
    """How the prediction is chosen among the candidates."""

    PLAUSIBLE = "plausible"
    EVIDENCE = "evidence"


class ToldHistory(str, Enum):
    """What an attempt is told of those before it."""

    NONE = "none"
    OUTCOMES = "outcomes"


@option_group
class PolicyOptions:
    """What is attempted, and what is chosen."""

    select: SelectionRule = option(
        SelectionRule.PLAUSIBLE,
        "plausible: predict the first plausible candidate, else the least bad one; evidence: run "
        "scripts that models write for the issue on all candidates, and choose by their outcomes.",
        "--select",
        panel=CHOICE,
        decides=True,
    )
    scripts: int = option(
        6,
        "Ask for this many scripts.",
        "--scripts",
        panel=CHOICE,
        least=0,
        decides=True,
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
        "End the attempts on an instance when one is plausible, or when all are made (all).",
        "--stop",
        panel=CHOICE,
        decides=True,
    )
    history: ToldHistory = option(
        ToldHistory.NONE,
        "Tell an attempt what became of those before it: nothing, or which files they edited and "
        "which tests newly failed (outcomes).",
        "--history",
        panel=CHOICE,
        decides=True,
    )

    @property
    def by_evidence(self) -> bool:
        return self.select is SelectionRule.EVIDENCE

    @property
    def stop_rule(self) -> StopRule:
        return StopRule.ALL if self.all_attempts else self.stop

    def deciding_policy(self) -> dict[str, Any]:
        """Return what of the policy decides results; None where records of before have nothing."""
        return {
            "select": self.select.value if self.by_evidence else None,
            "scripts": self.scripts if self.by_evidence else None,
            "rounds": self.rounds if self.by_evidence else None,
            "stop": None,  # all_attempts says the same
            "history": None if self.history is ToldHistory.NONE else self.history.value,
        }
