"""What a lint command newly says."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from swe_retry.agent.lint.findings import Change
from swe_retry.core.processes import CommandResult
from swe_retry.testing.lintcommand import CommandLinter, new_complaints

BEFORE = "import os\n\nx = 1\n"
AFTER = "import os\n\n\nx = 2\n"
CHANGED = Change("a.py", BEFORE, AFTER)
ADDED = Change("b/c.py", None, "y = 1\n")
CHANGES = [CHANGED, ADDED]
UNPLACED = ("a.py", 0)
FIRST = ("a.py", 1)
FOURTH = ("a.py", 4)
OF_ADDED = ("b/c.py", 1)
OS = "a.py:1:1: F401 os"
BAD = "a.py:4:1: E1 bad"

# Output at the base and now, and the file and line of each new complaint.
NEW_COMPLAINTS: list[tuple[str, str, list[tuple[str, int]]]] = [
    # The line changed too.
    ("a.py:3:1: E1 bad", BAD, [FOURTH]),
    (OS, "./a.py:1:8: F401 os", [FIRST]),
    (OS, "a.py:1:8: F401 os", []),
    (OS, f"a.py:1:8: F401 os\n{BAD}", [FOURTH]),
    # A path is not a part of another.
    ("data.py:2:1: F401 x", "data.py:2:1: F401 x", []),
    (
        "",
        "xa.py:4:1: E1\nb/c.py(1): E2\nz/b/c.py:1: E3",
        [UNPLACED, UNPLACED, OF_ADDED],
    ),
]


def test_a_complaint_that_moved_with_its_line_is_old() -> None:
    for base, now, expected in NEW_COMPLAINTS:
        complaints = new_complaints(base, now, CHANGES)
        lines = [(complaint.path, complaint.line) for complaint in complaints]
        assert lines == expected, (base, now)


CONTEXT = "".join(f"context {letter}\n" for letter in "abcdefghijklmnopqrstuvwxyz")
NO_COMMAND = "sh: no such command"
# Output and exit code at the base, output and exit code now, and what is new.
CASES = {
    "clean": ("", 0, BAD, 1, [FOURTH]),
    "no place": ("", 0, "3 problems", 1, [UNPLACED]),
    "no words": ("", 0, "", 1, [UNPLACED]),
    "one less": (f"{OS}\nFound 2 errors.", 1, "Found 1 error.", 1, []),
    "context": (OS, 1, f"{OS}\n3 | x = 2", 1, []),
    "behind context": (OS, 1, f"{CONTEXT}{BAD}", 1, [FOURTH]),
    "passes": (OS, 1, BAD, 0, []),
    "not there": (NO_COMMAND, 127, NO_COMMAND, 127, []),
    "no end": ("", None, BAD, 1, []),
}


@pytest.mark.parametrize("case", CASES)
def test_only_what_the_base_does_not_say_counts(case: str) -> None:
    base, base_code, now, code, expected = CASES[case]
    warnings: list[str] = []

    def run(changes: Mapping[str, bytes | None]) -> CommandResult:
        if changes:
            return CommandResult(now, code, 0.1)
        return CommandResult(base, base_code, 0.1)

    linter = CommandLinter(run=run, command="lint", warn=warnings.append)
    findings = linter.new_findings(CHANGES)
    lines = [(finding.path, finding.line) for finding in findings]
    assert lines == expected
    assert bool(warnings) == (base_code in (None, 127))
