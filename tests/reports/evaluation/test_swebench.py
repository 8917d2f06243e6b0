"""The logs and containers of swebench, and the rows that it needs."""

from __future__ import annotations

import fcntl
import json
import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from core.errors import UserError
from reports.data.verdicts import SwebenchLogs, VerdictStatus
from reports.evaluation.swebench import DockerEvaluator, logged_verdict
from tests.support.evaluated import (
    BANK,
    FORGED,
    TEXTKIT,
    WRONG,
    Say,
    report_settings,
    task,
)

BEGIN = "+ : '>>>>> Start Test Output'\n"
END = "+ : '>>>>> End Test Output'\n"
CODE = ">>>>> Test Exit Code: 0\n"
WHOLE = f"{BEGIN}PASSED a\n{END}{CODE}"


def evaluator(folder: Path, say: Say = print) -> DockerEvaluator:
    settings = report_settings(folder / "cache", "docker")
    return DockerEvaluator("docker", folder, settings, "", "test", say)


def place(
    folder: Path,
    run_id: str = "run-1",
    name: str = TEXTKIT,
) -> Path:
    """Make swebench's folder for an instance, where the installed version has it."""
    from swebench.harness.constants import RUN_EVALUATION_LOG_DIR

    found = folder / RUN_EVALUATION_LOG_DIR / run_id / "me__too" / name
    found.mkdir(parents=True)
    return found


def test_a_verdict_needs_swebenchs_report_and_a_whole_output(tmp_path: Path) -> None:
    """Text of a patch is not taken for an error of swebench."""
    folder = place(tmp_path)
    log = folder / "run_instance.log"
    log.write_text(
        "2026-01-01 10:00:00,123 - INFO - Git diff before:\n+>>>>> Patch Apply Failed\n"
        "2026-01-01 10:00:01,123 - ERROR - Error response from daemon: gone\n"
    )
    verdict = logged_verdict(task(TEXTKIT), folder, "")
    assert verdict.status is VerdictStatus.NOT_EVALUATED
    assert verdict.reason.startswith(
        "swebench could not evaluate it: Error response from daemon"
    )
    assert verdict.reason.endswith(f"gone; see {log}")
    log.write_text(
        "2026-01-01 10:00:00,123 - INFO - >>>>> Patch Apply Failed:\nerror: x\n"
    )
    verdict = logged_verdict(task(TEXTKIT), folder, "")
    assert (verdict.status, verdict.reason) == (
        VerdictStatus.UNRESOLVED,
        ">>>>> Patch Apply Failed",
    )
    (folder / "report.json").write_text(json.dumps({TEXTKIT: {"resolved": True}}))
    (folder / "test_output.txt").write_text(WHOLE)
    assert logged_verdict(task(TEXTKIT), folder, "").status is VerdictStatus.RESOLVED
    nowhere = tmp_path / "run-2"
    assert logged_verdict(task(TEXTKIT), nowhere, "it died").reason == "it died"
    assert logged_verdict(task(TEXTKIT), nowhere, "").reason == "swebench left no log"
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
    verdict = logged_verdict(task(TEXTKIT), folder, "")
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
    folders = []
    for one in tasks:
        folder = place(tmp_path, name=one.instance.instance_id)
        folders.append(folder)
        (folder / "report.json").write_text(json.dumps({one.instance.instance_id: {}}))
        (folder / "patch.diff").write_text(WRONG)
        (folder / "test_output.txt").write_text(WHOLE)
    monkeypatch.setattr("os.scandir", count)
    for one, folder in zip(tasks, folders, strict=True):
        assert logged_verdict(one, folder, "").conclusive
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
    verdict = logged_verdict(task(TEXTKIT), folder, "")
    assert verdict.status is VerdictStatus.NOT_EVALUATED
    assert words in verdict.reason and "ERROR" not in verdict.reason


def test_a_killed_swebench_is_reported(tmp_path: Path) -> None:
    folder = place(tmp_path)
    (folder / "run_instance.log").write_text(
        "2026-01-01 10:00:01,123 - INFO - Creating\n"
    )
    verdict = logged_verdict(task(TEXTKIT), folder, "")
    assert verdict.reason == f"swebench ended early; see {folder / 'run_instance.log'}"


def test_an_evaluation_that_goes_on_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What another one left, of any run, is removed, also if its log was deleted."""
    removed: list[str] = []
    engine = SimpleNamespace(close=lambda: None)
    monkeypatch.setattr("reports.evaluation.swebench.connect", lambda: engine)
    monkeypatch.setattr("reports.evaluation.swebench.remove_named", lambda *_: ["c"])
    monkeypatch.setattr(
        "reports.evaluation.swebench.remove_containers",
        lambda _, key: removed.append(key),
    )
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:9")
    said: list[str] = []
    docker = evaluator(tmp_path / "a", said.append)
    docker.prepare([task(TEXTKIT)])
    assert not removed
    docker.running.mkdir(parents=True)
    for name in ("r.1-aa", "r.1-bb", "other-cc"):
        (tmp_path / f"{name}.log").touch()
        (docker.running / name).symlink_to(tmp_path / f"{name}.log")
    (tmp_path / "other-cc.log").unlink()
    with (tmp_path / "r.1-bb.log").open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        docker.prepare([task(TEXTKIT)])
    assert removed == ["other-cc", "r.1-aa"]
    assert said.count("removed what an earlier evaluation left: container c") == 2
    docker.prepare([task(TEXTKIT)])
    assert removed == ["other-cc", "r.1-aa", "r.1-bb"]
    docker.folder.mkdir(exist_ok=True)
    with (docker.folder / "r.1-aa.log").open("wb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(UserError, match=r"r\.1-aa\.log is in use: another process"):
            next(docker.run([task(TEXTKIT)], "r.1-aa"))


def test_a_row_that_lacks_something_holds_up_no_other(tmp_path: Path) -> None:
    docker = evaluator(tmp_path)
    lacking = task(BANK, FAIL_TO_PASS=[], eval_script="")
    reasons = docker.incomplete_rows([lacking, task(TEXTKIT)])
    assert reasons == {
        BANK: "the row lacks eval_script, FAIL_TO_PASS, which docker needs"
    }
    fix = "or --evaluator that of the set"
    with pytest.raises(UserError, match=f"instance {BANK}: the row lacks eval_.*{fix}"):
        docker.incomplete_rows([lacking])
