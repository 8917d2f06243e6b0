"""The logs and containers of swebench, and the rows that it needs."""

from __future__ import annotations

import fcntl
import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from swe_retry.core.errors import UserError
from swe_retry.report.evaluation.swebench import DockerEvaluator, logged_verdict
from swe_retry.report.package.commands import folders_about, swebench_folders
from swe_retry.results.read import read_predictions
from swe_retry.results.verdicts import (
    Verdict,
    VerdictStatus,
    save_verdict,
)
from tests.support import read_json, write_json
from tests.support.evaluated import (
    BANK,
    FORGED,
    HIDDEN,
    TEXTKIT,
    WRONG,
    Say,
    make_run,
    report_settings,
    task,
)
from tests.support.reported import report_run

BEGIN = "+ : '>>>>> Start Test Output'\n"
END = "+ : '>>>>> End Test Output'\n"
CODE = ">>>>> Test Exit Code: 0\n"
PRINTED = "PASSED tests/test_slug.py::test_lower_case\n"
WHOLE = f"{BEGIN}PASSED a\n{END}{CODE}"
AT = "2026-01-01 10:00:01,123"


def evaluator(folder: Path, say: Say = print) -> DockerEvaluator:
    settings = report_settings(folder / "cache", "docker")
    return DockerEvaluator("docker", folder, settings, "", "test", say)


def make_folder(
    folder: Path,
    name: str = TEXTKIT,
    output: str = WHOLE,
    resolved: bool = True,
) -> Path:
    """Make swebench's folder for an instance, where the installed version has it."""
    from swebench.harness.constants import RUN_EVALUATION_LOG_DIR

    path: Path = folder / RUN_EVALUATION_LOG_DIR / "run-1" / "me__too" / name
    path.mkdir(parents=True)
    report = {name: {"resolved": resolved}}
    write_json(path / "report.json", report)
    (path / "test_output.txt").write_text(output)
    (path / "patch.diff").write_text(WRONG)
    return path


def verdict_by(folder: Path, error: str = "") -> Verdict:
    return logged_verdict(task(TEXTKIT), folder, error)


def log_verdict(tmp_path: Path, text: str) -> Verdict:
    """Return the verdict where swebench left a log alone."""
    folder = tmp_path / "log"
    folder.mkdir(exist_ok=True)
    (folder / "run_instance.log").write_text(text)
    return verdict_by(folder)


def test_a_verdict_needs_swebenchs_report_and_a_whole_output(tmp_path: Path) -> None:
    folder = make_folder(tmp_path)
    # A report goes before the log.
    log = f"{AT} - INFO - >>>>> Patch Apply Failed:\nerror: x\n"
    (folder / "run_instance.log").write_text(log)
    assert verdict_by(folder).status is VerdictStatus.RESOLVED
    nowhere = tmp_path / "run-2"
    assert verdict_by(nowhere, "it died").reason == "it died"
    assert verdict_by(nowhere).reason == "swebench left no log"
    logs = swebench_folders(tmp_path)
    assert folders_about(WRONG, logs[TEXTKIT]) == [folder]
    assert folders_about(FORGED, logs[TEXTKIT]) == []


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
        # The engine, memory or a person killed the tests, and not the shell around them.
        f"{BEGIN}PASSED a\n{END}>>>>> Test Exit Code: 137\nUpdated 1 path\n",
        f"{BEGIN}PASSED a\n{END}>>>>> Test Exit Code: 143\n",
    ],
)
def test_what_does_not_show_that_the_tests_ended_is_no_verdict(
    tmp_path: Path, output: str, resolved: bool
) -> None:
    folder = make_folder(tmp_path, output=output, resolved=resolved)
    verdict = verdict_by(folder)
    assert verdict.status == VerdictStatus.NOT_EVALUATED
    assert verdict.log == output
    assert "does not show that the tests ran" in verdict.reason


@pytest.mark.parametrize(
    "code",
    [0, 1, 7, 139],
)
def test_tests_that_ended_by_themselves_have_a_verdict(
    tmp_path: Path, code: int
) -> None:
    # Busy engines bring the trace of the script after what it prints.
    for number, line in enumerate(("{}", "+ echo '{}'")):
        end = line.format(f">>>>> Test Exit Code: {code}")
        output = f"{BEGIN}PASSED a\n{END}{end}\nUpdated 1 path\n"
        folder = make_folder(
            tmp_path / str(number),
            output=output,
            resolved=False,
        )
        assert verdict_by(folder).status is VerdictStatus.UNRESOLVED


@pytest.mark.parametrize(
    ("line", "is_doubted"),
    [
        (f"PASSED {HIDDEN}\n", False),
        (f"XFAIL {HIDDEN}\n", True),
        ("", True),
    ],
)
def test_our_doubt_stands_beside_swebenchs_verdict(
    tmp_path: Path, line: str, is_doubted: bool
) -> None:
    """swebench resolves by expected failures, and by tests that vanish if failures alone count."""
    folder = make_folder(tmp_path, output=WHOLE.replace("PASSED a\n", line + PRINTED))
    verdict = verdict_by(folder)
    assert verdict.status is VerdictStatus.RESOLVED
    doubt = f"official: resolved; reported as failing: {HIDDEN}"
    assert verdict.reason == (doubt if is_doubted else "")


def test_a_report_shows_the_doubt_and_counts_the_verdict(
    tmp_path: Path, cache: Path
) -> None:
    store = make_run(tmp_path, {TEXTKIT: WRONG})
    output = WHOLE.replace("PASSED a", f"XFAIL {HIDDEN}")
    verdict = verdict_by(make_folder(tmp_path, output=output))
    (prediction,) = read_predictions(store)
    save_verdict(store, prediction, verdict, None)
    printed = report_run(store.folder, cache, page=True)
    doubt = f"official: resolved; reported as failing: {HIDDEN}"
    (line,) = printed.containing(doubt)
    assert line.startswith(TEXTKIT)
    assert read_json(store.verdict(TEXTKIT))["reason"] == doubt
    (page,) = (store.folder / "report").glob(f"**/{TEXTKIT}.html")
    assert doubt in page.read_text()
    score = read_json(store.folder / "stats.json")["scores"]["selected"]
    assert score["share"] == 1


def test_logs_are_found_in_linear_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scanned: list[str] = []
    scandir = os.scandir

    def count(*values: Any) -> Any:
        scanned.append(str(values[0]))
        return scandir(*values)

    base = task(TEXTKIT)
    folders = {}
    for number in range(40):
        name = f"a-{number}"
        folders[name] = make_folder(tmp_path, name)
    monkeypatch.setattr("os.scandir", count)
    for name, folder in folders.items():
        instance = replace(base.instance, instance_id=name)
        case = replace(base, instance=instance)
        assert logged_verdict(case, folder, "").conclusive
    assert not scanned
    logs = swebench_folders(tmp_path)
    assert all(folders_about(WRONG, logs[name]) for name in folders)
    assert len(scanned) == len(set(scanned)), "each folder is looked into once"


@pytest.mark.parametrize(
    ("error", "problem"),
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
    tmp_path: Path, error: str, problem: str
) -> None:
    message = f"Error in evaluating model for {TEXTKIT}: {error}\n"
    after = f"{AT} - INFO - Failed to remove container x\n"
    trace = "Traceback (most recent call last):\n"
    verdict = log_verdict(tmp_path, f"{AT} - ERROR - {message}{message}{trace}{after}")
    assert verdict.status is VerdictStatus.NOT_EVALUATED
    assert problem in verdict.reason
    assert "ERROR" not in verdict.reason


@pytest.mark.parametrize(
    ("text", "status", "reason"),
    [
        # Text of a patch is not taken for an error of swebench.
        (
            f"{AT} - INFO - Git diff before:\n+>>>>> Patch Apply Failed\n"
            f"{AT} - ERROR - Error response from daemon: gone\n",
            VerdictStatus.NOT_EVALUATED,
            "swebench could not evaluate it: Error response from daemon: gone; see {log}",
        ),
        (
            f"{AT} - INFO - >>>>> Patch Apply Failed:\nerror: x\n",
            VerdictStatus.UNRESOLVED,
            ">>>>> Patch Apply Failed",
        ),
        (
            f"{AT} - INFO - Creating\n",
            VerdictStatus.NOT_EVALUATED,
            "swebench ended early; see {log}",
        ),
    ],
    ids=["error", "patch", "killed"],
)
def test_a_log_alone_names_what_happened(
    tmp_path: Path, text: str, status: VerdictStatus, reason: str
) -> None:
    verdict = log_verdict(tmp_path, text)
    log = tmp_path / "log/run_instance.log"
    assert verdict.status == status
    assert verdict.reason == reason.format(log=log)


def test_an_evaluation_that_goes_on_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What another one left, of any run, is removed, also if its log was deleted."""
    removed: list[str] = []
    engine = SimpleNamespace(close=lambda: None)
    for name, function in {
        "connect": lambda: engine,
        "remove_named": lambda *_: ["c"],
        "remove_containers": lambda _, key: removed.append(key),
    }.items():
        monkeypatch.setattr(f"swe_retry.report.evaluation.swebench.{name}", function)
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:9")
    lines: list[str] = []
    docker = evaluator(tmp_path / "a", lines.append)
    docker.prepare([task(TEXTKIT)])
    assert not removed
    docker.running.mkdir(parents=True)
    for name in ("r.1-aa", "r.1-bb", "other-cc"):
        log = tmp_path / f"{name}.log"
        log.touch()
        (docker.running / name).symlink_to(log)
    (tmp_path / "other-cc.log").unlink()
    with (tmp_path / "r.1-bb.log").open() as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        docker.prepare([task(TEXTKIT)])
    assert removed == ["other-cc", "r.1-aa"]
    assert lines.count("removed what an earlier evaluation left: container c") == 2
    docker.prepare([task(TEXTKIT)])
    assert removed == ["other-cc", "r.1-aa", "r.1-bb"]
    docker.folder.mkdir(exist_ok=True)
    with (docker.folder / "r.1-aa.log").open("wb") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        with pytest.raises(UserError, match=r"r\.1-aa\.log is in use: another process"):
            next(docker.run([task(TEXTKIT)], "r.1-aa"))


def test_a_row_that_lacks_something_holds_up_no_other(tmp_path: Path) -> None:
    docker = evaluator(tmp_path)
    lacking = task(BANK, FAIL_TO_PASS=[], eval_script="")
    problem = "the row lacks eval_script, FAIL_TO_PASS, which docker needs"
    problems = docker.incomplete_rows([lacking, task(TEXTKIT)])
    assert problems == {BANK: problem}
    fix = "or --evaluator that of the set"
    with pytest.raises(UserError, match=f"instance {BANK}: the row lacks eval_.*{fix}"):
        docker.incomplete_rows([lacking])
