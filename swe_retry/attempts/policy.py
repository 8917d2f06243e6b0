"""The settings of choosing and stopping: how many attempts are made, and which one is predicted."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from swe_retry.core.settings import Section


class StopRule(StrEnum):
    """When an instance has enough attempts; the value is that of ``choice.stop``."""

    PLAUSIBLE = "plausible"
    SURE = "sure"
    ALL = "all"


class SelectionRule(StrEnum):
    """How the prediction is chosen among the candidates."""

    PLAUSIBLE = "plausible"
    EVIDENCE = "evidence"


class HistoryChoice(StrEnum):
    """What an attempt is told of those before it."""

    NONE = "none"
    OUTCOMES = "outcomes"


class ChoiceSettings(Section):
    """When attempts end, and which one is predicted."""

    stop: StopRule = StopRule.PLAUSIBLE
    """End the attempts on an instance when one is plausible, when one is right with the
    weight choice.sure, or when all are made."""

    select: SelectionRule = SelectionRule.PLAUSIBLE
    """Predict the first plausible candidate, or choose by evidence: run scripts that
    models write for the issue on all candidates."""

    sure: float = Field(default=0.7, gt=0, lt=1)
    """End the attempts at this weight with choice.stop=sure."""

    right: float = Field(default=0.4, gt=0, lt=1)
    """Expect this share of right attempts, as earlier verdicts suggest."""

    scripts: int = Field(default=6, ge=0)
    """Ask for this many scripts."""

    rounds: int = Field(default=2, ge=0)
    """Ask at most this often for a script that tells two classes of candidates apart."""

    history: HistoryChoice = HistoryChoice.NONE
    """Tell an attempt what became of those before it: none, or which files they edited
    and which tests newly failed (outcomes)."""
