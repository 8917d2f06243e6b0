"""The demo's instances with one that is flaky and one that is invalid."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.reports.evaluation.evaluating import TEXTKIT, UNITS, rows

FLAKY, INVALID = "planted__flaky-1", "planted__invalid-1"
NOWHERE = "tests/test_parse.py::test_that_is_nowhere"
_LUCK = "tests/test_luck.py"
# In each run another one of so many tests fails. Three runs agree once in a quarter of a million.
_TESTS = 500
_SOURCE = f"""\
import random

import pytest

UNLUCKY = random.SystemRandom().randrange({_TESTS})


@pytest.mark.parametrize("number", range({_TESTS}))
def test_luck(number):
    assert number != UNLUCKY
"""


def planted(folder: Path) -> Path:
    """Write the dataset into ``folder`` and return its path."""
    every = rows()
    path = folder / "rows.json"
    path.write_text(json.dumps([*every.values(), _flaky(every[TEXTKIT]), _invalid(every[UNITS])]))
    return path


def _invalid(row: Mapping[str, Any]) -> dict[str, Any]:
    tests = [*_names(row, "FAIL_TO_PASS"), NOWHERE]
    return {**row, "instance_id": INVALID, "FAIL_TO_PASS": json.dumps(tests)}


def _flaky(row: Mapping[str, Any]) -> dict[str, Any]:
    added = "".join(f"+{line}\n" for line in _SOURCE.splitlines())
    patch = (
        f"{row['test_patch']}diff --git a/{_LUCK} b/{_LUCK}\nnew file mode 100644\n"
        f"--- /dev/null\n+++ b/{_LUCK}\n@@ -0,0 +1,{_SOURCE.count(chr(10))} @@\n{added}"
    )
    tests = [*_names(row, "PASS_TO_PASS"), *(f"{_LUCK}::test_luck[{n}]" for n in range(_TESTS))]
    command = "no:cacheprovider tests/test_slug.py"
    script = row["eval_script"].replace(row["test_patch"], patch)
    return {
        **row,
        "instance_id": FLAKY,
        "test_patch": patch,
        "PASS_TO_PASS": json.dumps(tests),
        "eval_script": script.replace(command, f"{command} {_LUCK}"),
    }


def _names(row: Mapping[str, Any], key: str) -> list[str]:
    value = row[key]
    return list(json.loads(value) if isinstance(value, str) else value)
