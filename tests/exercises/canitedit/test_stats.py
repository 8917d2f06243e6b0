"""The table of a data set, by hand for the six problems of our own."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, stdev

import pytest

from exercises.canitedit.__main__ import PROGRAM
from exercises.canitedit.stats import dataset_stats
from tests.support.canitedit import ROWS, problems


def stats(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(
        sys, "argv", ["canitedit", "stats", "--set", f"problems.source={ROWS}", *words]
    )
    return PROGRAM.dispatch()


def spread(values: Sequence[int]) -> dict[str, float]:
    """Return the mean and the deviation of a sample."""
    return {"mean": fmean(values), "deviation": stdev(values)}


def test_the_table() -> None:
    found = dataset_stats(problems())
    before = [2, 5, 9, 6, 5, 7]
    after = [2, 5, 14, 7, 6, 2]
    assert found["lines before"] == spread(before)
    assert found["lines after"] == spread(after)
    assert found["lines together"] == spread([4, 10, 23, 13, 11, 9])
    kinds = {name: found[name] for name in ("adaptive", "perfective", "corrective")}
    assert kinds == {"adaptive": 3, "perfective": 2, "corrective": 1}
    assert (found["with libraries"], found["library statistics"]) == (1, 1)
    assert found["words, lazy"] == spread([2, 6, 2, 7, 3, 6])
    assert found["tokenizer"] == "words"
    single = dataset_stats(problems()[:1])
    # `min(low, max(value, high))` to `max(low, min(value, high))`.
    assert single["Levenshtein distance"] == {"mean": 4.0, "deviation": 0.0}


def test_the_table_is_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert stats(monkeypatch) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["problems", "6"] in lines
    assert ["lines", "together", "11.7", "(6.3)"] in lines
    assert ["topic", "Data", "Science", "1"] in lines
    assert stats(monkeypatch, "--format", "json") == 0
    table = json.loads(capsys.readouterr().out)
    topics = [(name, table[name]) for name in table if name.startswith("topic ")]
    assert topics == [
        ("topic Language", 2),
        ("topic Math", 2),
        ("topic DSA", 1),
        ("topic Data Science", 1),
    ]
    assert stats(monkeypatch, "--set", "problems.v1=true") == 2
    assert "has 0 of the 54 problems of problems.v1" in capsys.readouterr().err


def test_a_tokenizer_counts_tokens(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
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
        f"tokens together {fmean(sizes):.1f} ({stdev(sizes):.1f})",
        f"most tokens together {max(sizes)}",
    } < {*lines}
    sizes = [len(p.instruction_lazy) for p in problems()]
    lazy = f"{fmean(sizes):.1f} ({stdev(sizes):.1f})"
    assert f"tokens, lazy {lazy}" in lines and not any(
        line.startswith("words") for line in lines
    )
    assert stats(monkeypatch, "--set", "problems.tokenizer=gone") == 2
    assert "problems.tokenizer gone cannot be used" in capsys.readouterr().err
