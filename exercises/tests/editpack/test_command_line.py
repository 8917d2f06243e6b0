"""Settings of the commands: their sources, their list, and what answers for old options."""

from __future__ import annotations

from pathlib import Path

import pytest

from exercises.tests.support.editpack import edit, editpack, report_beside, write_rows
from swe_retry.core.settings import Section, settings_of
from swe_retry.launch import renamed
from swe_retry_exercises.editpack import dedup, filter, mine, shaping, stats, train
from swe_retry_exercises.editpack.__main__ import COMMANDS, PROGRAM

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


def test_each_command_lists_its_settings_and_does_nothing(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in COMMANDS:
        expected = ["rows.config", "rows.part", "rows.skip_bad"]
        if name in ROOTS:
            expected = list(settings_of(ROOTS[name]))
        assert editpack(name, "--settings") == 0
        output = capsys.readouterr().out
        assert [line.split()[0] for line in output.splitlines()] == expected, name
    assert not list(tmp_path.iterdir())


def test_words_behind_settings_narrow_the_list(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert editpack("dedup", "--settings", "similarity") == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("dedup.threshold  0.5  ")
    assert editpack("mine", "--set", "mine.licenses=MITT", "--settings") == 2
    assert "mine.licenses MITT cannot be found" in capsys.readouterr().err


def test_no_command_has_an_option_that_is_said_to_be_old(
    capsys: pytest.CaptureFixture[str],
) -> None:
    old = set()
    for line in renamed._RENAMED.read_text(encoding="utf-8").splitlines():
        key, name, _ = line.split("\t")
        if key == PROGRAM.key and name.startswith("--"):
            old.add(name)
    assert old
    for name, command in COMMANDS.items():
        assert callable(command.run)
        assert editpack(name, "--help") == 0
        help_words = set(capsys.readouterr().out.replace(",", " ").split())
        assert not old & help_words, name
