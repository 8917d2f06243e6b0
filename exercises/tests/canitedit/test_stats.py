"""The table of a data set, by hand for the six problems of our own."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, stdev

from exercises.tests.commands import CANITEDIT
from exercises.tests.support.canitedit import ROWS, problems
from swe_retry_exercises.canitedit.stats import dataset_stats


def stats(options: str) -> str:
    return CANITEDIT.output(f"stats --set problems.source={ROWS} {options}")


def stats_error(options: str) -> str:
    return CANITEDIT.refusal(f"stats --set problems.source={ROWS} {options}")


def mean_and_deviation(values: Sequence[int]) -> dict[str, float]:
    """Return the mean and the deviation of a sample."""
    return {"mean": fmean(values), "deviation": stdev(values)}


def test_the_table() -> None:
    table = dataset_stats(problems())
    before = [2, 5, 9, 6, 5, 7]
    after = [2, 5, 14, 7, 6, 2]
    assert table["lines before"] == mean_and_deviation(before)
    assert table["lines after"] == mean_and_deviation(after)
    assert table["lines together"] == mean_and_deviation([4, 10, 23, 13, 11, 9])
    assert table["adaptive"] == 3
    assert table["perfective"] == 2
    assert table["corrective"] == 1
    assert table["with libraries"] == 1
    assert table["library statistics"] == 1
    assert table["words, lazy"] == mean_and_deviation([2, 6, 2, 7, 3, 6])
    assert table["tokenizer"] == "words"
    single = dataset_stats(problems()[:1])
    # `min(low, max(value, high))` to `max(low, min(value, high))`.
    assert single["Levenshtein distance"] == {"mean": 4.0, "deviation": 0.0}


def rows_of(text: str) -> list[str]:
    """Return the lines of a table with single spaces."""
    return [" ".join(line.split()) for line in text.splitlines()]


def test_the_table_is_printed() -> None:
    lines = rows_of(stats(""))
    assert "problems 6" in lines
    assert "lines together 11.7 (6.3)" in lines
    assert "topic Data Science 1" in lines
    table = json.loads(stats("--format json"))
    topics = []
    for name, count in table.items():
        if name.startswith("topic "):
            topics.append((name, count))
    assert topics == [
        ("topic Language", 2),
        ("topic Math", 2),
        ("topic DSA", 1),
        ("topic Data Science", 1),
    ]
    error = stats_error("--set problems.v1=true")
    assert "has 0 of the 54 problems of problems.v1" in error


def test_a_tokenizer_counts_tokens(tmp_path: Path) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers

    characters = Tokenizer(models.WordLevel({"?": 0}, unk_token="?"))
    characters.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    characters.save(str(tmp_path / "tokenizer.json"))
    lines = rows_of(stats(f"--set problems.tokenizer={tmp_path}"))
    sizes = []
    lazy_sizes = []
    for problem in problems():
        sizes.append(len(problem.before) + len(problem.after))
        lazy_sizes.append(len(problem.instruction_lazy))
    assert f"tokens together {fmean(sizes):.1f} ({stdev(sizes):.1f})" in lines
    assert f"most tokens together {max(sizes)}" in lines
    assert f"tokens, lazy {fmean(lazy_sizes):.1f} ({stdev(lazy_sizes):.1f})" in lines
    assert not any(line.startswith("words") for line in lines)
    error = stats_error("--set problems.tokenizer=gone")
    assert re.search("problems.tokenizer /.*/gone cannot be used", error)
