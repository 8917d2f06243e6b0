"""Texts as lists of lines, and back, with the final newline kept as it was."""

from __future__ import annotations

from collections.abc import Sequence


def to_lines(text: str) -> list[str]:
    """Return the lines without their ends; only ``\\n`` ends one, so form feeds survive."""
    if not text:
        return []
    return text.removesuffix("\n").split("\n")


def to_text(lines: Sequence[str], before: str | None) -> str:
    """Return ``lines`` as a text that ends, or does not end, in a newline as ``before`` did."""
    if not lines:
        return ""
    joined = "\n".join(lines)
    return joined if before and not before.endswith("\n") else joined + "\n"


def final_newline(text: str, before: str | None) -> str:
    """Return ``text`` with the final newline that ``before`` had, or without one."""
    return to_text(to_lines(text), before)


def indent_of(line: str) -> str:
    """Return the white space that ``line`` begins with."""
    return line[: len(line) - len(line.lstrip())]


def with_ends(lines: Sequence[str]) -> str:
    """Return ``lines`` as a text in which each of them ends in a newline."""
    return "".join(line + "\n" for line in lines)
