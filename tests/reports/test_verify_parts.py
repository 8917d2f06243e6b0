"""The first difference of two values, and choices made again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reports.verify import chosen_again, compare_text, first_difference
from tests.support.attempts import make_candidate


@pytest.mark.parametrize(
    ("found", "expected", "words"),
    [
        ({"a": [1, 2]}, {"a": [1, 2]}, ""),
        ({"a": [1]}, {"a": [1, 2]}, "a[1] is missing, but should be 2"),
        ({"a": 1, "b": 2}, {"a": 1}, "b is 2, but should be missing"),
        (True, 1, "it is true, but should be 1"),
        ("x" * 200 + "a", "x" * 200 + "b", "it is …"),
    ],
)
def test_the_first_difference(found: Any, expected: Any, words: str) -> None:
    said = str(first_difference(found, expected) or "")
    assert said.startswith(words) if words else not said
    assert len(said) < 300


@pytest.mark.parametrize(
    ("found", "expected", "line"),
    [
        ("a\nb\n", "a\nb\n", None),
        ("a\nb", "a\nc", 'line 2: it is "b", but should be "c"'),
        ("a", "a\nc", 'line 2: it is missing, but should be "c"'),
    ],
)
def test_the_first_line(
    found: str,
    expected: str,
    line: str | None,
    tmp_path: Path,
) -> None:
    (tmp_path / "x").write_text(found)
    path = tmp_path / "x"
    differences = [(path, line)] if line else []
    assert list(compare_text(path, expected)) == differences


def test_a_patch_that_did_not_apply_is_no_difference() -> None:
    """Older runs do not record it for attempts with failed edits, so both winners are possible."""
    records = [make_candidate(n, False, n == 1, None) for n in (1, 2)]
    for winner in (1, 2):
        choice = chosen_again(records, winner, None, require_tests=False)
        assert choice.winner
        assert choice.winner.attempt == winner


def test_a_wrong_winner_is_told_where_the_record_says_that_its_patch_applies() -> None:
    records = [make_candidate(n, False, n == 1, None, applies=True) for n in (1, 2)]
    for winner in (1, 2):
        choice = chosen_again(records, winner, None, require_tests=False)
        assert choice.winner == records[0]
