"""Settings of the commands: their sources, their list, and what answers for old options."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from bench.cli import dispatch
from core.settings import Section, settings_of
from exercises.editpack import dedup, filter, mine, shaping, stats, train
from exercises.editpack.__main__ import COMMANDS, PROGRAM
from tests.support.editpack import edit, editpack, report_beside, write_rows

ROOTS: dict[str, type[Section]] = {
    "mine": mine.MineSettings,
    "filter": filter.FilterSettings,
    "dedup": dedup.DedupSettings,
    "sample": shaping.SampleSettings,
    "stats": stats.StatsSettings,
    "train": train.TrainSettings,
}


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    return write_rows(tmp_path / "rows.jsonl", [edit("a = 1\n", "a = 'another'\n")])


def test_files_and_the_environment_give_settings(
    rows: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "kept.jsonl"
    config = tmp_path / "filter.yaml"
    config.write_text("filter: {rules: paper}\nrows.skip_bad: true\n")
    monkeypatch.setenv("RETRY_FILTER__CLEANUP", "exact")
    assert editpack("filter", rows, "--out", out, "--config", config) == 0
    options = {"rules": "paper", "cleanup": "exact", "skip_bad": True}
    assert report_beside(out)["options"] == options


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_each_command_lists_its_settings_and_does_nothing(
    name: str,
    tmp_path: Path,
    capsys: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert editpack(name, "--settings") == 0
    listed = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    root = ROOTS.get(name)
    if root:
        assert listed == list(settings_of(root))
    else:
        assert listed == ["rows.config", "rows.part", "rows.skip_bad"]
    assert not list(tmp_path.iterdir())


def test_words_behind_settings_narrow_the_list(capsys: Any) -> None:
    assert editpack("dedup", "--settings", "similarity") == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("dedup.threshold  0.5  ")
    assert editpack("mine", "--set", "mine.licenses=MITT", "--settings") == 2
    assert "mine.licenses MITT cannot be found" in capsys.readouterr().err


def _renamed() -> Iterator[tuple[str, str]]:
    for line in dispatch._RENAMED.read_text(encoding="utf-8").splitlines():
        key, old, new = line.split("\t")
        if key == PROGRAM.key and old.startswith("--"):
            yield old, new


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (
            ("filter", "rows.jsonl", "--skip-bad"),
            "--skip-bad is the setting rows.skip_bad now: give --set rows.skip_bad=VALUE",
        ),
        (
            ("mine", "repo", "--any-license"),
            "--any-license is now: python -m exercises.editpack mine --set mine.licenses=any",
        ),
        (
            ("sample", "rows.jsonl", "--n", "3"),
            "--n is now: python -m exercises.editpack sample ROWS --size N",
        ),
        (
            ("train", "rows.jsonl", "--seed", "3"),
            "--seed is now: python -m exercises.editpack sample --set sample.seed=SEED, or "
            "train --set train.seed=SEED",
        ),
    ],
)
def test_an_old_option_is_answered_with_the_new_spelling(
    words: tuple[str, ...],
    answer: str,
    capsys: Any,
) -> None:
    assert editpack(*words) == 2
    assert capsys.readouterr().err == f"error: {answer}\n"


def test_no_command_has_an_option_that_is_said_to_be_old(
    capsys: Any,
) -> None:
    old = {name for name, _ in _renamed()}
    for name, command in COMMANDS.items():
        assert import_module(command.module)
        assert editpack(name, "--help") == 0
        words = set(capsys.readouterr().out.replace(",", " ").split())
        assert not old & words, name
