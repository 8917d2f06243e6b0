"""The table of a data set, by hand for the six problems of our own."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from exercises.canitedit.__main__ import PROGRAM
from exercises.canitedit.stats import Spread, dataset_stats
from tests.support.canitedit import ROWS, problems


def stats(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(
        sys, "argv", ["canitedit", "stats", "--set", f"problems.source={ROWS}", *words]
    )
    return PROGRAM.dispatch()


def test_the_table() -> None:
    found = dataset_stats(problems())
    before, after = [2, 5, 9, 6, 5, 7], [2, 5, 14, 7, 6, 2]
    assert found.lines_before == Spread.of(before)
    assert found.lines_after == Spread.of(after)
    assert found.lines_together == Spread.of([4, 10, 23, 13, 11, 9])
    assert found.change_kinds == {"adaptive": 3, "perfective": 2, "corrective": 1}
    assert (found.with_libraries, found.libraries) == (1, {"statistics": 1})
    assert found.tokens_lazy == Spread.of([2, 6, 2, 7, 3, 6])
    assert found.tokenizer == "words"
    one = dataset_stats(problems()[:1])
    # `min(low, max(value, high))` to `max(low, min(value, high))`.
    assert one.levenshtein == Spread(4, 0.0)


def test_deviations_are_those_of_a_sample() -> None:
    assert str(Spread.of([1, 3])) == "2.0 (1.4)"


def test_the_table_is_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert stats(monkeypatch) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["problems", "6"] in lines
    assert ["lines", "together", "11.7", "(6.3)"] in lines
    assert ["topic", "Data", "Science", "1"] in lines
    assert stats(monkeypatch, "--format", "json") == 0
    assert json.loads(capsys.readouterr().out)["topics"] == {
        "Language": 2,
        "Math": 2,
        "DSA": 1,
        "Data Science": 1,
    }
    assert stats(monkeypatch, "--set", "problems.v1=true") == 2
    assert "has 0 of the 54 problems of problems.v1" in capsys.readouterr().err


def test_a_tokenizer_counts_tokens(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers

    made = Tokenizer(models.WordLevel({"?": 0}, unk_token="?"))
    made.pre_tokenizer = pre_tokenizers.Split(
        "", "isolated"
    )  # a token for each character
    made.save(str(tmp_path / "tokenizer.json"))
    assert stats(monkeypatch, "--set", f"problems.tokenizer={tmp_path}") == 0
    sizes = [len(p.before) + len(p.after) for p in problems()]
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert {
        f"tokens together {Spread.of(sizes)}",
        f"most tokens together {max(sizes)}",
    } < {*lines}
    lazy = Spread.of([len(p.instruction_lazy) for p in problems()])
    assert f"tokens, lazy {lazy}" in lines and not any(
        line.startswith("words") for line in lines
    )
    assert stats(monkeypatch, "--set", "problems.tokenizer=gone") == 2
    assert "problems.tokenizer gone cannot be used" in capsys.readouterr().err
