"""``stats``: figures as by plain arithmetic, files with schema and hashes."""

from __future__ import annotations

import json
import math
import random
import statistics
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from exercises.tests.commands import EDITPACK
from exercises.tests.support.editpack import edit, write_rows
from swe_retry_exercises.editpack.stats import distance_of, distribution, stats_schema
from swe_retry_exercises.tokens import token_counter
from tests.support import read_json, sha256_of

SCHEMA = Path(__file__).resolve().parents[2] / "docs" / "editpack-stats.schema.json"


def test_a_distribution_is_that_of_the_values() -> None:
    for size in (2, 3, 100, 101, 999):
        rng = random.Random(size)
        values = []
        for _ in range(size):
            small = rng.randrange(9)
            large = rng.randrange(10**5)
            values.append(rng.choice((small, large)))
        measured = distribution(Counter(values))
        assert measured.mean == pytest.approx(statistics.fmean(values))
        assert measured.deviation == pytest.approx(statistics.stdev(values))
        assert measured.median == statistics.median(values)
        rank = math.ceil(0.99 * size)
        assert measured.percentile_99 == sorted(values)[rank - 1]
    figures = {
        "mean": 7,
        "deviation": 0,
        "median": 7,
        "percentile_99": 7,
    }
    assert distribution_of([7]) == figures
    assert distribution_of([]) == dict.fromkeys(figures, 0)


def distribution_of(values: list[int]) -> dict[str, Any]:
    return distribution(Counter(values)).model_dump()


def stats_of(rows: Path, out: Path, options: str = "") -> Any:
    """Run the command and return its table."""
    EDITPACK.output(f"stats {rows} --out {out} {options}")
    return read_json(out / "table.json")


def test_rows_are_counted_as_they_are(tmp_path: Path) -> None:
    rows = [
        edit("a\nb\n", "a\n", "Fix a thing"),
        edit("", "xy", "[x] add two"),
        edit("", "", "Hm"),
    ]
    path = write_rows(tmp_path / "rows.jsonl", rows)
    stats = stats_of(path, tmp_path / "stats")
    for measure, values in {
        "lines_before": [2, 0, 0],
        "lines_after": [1, 1, 0],
        "lines": [3, 1, 0],
        "levenshtein": [2, 2, 0],
        "message_tokens": [3, 3, 1],
    }.items():
        assert stats[measure] == distribution_of(values)


def test_sides_that_take_minutes_have_no_distance() -> None:
    long = "a" * 5_000_000
    assert distance_of(long, "b" + long) is None
    assert distance_of(long, "b") == 5_000_000


def test_the_documented_schema_is_that_of_the_code() -> None:
    Draft202012Validator.check_schema(stats_schema())
    assert json.loads(SCHEMA.read_text()) == stats_schema(), (
        "python -m swe_retry_exercises.editpack.stats >exercises/docs/editpack-stats.schema.json"
    )


@pytest.fixture
def rows_path(tmp_path: Path) -> Path:
    messages = (
        "Fix the `bug` <of> $x$ & y",
        "Add the `tests` <of> $x$ & y",
        "Fix the `docs` <of> $x$ & y",
    )
    rows = []
    for number, message in enumerate(messages * 4):
        old = "x = 1\n" * number
        new = "x = 2\n" * (number + 1)
        rows.append(edit(old, new, message))
    return write_rows(tmp_path / "rows.jsonl", rows)


def test_the_folder_holds_table_and_json(rows_path: Path, tmp_path: Path) -> None:
    out = tmp_path / "stats"
    output = EDITPACK.output(f"stats {rows_path} --out {out}")
    names = sorted(path.name for path in out.iterdir())
    assert names == ["table.json", "table.md", "table.txt"]
    assert output.startswith((out / "table.txt").read_text().rstrip())
    assert "EditPackFT, published" in output
    assert "counted in words between white space" in output
    stats = read_json(out / "table.json")
    Draft202012Validator(stats_schema()).validate(stats)
    assert stats["rows"] == 12
    assert stats["input_sha256"] == sha256_of(rows_path)
    report = read_json(tmp_path / "stats.report.json")
    assert report["inputs"][0]["sha256"] == sha256_of(rows_path)
    assert report["rows"] == 12
    assert report["kept"] == 12
    assert report["dropped"] == {}
    # Equal input gives equal bytes.
    before = {path: path.read_bytes() for path in out.iterdir()}
    stats_of(rows_path, out)
    after = {path: path.read_bytes() for path in out.iterdir()}
    assert after == before


def test_bad_rows_are_counted(tmp_path: Path) -> None:
    rows = [edit("a", "b"), b"{}"]
    path = write_rows(tmp_path / "rows.jsonl", rows)
    stats = stats_of(path, tmp_path / "stats", "--set rows.skip_bad=true")
    assert stats["rows"] == 1
    assert stats["unreadable"] == 1


def test_a_tokenizer_counts_tokens(rows_path: Path, tmp_path: Path) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers

    folder = tmp_path / "tokens"
    folder.mkdir()
    tokenizer = Tokenizer(models.WordLevel({"?": 0}, unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.Punctuation()
    tokenizer.enable_truncation(2)
    tokenizer.save(str(folder / "tokenizer.json"))
    count, name = token_counter(folder, "stats.tokenizer")
    assert count("a, b. c") == 5
    assert name == "tokens"
    out = tmp_path / "stats"
    stats_of(rows_path, out, f"--set stats.tokenizer={folder}")
    assert "tokens of tokens" in (out / "table.txt").read_text()


def test_a_mistake_is_one_line(rows_path: Path, tmp_path: Path) -> None:
    for options, problem in {
        f"--set stats.tokenizer={tmp_path}/none": "cannot be used",
        f"--set stats.tokenizer={rows_path}": "cannot be used",
        f"--out {rows_path}": "is not a folder",
    }.items():
        assert problem in EDITPACK.refusal(f"stats {rows_path} {options}")
