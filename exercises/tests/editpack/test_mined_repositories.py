"""The histories of requests and flask: commits as counted by git, rows in the expected number.

Needs bare mirrors in the folder that ``SWE_MIRRORS`` names; ``make test-long`` skips it otherwise.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from exercises.tests.editpack.test_miner import mine
from exercises.tests.support.editpack import report_beside
from swe_retry.core.git import git
from swe_retry.repositories.mirrors import Mirrors

pytestmark = pytest.mark.long


@pytest.mark.parametrize(
    ("repo", "ref", "expected"),
    [
        ("psf/requests", "1f6589ec", [4_877, 2_752, "Apache-2.0"]),
        ("pallets/flask", "2ac89889", [3_806, 1_968, "BSD-3-Clause"]),
    ],
)
def test_a_known_history_is_counted_exactly(
    repo: str, ref: str, expected: list[object], tmp_path: Path
) -> None:
    folder = os.environ.get("SWE_MIRRORS")
    mirror = None
    if folder:
        mirror = Mirrors(Path(folder)).find(repo)
    if mirror is None:
        pytest.skip(f"SWE_MIRRORS names no folder with a mirror of {repo}")
    out = tmp_path / "rows.jsonl"
    rows = mine(out, mirror, options=f"--set mine.refs={ref}")
    report = report_beside(out)
    [counts] = report["repositories"]
    assert counts["name"] == repo
    names = ("commits", "modify_python", "license")
    assert [counts[name] for name in names] == expected
    # One row of each commit with an instruction, but for those whose files are all left out.
    instructions = counts["with_instruction"]
    assert 0.8 * instructions < counts["kept"] < instructions
    assert len(rows) == report["kept"]
    assert len({row["commit"] for row in rows}) == len(rows)
    for row in rows:
        assert "@gmail.com" not in row["message"]
    for row in rows[:: len(rows) // 20]:
        for name, side in (
            (f"{row['commit']}:{row['new_file']}", "new_contents"),
            (f"{row['commit']}~:{row['old_file']}", "old_contents"),
        ):
            assert git("cat-file", "blob", name, cwd=mirror).decode() == row[side]
