"""Options of older versions answer with the settings that took their place."""

from __future__ import annotations

import sys

import pytest

import harness
from bench.cli.dispatch import Program
from core.settings import Section, settings_of
from exercises.canitedit.__main__ import PROGRAM as CANITEDIT
from exercises.canitedit.settings import (
    CompletionReportSettings,
    CompletionSettings,
    ProblemStatsSettings,
)
from exercises.exercism.__main__ import PROGRAM as EXERCISM
from exercises.exercism.reporting.commands import ExercismReportSettings
from exercises.exercism.settings import ExercismSettings
from tests.support import TOP

ROOTS: dict[str, tuple[type[Section], ...]] = {
    "canitedit": (CompletionSettings, CompletionReportSettings, ProblemStatsSettings),
    "exercism": (ExercismSettings, ExercismReportSettings),
}
ROWS = [
    line.split("\t")
    for line in (TOP / "bench/cli/renamed.tsv").read_text().splitlines()
    if line.split("\t")[0] in ROOTS and line.split("\t")[2]
]


@pytest.mark.parametrize(("key", "old", "new"), ROWS)
def test_what_replaces_an_option_exists(key: str, old: str, new: str) -> None:
    """Each row names a setting of the program, one of its commands, or gives both."""
    settings = {name for root in ROOTS[key] for name in settings_of(root)}
    program = {"canitedit": CANITEDIT, "exercism": EXERCISM}[key]
    command, *words = new.split()
    if command == "harness.py":
        assert words[0] in harness.SUBCOMMANDS
        return
    assert new in settings or command in program.subcommands
    for word in words:
        name, equals, _ = word.partition("=")
        assert not equals or name in settings
    assert old not in program.subcommands


@pytest.mark.parametrize(
    ("program", "words", "said"),
    [
        (
            EXERCISM,
            "run --ids acronym",
            "--ids is the setting exercises.ids now: give --set exercises.ids=VALUE",
        ),
        (
            EXERCISM,
            "run --shuffle",
            "--shuffle is now: python -m exercises.exercism run --set exercises.shuffle=SEED",
        ),
        (
            EXERCISM,
            "report run --no-page",
            "--no-page is now: python -m exercises.exercism report --set report.page=false",
        ),
        (
            CANITEDIT,
            "evaluate DIR",
            "evaluate is now: python -m exercises.canitedit report DIR…",
        ),
        (
            CANITEDIT,
            "run --top-p 1",
            "--top-p is the setting completions.top_p now: give --set completions.top_p=VALUE",
        ),
        (
            CANITEDIT,
            "report DIR --k 1",
            "--k is the setting report.k now: give --set report.k=VALUE",
        ),
        (
            CANITEDIT,
            "stats --v1",
            "--v1 is the setting problems.v1 now: give --set problems.v1=VALUE",
        ),
    ],
)
def test_an_old_spelling_answers_with_the_new_one(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    program: Program,
    words: str,
    said: str,
) -> None:
    monkeypatch.setattr(sys, "argv", [program.key, *words.split()])
    assert program.dispatch() == 2
    assert capsys.readouterr().err == f"error: {said}\n"
