"""Dollars in words; sums and rounding are tested with the statistics."""

from __future__ import annotations

from decimal import Decimal

import pytest

from core.money import in_words


@pytest.mark.parametrize(
    ("cost", "places", "words"),
    [
        (None, None, "unknown"),
        (Decimal("0.1683"), None, "$0.1683"),
        (Decimal(3), None, "$3.00"),
        (Decimal("0.1683"), 2, "$0.17"),
        (Decimal("1234.5"), 2, "$1,234.50"),
        (0.25, 6, "$0.250000"),
    ],
)
def test_dollars_in_words(cost: Decimal | float | None, places: int | None, words: str) -> None:
    assert in_words(cost, places) == words
