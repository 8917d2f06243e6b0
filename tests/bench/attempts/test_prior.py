"""Whether a recorded prediction is plausible, in both layouts of prediction files."""

from __future__ import annotations

from typing import Any

import pytest

from bench.attempts.records import is_plausible

PATCH = "diff --git a/m.py b/m.py\n--- a/m.py\n+++ b/m.py\n@@ -1 +1 @@\n-a\n+b\n"
CLEAN = {"model_patch": PATCH, "edit_outcome": True, "lint_outcome": True, "test_outcome": True}


@pytest.mark.parametrize(
    ("changes", "plausible"),
    [
        ({"status": "plausible", "test_outcome": False}, True),
        ({"status": "plausible_untested"}, True),
        ({"status": "fallback"}, False),
        ({"status": ["plausible"]}, False),
        ({}, True),
        ({"test_outcome": None}, False),
        ({"lint_outcome": False}, False),
        ({"model_patch": ""}, False),
        ({"model_patch": None}, False),
        ({"model_patch": PATCH.replace("m.py", "tests/test_m.py")}, False),
    ],
)
def test_the_status_decides_and_without_one_the_outcomes(
    changes: dict[str, Any], plausible: bool
) -> None:
    assert is_plausible({**CLEAN, **changes}) is plausible
