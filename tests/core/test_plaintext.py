"""Dollars in words, and the one table printer, for terminals and for Markdown."""

from __future__ import annotations

from decimal import Decimal

import pytest

from swe_retry.core.money import in_words
from swe_retry.core.plaintext import escape_invisible, one_line, some, table, visible


@pytest.mark.parametrize(
    ("cost", "digits", "text"),
    [
        (None, None, "unknown"),
        (Decimal("0.1683"), None, "$0.1683"),
        (Decimal(3), None, "$3.00"),
        (Decimal("0.1683"), 2, "$0.17"),
        (Decimal("1234.5"), 2, "$1,234.50"),
        (0.25, 6, "$0.250000"),
    ],
)
def test_dollars_in_words(
    cost: Decimal | float | None,
    digits: int | None,
    text: str,
) -> None:
    assert in_words(cost, digits) == text


HEADINGS = ("model", "calls")


def test_columns_are_as_wide_as_their_widest_cell() -> None:
    rows = [("a", 5), ("long name", 12_345)]
    assert list(table(HEADINGS, rows, numbers=(1,))) == [
        "model      calls",
        "a              5",
        "long name  12345",
    ]


def test_cells_command_neither_the_terminal_nor_the_printer() -> None:
    rows = [("[red]\x1b[31m:smile:\n", "日本"), ("x" * 500, "1")]
    _, first, second = table(HEADINGS, rows)
    assert first == "[red]:smile:" + " " * 490 + "日本"
    assert second == "x" * 500 + "  1"


def test_characters_of_double_width_take_two_places() -> None:
    assert list(table(("", ""), [("日本", "x"), ("abcd", "y")]))[1:] == [
        "日本  x",
        "abcd  y",
    ]


def test_markdown_escapes_what_would_end_a_cell() -> None:
    lines = list(table(HEADINGS, [("a|b\\<i>", None)], numbers=(1,), markdown=True))
    assert lines == ["| model | calls |", "| :-- | --: |", "| a\\|b\\\\&lt;i> | None |"]


def test_long_lists_of_names_end_with_a_count() -> None:
    assert some(["a", "b"], 2) == "a, b"
    assert some(["a", "b", "c", "d"], 2) == "a, b and 2 more"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\tb\r\n\nc", "a\tb\r\n\nc"),
        ("caf\u00e9 \u65e5\xa0\U0001f600", "caf\u00e9 \u65e5\xa0\U0001f600"),
        ("\x1b[31m\x00\x07\x7f", "\\x1b[31m\\x00\\x07\\x7f"),
        ("a\rb", "a\\rb"),
        ("\u202eabc\u2066\u200b\u061c", "\\u202eabc\\u2066\\u200b\\u061c"),
        ("\ud800\u2028\U000e0041", "\\ud800\\u2028\\U000e0041"),
    ],
)
def test_what_cannot_be_seen_is_shown_as_an_escape(text: str, shown: str) -> None:
    assert escape_invisible(text) == shown
    assert escape_invisible(shown) == shown


def test_terminals_show_marks_that_turn_the_direction() -> None:
    assert one_line("a\u202eb\nc") == "a\\u202eb c"
    assert visible("a\u202eb\nc") == "a\\u202eb\nc"
