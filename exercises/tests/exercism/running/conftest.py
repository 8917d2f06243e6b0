"""Runs of our exercises in this process."""

from __future__ import annotations

import shlex
from pathlib import Path

from exercises.tests.commands import EXERCISM, Ended
from exercises.tests.support.exercism import SIX, ExerciseRun
from tests.support.provider import Provider

FAST = ("--set", "exercises.profile=2023", "--formats", "diff")
"""Options of a run whose tests start fast: those of unittest."""


def start(
    run: ExerciseRun,
    provider: Provider | None,
    options: str = "",
    folder: Path = SIX,
) -> Ended:
    """Start or continue a run with further options."""
    line = shlex.join(run.argv(provider, folder))
    return EXERCISM.run(f"run {line} {options}")
