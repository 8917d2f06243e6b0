"""The logs and containers of swebench, and the rows that it needs."""

from __future__ import annotations

import fcntl
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core.errors import UserError
from reports.data.verdicts import SwebenchLogs, VerdictStatus
from reports.evaluation.evaluators.swebench import Swebench, check_rows
from tests.support.evaluated import BANK, FORGED, TEXTKIT, WRONG, task

BEGIN, END, CODE = (
    "+ : '>>>>> Start Test Output'\n",
    "+ : '>>>>> End Test Output'\n",
    ">>>>> Test Exit Code: 0\n",
)
WHOLE = f"{BEGIN}PASSED a\n{END}{CODE}"


def made(folder: Path) -> Swebench:
    return Swebench(folder, folder / "running", 1, 60, "test")


def place(folder: Path, run_id: str = "run-1", name: str = TEXTKIT) -> Path:
    """Make swebench's folder for an instance, where the installed version has it."""
    from swebench.harness.constants import RUN_EVALUATION_LOG_DIR

    found = folder / RUN_EVALUATION_LOG_DIR / run_id / "me__too" / name
    found.mkdir(parents=True)
    return found


def test_a_verdict_needs_swebenchs_report_and_a_whole_output(tmp_path: Path) -> None:
    """Text of a patch is not taken for an error of swebench."""
    swebench, folder = made(tmp_path), place(tmp_path)
    log = folder / "run_instance.log"
    log.write_text(
        "2026-01-01 10:00:00,123 - INFO - Git diff before:\n+>>>>> Patch Apply Failed\n"
        "2026-01-01 10:00:01,123 - ERROR - Error response from daemon: gone\n"
    )
    verdict = swebench.verdict(task(TEXTKIT), "run-1", "")
    assert verdict.status is VerdictStatus.NOT_EVALUATED
    assert verdict.reason.startswith(
        "swebench could not evaluate it: Error response from daemon"
    )
    assert verdict.reason.endswith(f"gone; see {log}")
    log.write_text(
        "2026-01-01 10:00:00,123 - INFO - >>>>> Patch Apply Failed:\nerror: x\n"
    )
    verdict = swebench.verdict(task(TEXTKIT), "run-1", "")
    assert (verdict.status, verdict.reason) == (
        VerdictStatus.UNRESOLVED,
        ">>>>> Patch Apply Failed",
    )
    (folder / "report.json").write_text(json.dumps({TEXTKIT: {"resolved": True}}))
    (folder / "test_output.txt").write_text(WHOLE)
    assert swebench.verdict(task(TEXTKIT), "run-1", "").status is VerdictStatus.RESOLVED
    assert swebench.verdict(task(TEXTKIT), "run-2", "it died").reason == "it died"
    (folder / "patch.diff").write_text(WRONG)
    assert SwebenchLogs(tmp_path).of(TEXTKIT, WRONG) == [folder]
    assert SwebenchLogs(tmp_path).of(TEXTKIT, FORGED) == []


@pytest.mark.parametrize("resolved", [True, False])
@pytest.mark.parametrize(
    "output",
    [
        "",
        "OCI runtime exec failed: exec failed: cannot exec in a stopped state: unknown",
        BEGIN,
        f"{BEGIN}PASSED a\n",
        f"{BEGIN}PASSED a\n{END}",
        f"PASSED a\n{END}{CODE}",
        f"{END}{CODE}{BEGIN}PASSED a\n",
    ],
)
def test_what_does_not_show_that_the_tests_ended_is_no_verdict(
    tmp_path: Path, output: str, resolved: bool
) -> None:
    folder = place(tmp_path)
    (folder / "report.json").write_text(json.dumps({TEXTKIT: {"resolved": resolved}}))
    (folder / "test_output.txt").write_text(output)
    verdict = made(tmp_path).verdict(task(TEXTKIT), "run-1", "")
    assert (verdict.status, verdict.log) == (VerdictStatus.NOT_EVALUATED, output)
    assert "does not show that the tests ran" in verdict.reason


def test_logs_are_found_in_linear_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scanned: list[str] = []
    real = os.scandir

    def count(*values: Any) -> Any:
        scanned.append(str(values[0]))
        return real(*values)

    tasks = [
        replace(task(TEXTKIT), instance=replace(one, instance_id=f"a-{n}"))
        for n, one in enumerate([task(TEXTKIT).instance] * 40)
    ]
    for one in tasks:
        folder = place(tmp_path, name=one.instance.instance_id)
        (folder / "report.json").write_text(json.dumps({one.instance.instance_id: {}}))
        (folder / "patch.diff").write_text(WRONG)
        (folder / "test_output.txt").write_text(WHOLE)
    monkeypatch.setattr("os.scandir", count)
    swebench = made(tmp_path)
    assert all(swebench.verdict(one, "run-1", "").conclusive for one in tasks)
    assert not scanned
    logs = SwebenchLogs(tmp_path)
    assert all(logs.of(one.instance.instance_id, WRONG) for one in tasks)
    assert len(scanned) == len({*scanned}), "each folder is looked into once"


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (
            "('Connection aborted.', ConnectionRefusedError(111, 'refused'))",
            "engine stopped answ",
        ),
        (
            "UnixHTTPConnectionPool(host='localhost'): Read timed out.",
            "engine stopped answering",
        ),
        (
            "409 Client Error: Conflict (container 4f is not running)",
            "its container stopped",
        ),
        (
            "'utf-8' codec can't decode",
            "swebench could not evaluate it: 'utf-8' codec can't",
        ),
    ],
)
def test_what_ended_an_evaluation_is_one_clear_line(
    tmp_path: Path, error: str, words: str
) -> None:
    folder = place(tmp_path)
    (folder / "run_instance.log").write_text(
        f"2026-01-01 10:00:01,123 - ERROR - Error in evaluating model for {TEXTKIT}: {error}\n"
        f"Error in evaluating model for {TEXTKIT}: {error}\nTraceback (most recent call last):\n"
        "2026-01-01 10:00:02,123 - INFO - Failed to remove container x\n"
    )
    verdict = made(tmp_path).verdict(task(TEXTKIT), "run-1", "")
    assert verdict.status is VerdictStatus.NOT_EVALUATED
    assert words in verdict.reason and "ERROR" not in verdict.reason


def test_a_killed_swebench_is_reported(tmp_path: Path) -> None:
    folder = place(tmp_path)
    (folder / "run_instance.log").write_text(
        "2026-01-01 10:00:01,123 - INFO - Creating\n"
    )
    verdict = made(tmp_path).verdict(task(TEXTKIT), "run-1", "")
    assert verdict.reason == f"swebench ended early; see {folder / 'run_instance.log'}"


def test_an_evaluation_that_goes_on_is_left_alone(tmp_path: Path) -> None:
    """One that ended, of any run, is to be cleaned, also if its log was deleted."""
    swebench = made(tmp_path / "a")
    assert swebench.ended() == []
    swebench.running.mkdir(parents=True)
    for name in ("r.1-aa", "r.1-bb", "other-cc"):
        (tmp_path / f"{name}.log").touch()
        (swebench.running / name).symlink_to(tmp_path / f"{name}.log")
    (tmp_path / "other-cc.log").unlink()
    with (tmp_path / "r.1-bb.log").open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert swebench.ended() == ["other-cc", "r.1-aa"]
    swebench.settle("other-cc")
    assert swebench.ended() == ["r.1-aa", "r.1-bb"]
    swebench.folder.mkdir(exist_ok=True)
    with (swebench.folder / "r.1-aa.log").open("wb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(UserError, match=r"r\.1-aa\.log is in use: another process"):
            swebench.run([task(TEXTKIT)], "r.1-aa")


def test_a_row_that_lacks_something_holds_up_no_other() -> None:
    lacking = task(BANK, FAIL_TO_PASS=[], eval_script="")
    reasons = check_rows([lacking, task("demo__textkit-1")])
    assert reasons == {BANK: "the dataset's row lacks eval_script, FAIL_TO_PASS"}
    with pytest.raises(UserError, match="lacks eval_script"):
        check_rows([lacking])


@pytest.mark.parametrize(
    ("column", "tool"),
    [("test_cmds", "live"), ("before_repo_set_cmd", "pro"), ("x", "none")],
)
def test_rows_of_another_set_name_their_evaluator(column: str, tool: str) -> None:
    with pytest.raises(UserError, match=f"--evaluator {tool}"):
        check_rows([task(BANK, eval_script="", **{column: ["x"]})])
