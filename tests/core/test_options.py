"""Options that are declared once: composed groups, files, mistakes, values given by code."""

from __future__ import annotations

import sys
from dataclasses import field, replace
from pathlib import Path
from typing import Any

import pytest
import typer

from bench.cli.cli import About, run_cli
from core.errors import UserError
from core.options import built, command, option, option_group
from environments.base import EnvironmentKind
from environments.options import EnvironmentChoice
from runs.options import Scale, Spending, Start


@option_group
class Inner:
    words: tuple[str, ...] = option(
        (), "Words.", "--words", given=str, read=lambda _, t, c: c(t)
    )
    count: int = option(2, "How many.", "--count", "-c", least=1)


@option_group
class Exercise:
    """The options of a benchmark of its own."""

    language: str = option(
        "python", "Of the exercises.", "--language", panel="Exercises"
    )
    inner: Inner = field(default_factory=Inner)


def test_another_benchmark_composes_the_groups_of_the_rooms(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    got: dict[str, Any] = {}
    groups = (Exercise, Scale, Spending, EnvironmentChoice, Start, About)

    @command(*groups, panels=("Exercises",))
    def main(context: typer.Context, values: dict[str, Any]) -> None:
        """Solve exercises."""
        got.update(
            {group.__name__: built(group, values, str.split) for group in groups}
        )

    def run(*words: str) -> int:
        monkeypatch.setattr(sys, "argv", ["exercises.py", *words])
        return run_cli(main, "exercises.py")

    file = tmp_path / "c.yaml"
    file.write_text("words: a b\nworkers: 7\nbudget-usd: 3\n")
    assert (
        run("--config", str(file), "--workers", "8", "--environment", "none", "-c", "3")
        == 0
    )
    assert got["Exercise"] == Exercise("python", Inner(("a", "b"), 3))
    assert (got["Scale"].workers, str(got["Spending"].limits.usd)) == (8, "3")
    assert got["EnvironmentChoice"].environment is EnvironmentKind.NONE
    assert run("--count", "0") == 2
    assert run("--help") == 0
    said = capsys.readouterr().out
    assert "Solve exercises." in said and "[default: 2; x>=1]" in said
    assert said.index("Exercises:") < said.index("How much at once:")


def test_a_wrong_value_names_its_option_in_one_line() -> None:
    for wrong in (
        lambda: Inner(count=0),
        lambda: Inner((), 0),
        lambda: replace(Inner(), count=0),
    ):
        with pytest.raises(UserError, match=r"^--count 0: must be at least 1$"):
            wrong()
    with pytest.raises(UserError, match=r"^--give-up-after inf: must be at least 1$"):
        Scale(give_up_after=float("inf"))
    with pytest.raises(TypeError):
        Inner(nothing=1)  # type: ignore[call-arg]


def test_what_is_not_given_keeps_the_default() -> None:
    assert built(Exercise, {}) == Exercise()
    assert built(Inner, {"words": "", "count": None}) == Inner()
