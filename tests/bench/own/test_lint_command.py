"""What a lint command newly says."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from agent.lint import Change
from bench.regression.lintcommand import CommandLinter, new_complaints
from core.processes import CommandResult

BEFORE = "import os\n\nx = 1\n"
AFTER = "import os\n\n\nx = 2\n"
CHANGES = [Change("a.py", BEFORE, AFTER), Change("b/c.py", None, "y = 1\n")]


def found(before: str, after: str) -> list[tuple[str, int]]:
    return [(one.path, one.line) for one in new_complaints(before, after, CHANGES)]


def test_a_complaint_that_moved_with_its_line_is_old() -> None:
    assert found("a.py:3:1: E1 bad", "a.py:4:1: E1 bad") == [
        ("a.py", 4)
    ]  # the line changed too
    assert found("a.py:1:1: F401 os", "./a.py:1:8: F401 os") == [("a.py", 1)]
    assert found("a.py:1:1: F401 os", "a.py:1:8: F401 os") == []
    assert found("a.py:1:1: F401 os", "a.py:1:8: F401 os\na.py:4:1: E1 bad") == [
        ("a.py", 4)
    ]


def test_a_path_is_not_a_part_of_another() -> None:
    assert found("data.py:2:1: F401 x", "data.py:2:1: F401 x") == []
    assert found("", "xa.py:4:1: E1\nb/c.py(1): E2\nz/b/c.py:1: E3") == [
        ("a.py", 0),
        ("a.py", 0),
        ("b/c.py", 1),
    ]


CASES = {
    "clean": ("", 0, "a.py:4:1: E1 bad", 1, [("a.py", 4)]),
    "no place": ("", 0, "3 problems", 1, [("a.py", 0)]),
    "no words": ("", 0, "", 1, [("a.py", 0)]),
    "one less": ("a.py:1:1: F401 os\nFound 2 errors.", 1, "Found 1 error.", 1, []),
    "context": ("a.py:1:1: F401 os", 1, "a.py:1:1: F401 os\n3 | x = 2", 1, []),
    "behind context": (
        "a.py:1:1: F401 os",
        1,
        "\n".join(
            [
                *map("context {}".format, "abcdefghijklmnopqrstuvwxyz"),
                "a.py:4:1: E1 bad",
            ]
        ),
        1,
        [("a.py", 4)],
    ),
    "passes": ("a.py:1:1: F401 os", 1, "a.py:4:1: E1 bad", 0, []),
    "not there": ("sh: no such command", 127, "sh: no such command", 127, []),
    "no end": ("", None, "a.py:4:1: E1 bad", 1, []),
}


@pytest.mark.parametrize("case", CASES)
def test_only_what_the_base_does_not_say_counts(case: str) -> None:
    base, base_code, now, code, expected = CASES[case]
    warnings: list[str] = []

    def run(changes: Mapping[str, bytes | None]) -> CommandResult:
        return CommandResult(
            now if changes else base, code if changes else base_code, 0.1
        )

    linter = CommandLinter(run=run, command="lint", warn=warnings.append)
    assert [(one.path, one.line) for one in linter.new_findings(CHANGES)] == expected
    assert bool(warnings) == (base_code in (None, 127))
