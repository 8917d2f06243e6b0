"""The logs and containers of swebench, and the rows that it needs."""

from __future__ import annotations

import fcntl
import json
from pathlib import Path

import pytest

from core.errors import UserError
from reports.evaluation.evaluators.base import VerdictStatus
from reports.evaluation.evaluators.swebench import Swebench, check_rows
from tests.reports.evaluation.evaluating import BANK, FORGED, TEXTKIT, WRONG, task


def test_swebench_folders_are_found_at_any_depth(tmp_path: Path) -> None:
    """A later version may move them; text of a patch is not taken for an error of swebench."""
    swebench = Swebench(tmp_path, 1, 60, "test")
    folder = tmp_path / "logs/evaluation/v9/run-1/deeper/me__too" / TEXTKIT
    folder.mkdir(parents=True)
    log = folder / "run_instance.log"
    log.write_text(
        "2026-01-01 10:00:00,123 - INFO - Git diff before:\n+>>>>> Patch Apply Failed\n"
        "2026-01-01 10:00:01,123 - ERROR - Error response from daemon: gone\n"
    )
    verdict = swebench.verdict(task(TEXTKIT), "run-1", "docker", "")
    assert verdict.status is VerdictStatus.NOT_EVALUATED
    assert verdict.reason.startswith("swebench could not evaluate it: Error response from daemon")
    assert verdict.reason.endswith(f"gone; see {log}")
    log.write_text("2026-01-01 10:00:00,123 - INFO - >>>>> Patch Apply Failed:\nerror: x\n")
    verdict = swebench.verdict(task(TEXTKIT), "run-1", "docker", "")
    assert (verdict.status, verdict.reason) == (
        VerdictStatus.UNRESOLVED,
        ">>>>> Patch Apply Failed",
    )
    (folder / "report.json").write_text(json.dumps({TEXTKIT: {"resolved": True}}))
    assert swebench.verdict(task(TEXTKIT), "run-1", "docker", "").status is VerdictStatus.RESOLVED
    assert swebench.verdict(task(TEXTKIT), "run-2", "docker", "it died").reason == "it died"
    (folder / "patch.diff").write_text(WRONG)
    (folder / "test_output.txt").write_text("")
    assert swebench.saved(task(TEXTKIT)) == folder
    assert swebench.saved(task(TEXTKIT, FORGED)) is None
    (folder / "test_output.txt").write_text("PASSED a\n>>>>> End Test Output\n")
    verdict = swebench.verdict(task(TEXTKIT), "run-1", "docker", "")
    assert verdict.status is VerdictStatus.NOT_EVALUATED and "lost the beginning" in verdict.reason
    assert swebench.saved(task(TEXTKIT)) is None, "the beginning is lost"
    (folder / "report.json").unlink()
    log.write_text("2026-01-01 10:00:00,123 - INFO - Test output written\n")
    assert swebench.saved(task(TEXTKIT)) is None, "half an output"


@pytest.mark.parametrize(
    ("error", "words"),
    [
        ("('Connection aborted.', ConnectionRefusedError(111, 'refused'))", "engine stopped answ"),
        ("UnixHTTPConnectionPool(host='localhost'): Read timed out.", "engine stopped answering"),
        ("409 Client Error: Conflict (container 4f is not running)", "its container stopped"),
        ("'utf-8' codec can't decode", "swebench could not evaluate it: 'utf-8' codec can't"),
    ],
)
def test_what_ended_an_evaluation_is_one_clear_line(tmp_path: Path, error: str, words: str) -> None:
    folder = tmp_path / "logs/run_evaluation/run-1/me__too" / TEXTKIT
    folder.mkdir(parents=True)
    (folder / "run_instance.log").write_text(
        f"2026-01-01 10:00:01,123 - ERROR - Error in evaluating model for {TEXTKIT}: {error}\n"
        f"Error in evaluating model for {TEXTKIT}: {error}\nTraceback (most recent call last):\n"
        "2026-01-01 10:00:02,123 - INFO - Failed to remove container x\n"
    )
    verdict = Swebench(tmp_path, 1, 60, "test").verdict(task(TEXTKIT), "run-1", "docker", "")
    assert verdict.status is VerdictStatus.NOT_EVALUATED
    assert words in verdict.reason and "ERROR" not in verdict.reason


def test_a_killed_swebench_is_reported(tmp_path: Path) -> None:
    folder = tmp_path / "logs/run_evaluation/run-1/me__too" / TEXTKIT
    folder.mkdir(parents=True)
    (folder / "run_instance.log").write_text("2026-01-01 10:00:01,123 - INFO - Creating\n")
    verdict = Swebench(tmp_path, 1, 60, "test").verdict(task(TEXTKIT), "run-1", "docker", "")
    assert verdict.reason == f"swebench ended early; see {folder / 'run_instance.log'}"


def test_containers_of_an_evaluation_that_goes_on_are_left_alone(tmp_path: Path) -> None:
    swebench = Swebench(tmp_path, 1, 60, "test")
    assert not swebench.left_containers([task(TEXTKIT)]).fullmatch("")
    for name in ("r.1-aa", "r.1-bb"):
        (tmp_path / f"{name}.log").touch()
    name = f"sweb.eval.{TEXTKIT}.r.1"
    with (tmp_path / "r.1-bb.log").open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        names = swebench.left_containers([task(TEXTKIT)])
        with pytest.raises(UserError, match=r"r\.1-bb\.log is in use: another process"):
            swebench.run([task(TEXTKIT)], "r.1-bb")
    assert names.fullmatch(f"{name}-aa") and names.fullmatch(f"{name}-aa.1700000000")
    others = (f"{name}-bb", f"{name}-aab", f"sweb.eval.{BANK}.r.1-aa", f"x{name}-aa")
    assert not any(map(names.fullmatch, others))
    assert swebench.left_containers([task(TEXTKIT)]).fullmatch(f"{name}-bb")


def test_a_row_that_lacks_something_holds_up_no_other() -> None:
    lacking = task(BANK, FAIL_TO_PASS=[], eval_script="")
    reasons = check_rows([lacking, task("demo__textkit-1")])
    assert reasons == {BANK: "the dataset's row lacks eval_script, FAIL_TO_PASS"}
    with pytest.raises(UserError, match="lacks eval_script"):
        check_rows([lacking])


@pytest.mark.parametrize(
    ("column", "tool"), [("test_cmds", "live"), ("before_repo_set_cmd", "pro"), ("x", "none")]
)
def test_rows_of_another_set_name_their_evaluator(column: str, tool: str) -> None:
    with pytest.raises(UserError, match=f"--evaluator {tool}"):
        check_rows([task(BANK, eval_script="", **{column: ["x"]})])
