"""The table of a data set, by hand for the six problems of our own."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, stdev

from exercises.canitedit.stats import dataset_stats
from tests.exercises.commands import CANITEDIT
from tests.support.canitedit import ROWS, problems


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
    kinds = {name: table[name] for name in ("adaptive", "perfective", "corrective")}
    assert kinds == {"adaptive": 3, "perfective": 2, "corrective": 1}
    assert table["with libraries"] == 1
    assert table["library statistics"] == 1
    assert table["words, lazy"] == mean_and_deviation([2, 6, 2, 7, 3, 6])
    assert table["tokenizer"] == "words"
    single = dataset_stats(problems()[:1])
    # `min(low, max(value, high))` to `max(low, min(value, high))`.
    assert single["Levenshtein distance"] == {"mean": 4.0, "deviation": 0.0}


def test_the_table_is_printed() -> None:
    lines = [" ".join(line.split()) for line in stats("").splitlines()]
    assert {"problems 6", "lines together 11.7 (6.3)", "topic Data Science 1"} < set(
        lines
    )
    table = json.loads(stats("--format json"))
    topics = [(name, table[name]) for name in table if name.startswith("topic ")]
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
    out = stats(f"--set problems.tokenizer={tmp_path}")
    lines = [" ".join(line.split()) for line in out.splitlines()]
    sizes = [len(p.before) + len(p.after) for p in problems()]
    lazy_sizes = [len(p.instruction_lazy) for p in problems()]
    assert {
        f"tokens together {fmean(sizes):.1f} ({stdev(sizes):.1f})",
        f"most tokens together {max(sizes)}",
        f"tokens, lazy {fmean(lazy_sizes):.1f} ({stdev(lazy_sizes):.1f})",
    } < set(lines)
    assert not any(line.startswith("words") for line in lines)
    error = stats_error("--set problems.tokenizer=gone")
    assert "problems.tokenizer gone cannot be used" in error
