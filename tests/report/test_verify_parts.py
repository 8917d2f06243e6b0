"""The first difference of two values, and choices made again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from swe_retry.record.result import InstanceResult
from swe_retry.report.differences import compare_text, first_difference
from swe_retry.report.verify import choose_again
from tests.support.attempts import make_candidate


@pytest.mark.parametrize(
    ("value", "expected", "start"),
    [
        ({"a": [1]}, {"a": [1, 2]}, "a[1] is missing, but should be 2"),
        (
            {
                "a": 1,
                "b": 2,
            },
            {"a": 1},
            "b is 2, but should be missing",
        ),
        (True, 1, "it is true, but should be 1"),
        ("x" * 200 + "a", "x" * 200 + "b", "it is …"),
    ],
)
def test_the_first_difference(
    value: Any,
    expected: Any,
    start: str,
) -> None:
    difference = str(first_difference(value, expected))
    assert difference.startswith(start)
    assert len(difference) < 300
    assert not first_difference(expected, expected)


@pytest.mark.parametrize(
    ("text", "difference"),
    [
        ("a\nb", 'line 2: it is "b", but should be "c"'),
        ("a", 'line 2: it is missing, but should be "c"'),
    ],
)
def test_the_first_line_that_differs(
    text: str, difference: str, tmp_path: Path
) -> None:
    path = tmp_path / "x"
    path.write_text(text)
    assert list(compare_text(path, "a\nc")) == [(path, difference)]
    assert list(compare_text(path, text)) == []


@pytest.mark.parametrize("winner", [1, 2])
@pytest.mark.parametrize(
    "recorded",
    [{}, {"applies": True}],
    ids=["older", "newer"],
)
def test_a_wrong_winner_is_named_where_the_record_says_that_its_patch_applies(
    winner: int, recorded: dict[str, Any]
) -> None:
    """Older runs do not record it for attempts with failed edits: both winners are possible."""
    records = []
    for number in (1, 2):
        records.append(make_candidate(number, False, number == 1, None, **recorded))
    result = InstanceResult(instance_id="a__a-1", attempts=tuple(records))
    choice = choose_again(result, winner, require_tests=False)
    expected = 1 if recorded else winner
    assert choice.winner == records[expected - 1]
