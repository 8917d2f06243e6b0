"""A package of this harness validates clean, and hidden knowledge in it is found."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from bench.instances.instance import split_row
from core.redaction import Redactor
from reports.submission.hidden import hidden_of
from tests.support.evaluated import (
    ID,
    KEY,
    ROW,
    ROWS,
    Build,
    Package,
    change_json,
    diff,
)


def kinds(lines: list[str]) -> list[str]:
    return [line.partition(": ")[0] for line in lines]


@pytest.mark.parametrize("mirrors", [True, False])
def test_a_package_of_ours_is_clean(clean: Package, mirrors: bool) -> None:
    assert clean.findings(mirrors) == []


def test_the_value_of_a_secret_of_the_environment_is_found(package: Package) -> None:
    package.say("Use correct-horse-battery to log in.")
    redact = Redactor({"MY_API_KEY": "correct-horse-battery"})
    lines = package.findings(redact=redact)
    assert len(lines) == 1 and "the value of MY_API_KEY" in lines[0]
    assert "correct-horse" not in lines[0]


def test_names_of_files_cannot_break_the_lines(package: Package) -> None:
    (package.artifacts / "trajs/a\nresolved\x1b[2J.md").write_text(KEY)
    (package.root / os.fsdecode(b"logs-\xff.md")).write_bytes(KEY.encode())
    lines = package.findings()
    assert len(lines) == 2
    assert all(line.isprintable() and line.encode() for line in lines)


def test_a_fault_of_a_new_package_is_said_and_ends_with_1(
    build: Build, run: Path
) -> None:
    def leak(data: dict[str, Any]) -> None:
        message = {"role": "user", "content": ROW["test_patch"]}
        data["attempts"][0]["messages"].insert(1, message)

    change_json(run / f"trajectories/{ID}.json", leak)
    code, _, said = build()
    assert code == 1
    assert said[-2].startswith(
        f"trace: artifacts/trajs/{ID}.json: shows the hidden tests"
    )
    assert said[-1] == "validated      1 faults, against demo"


@pytest.mark.parametrize("mirrors", [True, False])
def test_the_hidden_tests_are_found_without_mirrors(
    package: Package, mirrors: bool
) -> None:
    package.say(ROW["test_patch"])
    assert kinds(package.findings(mirrors)) == ["trace"]


def test_a_trace_of_the_hints_counts_unless_the_issue_says_it_too(
    package: Package,
) -> None:
    hint = "The maintainer suggested to withdraw the amount before depositing it."
    rows = [
        {**row, "hints_text": hint} if row["instance_id"] == ID else row for row in ROWS
    ]
    package.say(hint)
    assert kinds(package.findings(rows=rows)) == ["trace"]
    rows = [
        {**row, "problem_statement": f"{row['problem_statement']}\n{hint}"}
        for row in rows
    ]
    assert package.findings(rows=rows) == []


def test_what_the_model_writes_itself_is_no_trace(package: Package) -> None:
    package.say(f"{ROW['patch']}\n{ROW['test_patch']}", role="assistant")
    package.say(f"Now the files are: {ROW['patch']}\n{ROW['test_patch']}", place=2)
    assert package.findings() == []


def test_what_stands_in_the_base_commit_is_no_trace(package: Package) -> None:
    row = {
        **ROW,
        "test_patch": diff(
            "tests/test_account.py", "x", "from bank.account import Account"
        ),
    }
    rows = [row if r["instance_id"] == ID else r for r in ROWS]
    package.say("from bank.account import Account")
    assert package.findings(rows=rows) == []
    assert kinds(package.findings(mirrors=False, rows=rows)) == ["trace"]


def test_an_agent_that_edits_by_commands_may_be_shown_its_own_patch(
    package: Package,
) -> None:
    patch = json.loads(
        (package.artifacts / "all_preds.jsonl").read_text().splitlines()[0]
    )
    row = {**ROW, "patch": patch["model_patch"]}
    rows = [row if r["instance_id"] == ID else r for r in ROWS]

    def commands(data: dict[str, Any]) -> None:
        shown = {"role": "user", "content": row["patch"]}
        said = {"role": "assistant", "content": "I run sed."}
        for attempt in data["attempts"]:
            attempt.update(
                edit_format="agent", messages=[*attempt["messages"][:2], said, shown]
            )
            attempt["calls"] = []

    change_json(package.trajectory, commands)
    assert package.findings(rows=rows) == []
    change_json(
        package.trajectory,
        lambda d: d["attempts"][0]["messages"].insert(
            0, {"role": "user", "content": row["patch"]}
        ),
    )
    assert kinds(package.findings(rows=rows)) == ["trace"]


def test_distinctive_lines_leave_out_what_the_issue_shows() -> None:
    fields = {hidden.what: hidden for hidden in hidden_of(*split_row(ROW))}
    tests = fields["the hidden tests"]
    assert any("test_failed_transfer_moves_nothing" in mark for mark in tests.marks)
    assert any(mark.startswith("index ") for mark in fields["the gold patch"].marks)
    known = {**ROW, "problem_statement": ROW["test_patch"]}
    assert {h.what: h for h in hidden_of(*split_row(known))}[
        "the hidden tests"
    ].lines == ()
