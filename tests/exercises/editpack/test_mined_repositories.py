"""The histories of requests and flask: commits as counted by git, rows in the expected number.

Needs bare mirrors in the folder that ``SWE_MIRRORS`` names; ``make test-long`` skips it otherwise.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from bench.repos.mirrors import Mirrors
from core.git import git
from exercises.editpack.files import report_of
from tests.exercises.editpack.test_miner import lines_of, mine

pytestmark = pytest.mark.long


@pytest.mark.parametrize(
    ("repo", "commit", "commits", "modify_python", "license_"),
    [
        ("psf/requests", "1f6589ec", 4_877, 2_752, "Apache-2.0"),
        ("pallets/flask", "2ac89889", 3_806, 1_968, "BSD-3-Clause"),
    ],
)
def test_a_known_history_is_counted_exactly(
    repo: str,
    commit: str,
    commits: int,
    modify_python: int,
    license_: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = os.environ.get("SWE_MIRRORS")
    mirror = None
    if folder:
        mirror = Mirrors(Path(folder)).find(repo)
    if mirror is None:
        pytest.skip(f"SWE_MIRRORS names no folder with a mirror of {repo}")
    out = tmp_path / "rows.jsonl"
    assert mine(monkeypatch, out, mirror, "--set", f"mine.refs={commit}") == 0
    report = json.loads(report_of(out).read_text())
    [found] = report["repositories"]
    assert (found["commits"], found["modify_python"]) == (commits, modify_python)
    assert (found["license"], found["name"]) == (license_, repo)
    # One row of each commit with an instruction, but for those whose files are all left out.
    assert 0.8 * found["with_instruction"] < found["kept"] < found["with_instruction"]
    rows = lines_of(out)
    assert len({row["commit"] for row in rows}) == len(rows) == report["kept"]
    assert not [row for row in rows if "@gmail.com" in row["message"]]
    for row in rows[:: len(rows) // 20]:
        path = f"{row['commit']}:{row['new_file']}"
        assert git("cat-file", "blob", path, cwd=mirror).decode() == row["new_contents"]
        old = f"{row['commit']}~:{row['old_file']}"
        assert git("cat-file", "blob", old, cwd=mirror).decode() == row["old_contents"]
