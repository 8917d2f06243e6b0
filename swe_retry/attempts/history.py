"""What an attempt is told of those before it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from swe_retry.agent.prompts import render
from swe_retry.attempts.policy import HistoryChoice
from swe_retry.core.plaintext import quantity, some
from swe_retry.record.records import Attempt

_MAX_NAMES = 20


@dataclass(frozen=True)
class Briefing:
    """What an attempt is told of earlier ones, and their numbers."""

    text: str = ""
    attempts: tuple[int, ...] = ()


def brief(history: HistoryChoice, attempts: Sequence[Attempt]) -> Briefing:
    """Return what the attempt after ``attempts`` is told."""
    if history is HistoryChoice.NONE or not attempts:
        return Briefing()
    outcomes = "\n".join(map(describe_outcome, attempts))
    count = quantity(len(attempts), "attempt was made", "attempts were made")
    text = render("history", count=count, outcomes=outcomes)
    return Briefing(text, tuple(attempt.attempt for attempt in attempts))


def describe_outcome(attempt: Attempt) -> str:
    """Return what became of an attempt: files, status, newly failing tests."""
    files = some(attempt.edited_files, _MAX_NAMES) or "no file"
    status = attempt.status.replace("_", " ")
    text = f"- Attempt {attempt.attempt} edited {files}: {status}."
    if attempt.test_outcome is False and attempt.failing:
        failing = some(attempt.failing, _MAX_NAMES)
        text += f" Tests that newly failed: {failing}."
    return text
