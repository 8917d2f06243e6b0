"""A package of this harness validates clean, and hidden knowledge in it is found."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from swe_retry.core.git import git
from swe_retry.repositories.mirrors import Mirrors
from tests.report.package.conftest import Faults, set_folders
from tests.support import read_json
from tests.support.evaluated import (
    ID,
    ROW,
    ROWS,
    Build,
    change_json,
    change_patch,
    diff,
    say_in,
)

RowsFile = Callable[..., Path]


def kinds(lines: list[str]) -> list[str]:
    return [line.partition(": ")[0] for line in lines]


@pytest.fixture(params=[True, False], ids=["mirrors", "no mirrors"])
def mirrors(
    request: pytest.FixtureRequest,
    run: Path,
    tmp_path: Path,
) -> bool:
    if not request.param:
        without_mirrors(run, tmp_path)
    return bool(request.param)


def without_mirrors(run: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out/none"
    folder.mkdir()
    set_folders(run, repos=folder)


def changed_rows(**changes: str) -> list[Mapping[str, Any]]:
    """Return the rows of the demo, with other values in that of ``ID``."""
    rows = []
    for row in ROWS:
        if row["instance_id"] == ID:
            row = {**row, **changes}
        rows.append(row)
    return rows


def test_a_package_of_ours_is_clean(mirrors: bool, faults: Faults) -> None:
    assert faults() == []


def test_a_fault_of_a_new_package_is_said_and_ends_with_1(
    build: Build, run: Path
) -> None:
    say_in(run, ROW["test_patch"])
    code, _, lines = build()
    assert code == 1
    assert lines[-2].startswith(
        f"trace: artifacts/trajs/{ID}.json: shows the hidden tests"
    )
    assert lines[-1] == "validated      1 faults, against demo"


def test_the_value_of_a_secret_of_the_environment_is_found(
    faults: Faults, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EXAMPLE_API_KEY", "correct-horse-battery")
    (line,) = faults(name="Use correct-horse-battery to log in.")
    assert "metadata.yaml: contains the value of EXAMPLE_API_KEY; redact it" in line
    assert "correct-horse" not in line


def test_names_of_files_cannot_break_the_lines(faults: Faults, run: Path) -> None:
    name = "tests/test_\x1b[2Jx\udcff.py"
    patch = f"--- a/{name}\n+++ b/{name}\n@@ -1 +1 @@\n-a\n+b\n"
    change_patch(run, lambda _: patch)
    lines = faults()
    assert kinds(lines) == ["unreadable", "test edit", "patch"]
    for line in lines:
        assert line.isprintable()
        assert line.encode()
    assert r"the patch edits tests/test_\x1b[2Jx\udcff.py" in lines[1]


def test_the_hidden_tests_are_found_without_mirrors(
    mirrors: bool, faults: Faults, run: Path
) -> None:
    say_in(run, ROW["test_patch"])
    assert kinds(faults()) == ["trace"]


def test_a_few_lines_are_no_trace_without_mirrors(
    faults: Faults, run: Path, tmp_path: Path
) -> None:
    """Repositories repeat lines: without a mirror more than half of a field must be shown."""
    two_of_four = "other = Account()\nassert other.balance == 0"
    for line in two_of_four.split("\n"):
        assert f"    {line}\n" in ROW["test_patch"]
    say_in(run, two_of_four)
    assert kinds(faults()) == ["trace"], "the mirror says that it is not in the base"
    without_mirrors(run, tmp_path)
    assert faults(target="other") == []


def test_a_mirror_that_is_damaged_is_no_fault_of_the_package(
    faults: Faults, run: Path, tmp_path: Path
) -> None:
    folders = read_json(run / "run.json")["settings"]["folders"]
    copy = tmp_path / "out/damaged"
    shutil.copytree(folders["repos"], copy)
    mirror = Mirrors(copy).get(ROW["repo"], ROW["base_commit"])
    name = f"{ROW['base_commit']}^{{tree}}"
    tree = git("rev-parse", name, cwd=mirror).decode().strip()
    file = mirror / "objects" / tree[:2] / tree[2:]
    file.unlink()
    set_folders(run, repos=copy)
    assert faults() == []


def test_a_trace_of_the_hints_counts_unless_the_issue_says_it_too(
    faults: Faults, run: Path, rows_file: RowsFile
) -> None:
    hint = "The maintainer suggested to withdraw the amount before depositing it."
    rows = changed_rows(hints_text=hint)
    say_in(run, hint)
    assert kinds(faults(rows=rows_file(rows))) == ["trace"]
    issue = f"{ROW['problem_statement']}\n{hint}"
    rows = changed_rows(hints_text=hint, problem_statement=issue)
    assert faults(rows=rows_file(rows), target="other") == []


def test_what_the_model_writes_itself_is_no_trace(faults: Faults, run: Path) -> None:
    say_in(run, f"{ROW['patch']}\n{ROW['test_patch']}", role="assistant")
    say_in(run, f"Now the files are: {ROW['patch']}\n{ROW['test_patch']}", position=2)
    assert faults() == []


def test_what_stands_in_the_base_commit_is_no_trace(
    faults: Faults, run: Path, rows_file: RowsFile, tmp_path: Path
) -> None:
    line = "from bank.account import Account"
    rows = changed_rows(test_patch=diff("tests/test_account.py", "x", line))
    say_in(run, line)
    assert faults(rows=rows_file(rows)) == []
    without_mirrors(run, tmp_path)
    assert kinds(faults(rows=rows_file(rows), target="other")) == ["trace"]


def test_an_agent_that_edits_by_commands_may_be_shown_its_own_patch(
    faults: Faults, run: Path, rows_file: RowsFile
) -> None:
    patch = read_json(run / f"{ID}.json")["model_patch"]
    rows = changed_rows(patch=patch)

    def commands(data: dict[str, Any]) -> None:
        output = {"role": "user", "content": patch}
        reply = {"role": "assistant", "content": "I run sed."}
        for attempt in data["attempts"]:
            opening = attempt["messages"][:2]
            attempt.update(
                edit_format="agent",
                messages=[*opening, reply, output],
                calls=[],
            )

    change_json(run / f"trajectories/{ID}.json", commands)
    assert faults(rows=rows_file(rows)) == []
    say_in(run, patch, position=0)
    assert kinds(faults(rows=rows_file(rows), target="other")) == ["trace"]


def test_what_the_issue_shows_is_no_trace(
    faults: Faults, run: Path, rows_file: RowsFile
) -> None:
    say_in(run, ROW["test_patch"].replace("index ", "Index "))
    (line,) = faults()
    assert "shows the hidden tests: " in line
    rows = changed_rows(problem_statement=ROW["test_patch"])
    assert faults(rows=rows_file(rows), target="other") == []


def test_marks_are_traces_by_themselves(
    faults: Faults, run: Path, tmp_path: Path
) -> None:
    without_mirrors(run, tmp_path)
    index = re.search("^index.*", ROW["patch"], re.M)
    assert index
    say_in(run, f"{index[0]}\nand test_failed_transfer_moves_nothing")
    of_patch, of_test = faults()
    assert "the gold patch" in of_patch
    assert "the gold patch" not in of_test
    assert "test_failed_transfer_moves_nothing" in of_test
