"""Rows of histories in JavaScript, Go and Rust are as planted (minutes; needs their tools)."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.histories import LANGUAGES, Language, Mine, PlantedHistory

pytestmark = pytest.mark.long
_MODULE = {
    "plain": "add",
    "new file": "mul",
    "rename": "inc",
    "merge": "dec",
    "documents": "low",
    "flaky": "neg",
}
_LEFT_OUT = "part of a merge 2, revert 1, reverted 1, no source 1, no tests 1, first 1"
_REPEAT = (
    6  # a flaky test is the same in all runs of a tree once in 32, of both in 1,024
)


@pytest.fixture(params=sorted(LANGUAGES))
def language(request: pytest.FixtureRequest) -> Language:
    chosen = LANGUAGES[request.param]
    if shutil.which(chosen.program) is None:
        pytest.skip(f"{chosen.program} is not installed")
    return chosen


def names(row: dict[str, Any], column: str) -> set[str]:
    """The last parts of the names of tests: readers may put their package before."""
    return {re.split("::|: ", name)[-1] for name in json.loads(row[column])}


def test_rows_are_as_planted(language: Language, tmp_path: Path, mine: Mine) -> None:
    history = PlantedHistory(tmp_path / "calc", language)
    history.plant()
    mine = replace(mine, seconds=900)
    before_flaky = "2026-03-05"
    printed = mine.start(history.root, "--until", before_flaky)
    assert printed.returncode == 0, printed.stdout
    assert f"left out: {_LEFT_OUT}\n" in printed.stdout
    assert "tests fail          1\n" in printed.stdout
    flaky = mine.start(
        history.root, "--since", before_flaky, "--repeat", str(_REPEAT), out="flaky"
    )
    assert flaky.returncode == 0, flaky.stdout
    rows = [*mine.rows(), *mine.rows("flaky")]
    kinds = {commit: kind for kind, commit in history.commits.items()}
    by_kind = {kinds[row["mined"]["commit"]]: row for row in rows}
    assert by_kind.keys() == _MODULE.keys()
    for kind, module in _MODULE.items():
        row = by_kind[kind]
        assert names(row, "FAIL_TO_PASS") == {language.test_name(f"{module} right")}
        assert language.test_name(f"{module} exists") in names(row, "PASS_TO_PASS")
        assert language.test_path.format(module) in row["test_patch"]
        assert row["problem_statement"].startswith(f"Let {module} return")
    (name,) = by_kind["flaky"]["mined"]["flaky"]
    assert name.endswith(language.test_name("neg at times"))
    kept = names(by_kind["flaky"], "PASS_TO_PASS")
    assert language.test_name("neg at times") not in kept
    left_out = by_kind["documents"]["mined"]["left_out"]
    assert {"README.md", "docs/low.rst"} <= set(left_out)
    assert "docs/low.rst" not in by_kind["documents"]["patch"]
    assert "1.0.1" not in by_kind["documents"]["patch"]
    assert language.path("increment") in by_kind["rename"]["patch"]
    assert "Test it" not in by_kind["plain"]["problem_statement"]
