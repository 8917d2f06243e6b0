"""The one table printer, for terminals and for Markdown."""

from __future__ import annotations

from core.plaintext import some, table

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
    assert list(table(("", ""), [("日本", "x"), ("abcd", "y")]))[1:] == ["日本  x", "abcd  y"]


def test_markdown_escapes_what_would_end_a_cell() -> None:
    lines = list(table(HEADINGS, [("a|b\\<i>", None)], numbers=(1,), markdown=True))
    assert lines == ["| model | calls |", "| :-- | --: |", "| a\\|b\\\\&lt;i> | None |"]


def test_long_lists_of_names_end_with_a_count() -> None:
    assert some(["a", "b"], 2) == "a, b"
    assert some(["a", "b", "c", "d"], 2) == "a, b and 2 more"
