"""The way of a call from the coder to the budget."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from bench.cli.commands import run_command
from runs.calls.budget import Budget, Reservation
from tests.support.provider import Provider
from tests.support.runs import EDIT, live, options

MOST = 4


def passed(frame: FrameType | None) -> list[str]:
    """Return the classes of ours whose methods are on the stack, up to the agent."""
    found: list[str] = []
    while frame is not None:
        kind = type(frame.f_locals.get("self"))
        room = kind.__module__.partition(".")[0]
        if room == "agent":
            return found
        if room in ("llm", "runs") and kind.__name__ not in found:
            found.append(kind.__name__)
        frame = frame.f_back
    raise AssertionError("no agent made this call")


def test_a_call_reaches_the_budget_through_at_most_four_classes(
    tmp_path: Path, cache: Path, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    ways: list[list[str]] = []
    reserve = Budget.reserve

    def watched(self: Budget, *arguments: Any) -> Reservation | None:
        ways.append(passed(sys._getframe(1)))
        return reserve(self, *arguments)

    monkeypatch.setattr(Budget, "reserve", watched)
    provider.will_answer("textkit/slug.py", EDIT)
    run_command(live(provider), options(tmp_path, cache, "demo__textkit-1"), lambda _: None)
    assert ways and all(0 < len(way) <= MOST for way in ways), ways
