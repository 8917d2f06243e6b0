"""Options of older versions answer with the settings that took their place."""

from __future__ import annotations

import sys

import pytest

from bench.cli.dispatch import Program
from exercises.canitedit.__main__ import PROGRAM as CANITEDIT
from exercises.exercism.__main__ import PROGRAM as EXERCISM


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
