"""``stats``: figures as by plain arithmetic, files with schema and hashes."""

from __future__ import annotations

import hashlib
import json
import math
import random
import statistics
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from exercises.editpack.stats import distance_of, distribution, stats_schema
from exercises.settings import token_counter
from tests.support.editpack import SKIP_BAD, editpack, write_rows

SCHEMA = Path(__file__).resolve().parents[3] / "docs" / "editpack-stats.schema.json"


@pytest.mark.parametrize("size", [1, 2, 3, 100, 101, 999])
def test_a_distribution_is_that_of_the_values(size: int) -> None:
    chance = random.Random(size)
    values = []
    for _ in range(size):
        values.append(chance.choice((chance.randrange(9), chance.randrange(10**5))))
    found = distribution(Counter(values))
    assert found.mean == pytest.approx(statistics.fmean(values))
    assert found.deviation == pytest.approx(
        statistics.stdev(values) if size > 1 else 0.0
    )
    assert found.median == statistics.median(values)
    assert found.percentile_99 == sorted(values)[math.ceil(0.99 * size) - 1]


def test_no_values_give_zeros() -> None:
    figures = {"mean": 0, "deviation": 0, "median": 0, "percentile_99": 0}
    assert distribution(Counter()).model_dump() == figures


def row(old: str, new: str, message: str) -> dict[str, Any]:
    return {"old_contents": old, "new_contents": new, "message": message}


def test_rows_are_counted_as_they_are(tmp_path: Path) -> None:
    rows = [
        row("a\nb\n", "a\n", "Fix a thing"),
        row("", "xy", "[x] add two"),
        row("", "", "Hm"),
    ]
    path = write_rows(tmp_path / "rows.jsonl", rows)
    out = tmp_path / "stats"
    assert editpack("stats", path, "--out", out) == 0
    stats = json.loads((out / "table.json").read_text())
    for measure, values in {
        "lines_before": [2, 0, 0],
        "lines_after": [1, 1, 0],
        "lines": [3, 1, 0],
        "levenshtein": [2, 2, 0],
        "message_tokens": [3, 3, 1],
    }.items():
        assert stats[measure] == distribution(Counter(values)).model_dump()


def test_sides_that_take_minutes_have_no_distance() -> None:
    long = "a" * 5_000_000
    assert distance_of(long, "b" + long) is None
    assert distance_of(long, "b") == 5_000_000


def test_the_documented_schema_is_that_of_the_code() -> None:
    Draft202012Validator.check_schema(stats_schema())
    assert json.loads(SCHEMA.read_text()) == stats_schema(), (
        "python -m exercises.editpack.stats >docs/editpack-stats.schema.json"
    )


@pytest.fixture
def given(tmp_path: Path) -> Path:
    rows = []
    for n, (verb, noun) in enumerate(
        [("Fix", "bug"), ("Add", "tests"), ("Fix", "docs")] * 4
    ):
        rows.append(
            row("x = 1\n" * n, "x = 2\n" * (n + 1), f"{verb} the `{noun}` <of> $x$ & y")
        )
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in rows))
    return path


def test_the_folder_holds_table_and_json(
    given: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "stats"
    assert editpack("stats", given, "--out", out) == 0
    names = sorted(path.name for path in out.iterdir())
    assert names == ["table.json", "table.md", "table.txt"]
    said = capsys.readouterr().out
    assert said.startswith((out / "table.txt").read_text().rstrip())
    assert "EditPackFT, published" in said
    assert "counted in words between white space" in said
    stats = json.loads((out / "table.json").read_text())
    Draft202012Validator(stats_schema()).validate(stats)
    assert stats["rows"] == 12
    report = json.loads((tmp_path / "stats.report.json").read_text())
    digest = hashlib.sha256(given.read_bytes()).hexdigest()
    assert report["inputs"][0]["sha256"] == stats["input_sha256"] == digest
    assert (report["rows"], report["kept"], report["dropped"]) == (12, 12, {})
    # Equal input gives equal bytes.
    first = {path.name: path.read_bytes() for path in out.iterdir()}
    assert editpack("stats", given, "--out", out) == 0
    assert {path.name: path.read_bytes() for path in out.iterdir()} == first


def test_bad_rows_are_counted(given: Path, tmp_path: Path) -> None:
    out = tmp_path / "stats"
    given.write_text(json.dumps(row("a", "b", "Change it")) + "\n{}\n")
    assert editpack("stats", given, "--out", out, *SKIP_BAD) == 0
    stats = json.loads((out / "table.json").read_text())
    assert (stats["rows"], stats["unreadable"]) == (1, 1)


def test_a_tokenizer_counts_tokens(given: Path, tmp_path: Path) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers

    folder = tmp_path / "tokens"
    folder.mkdir()
    made = Tokenizer(models.WordLevel({"?": 0}, unk_token="?"))
    made.pre_tokenizer = pre_tokenizers.Punctuation()
    made.enable_truncation(2)
    made.save(str(folder / "tokenizer.json"))
    count, name = token_counter(folder, "stats.tokenizer")
    assert (count("a, b. c"), name) == (5, "tokens")
    assert (
        editpack(
            "stats",
            given,
            "--out",
            tmp_path / "stats",
            "--set",
            f"stats.tokenizer={folder}",
        )
        == 0
    )
    assert "tokens of tokens" in (tmp_path / "stats" / "table.txt").read_text()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--set", "stats.tokenizer={tmp}/none"), "cannot be used"),
        (("--set", "stats.tokenizer={tmp}/rows.jsonl"), "cannot be used"),
        (("--out", "{tmp}/rows.jsonl"), "is not a folder"),
    ],
)
def test_a_mistake_is_one_line(
    options: Sequence[str],
    said: str,
    given: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert (
        editpack("stats", given, *(one.format(tmp=given.parent) for one in options))
        == 2
    )
    error = capsys.readouterr().err.strip()
    assert said in error
    assert "\n" not in error
