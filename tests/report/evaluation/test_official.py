"""How official tools are found, started, shown, ended and recorded."""

from __future__ import annotations

import re
import subprocess
import sys
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from swe_retry.core.errors import UserError
from swe_retry.report.evaluation.evaluator import EvaluationTask, Tasks
from swe_retry.report.evaluation.official import PROGRAMS
from swe_retry.report.evaluation.program import (
    ConsoleLog,
    OfficialEvaluator,
    ProgramFolder,
    read_result,
)
from swe_retry.results.verdicts import OFFICIAL_TOOLS, Verdict, VerdictStatus
from tests.support import official, read_json, write_json
from tests.support.evaluated import (
    BANK,
    TEXTKIT,
    UNITS,
    make_run,
    on_disk,
    report_settings,
)
from tests.support.reported import differs, report_run

# Prints, writes results, and ends, waits or starts others as the words in the patches say.
PROGRAM = """\
import json, os, subprocess, sys, time
from pathlib import Path
predictions = json.loads(Path(sys.argv[1]).read_text())
words = " ".join(predictions.values())
print("working in", os.getcwd(), end="\\n\\n")
print("10%\\r20%\\r\\x1b[31mdone\\x1b[0m")
results = {}
for name, patch in predictions.items():
    if "CRASH" in patch:
        print(f"Error evaluating {name}: it crashed")
    elif "LOST" not in patch:
        results[name] = "RIGHT" in patch
Path("results.json").write_text(json.dumps(results))
if "HANG" in words:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    print("child", child.pid, flush=True)
    time.sleep(600)
print("secret", os.environ.get("PLANTED_API_KEY"), os.environ["TMPDIR"])
sys.exit(3 if "FAIL" in words else 0)
"""
IMAGE = "own/calc:hanging"
ROW = {"repo": "own/calc"}


class StandIn(OfficialEvaluator):
    """Runs ``PROGRAM``."""

    package = "pytest"
    columns = ("repo",)
    uses_engine = False
    allowance = 1.0

    def commands(
        self,
        tasks: Tasks,
        folder: ProgramFolder,
    ) -> list[list[str]]:
        patches = {task.official_id: task.prediction.patch for task in tasks}
        file = write_json(folder.inputs / "predictions.json", patches)
        argv = [sys.executable, "-c", PROGRAM, str(file)]
        return [argv]

    def read(
        self,
        task: EvaluationTask,
        folder: ProgramFolder,
    ) -> Verdict | None:
        results = read_result(folder.outputs / "results.json")
        resolved = results.get(task.official_id)
        if not isinstance(resolved, bool):
            return None
        return self.result(task, resolved, "the log")


class ContainerStandIn(StandIn):
    """Starts a container with its folder mounted, and waits for it without a limit."""

    uses_engine = True

    def commands(
        self,
        tasks: Tasks,
        folder: ProgramFolder,
    ) -> list[list[str]]:
        mount = f"{folder.outputs}:/outputs"
        argv = ["docker", "run", "--rm", "--volume", mount, IMAGE, "sleep", "600"]
        return [argv]


@pytest.fixture(autouse=True)
def program(monkeypatch: pytest.MonkeyPatch) -> None:
    """Add the program to those that the user can name."""
    monkeypatch.setitem(PROGRAMS, "standin", StandIn)
    tools = (*OFFICIAL_TOOLS, "standin")
    for module in ("evaluate", "evaluation_settings"):
        monkeypatch.setattr(
            f"swe_retry.report.evaluation.{module}.OFFICIAL_TOOLS", tools
        )


def patch(word: str) -> str:
    return f"diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-{word}\n+it\n"


def tasks(*kinds: str) -> list[Any]:
    tasks = []
    for kind in kinds:
        row = {**ROW, "instance_id": f"own__calc-{kind}"}
        task = official.task(row, patch(kind), kind, "")
        tasks.append(task)
    return tasks


def evaluate(
    folder: Path,
    *kinds: str,
    **changes: Any,
) -> tuple[dict[str, Verdict], list[str]]:
    lines: list[str] = []
    tool = official.evaluator("standin", folder, lines.append, **changes)
    verdicts = official.evaluated(tool, tasks(*kinds))
    return verdicts, lines


def test_each_prediction_has_a_verdict_or_a_reason(tmp_path: Path) -> None:
    verdicts, lines = evaluate(tmp_path, "RIGHT", "WRONG", "CRASH", "LOST")
    (folder,) = tmp_path.iterdir()
    log = folder / "console.log"
    assert official.statuses(verdicts) == {
        "RIGHT": "resolved",
        "WRONG": "unresolved",
        "CRASH": "not_evaluated",
        "LOST": "not_evaluated",
    }
    crash = f"standin: Error evaluating own__calc-CRASH: it crashed; see {log}"
    assert verdicts["CRASH"].reason == crash
    assert verdicts["LOST"].reason == f"standin left no result; see {log}"
    assert verdicts["LOST"].report is None
    right = verdicts["RIGHT"]
    assert right.report == {"RIGHT": {"resolved": True, "patch_exists": True}}
    assert right.tool.startswith("pytest ")
    assert not right.official
    assert lines[1:3] == [f"standin: working in {folder}", "standin: done"]
    assert b"10%\r20%\r\x1b[31mdone" in log.read_bytes()


def test_a_failure_is_the_reason_where_there_is_no_result(tmp_path: Path) -> None:
    verdicts, _ = evaluate(tmp_path, "RIGHT", "LOST+FAIL")
    assert verdicts["RIGHT"].status is VerdictStatus.RESOLVED
    assert verdicts["LOST+FAIL"].reason.startswith("standin failed: secret None /")


def test_a_tool_sees_no_secret_and_no_earlier_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLANTED_API_KEY", "sk-planted")
    verdicts, _ = evaluate(tmp_path, "RIGHT")
    assert verdicts["RIGHT"].conclusive
    verdicts, lines = evaluate(tmp_path, "RIGHT", "LOST")
    assert not verdicts["LOST"].conclusive
    assert len(list(tmp_path.iterdir())) == 2
    assert "sk-planted" not in "".join(lines)


@pytest.mark.long
def test_a_hanging_tool_is_ended_with_its_children(tmp_path: Path) -> None:
    verdicts, lines = evaluate(
        tmp_path,
        "RIGHT",
        "LOST+HANG",
        timeout=7.0,
        workers=2,
    )
    assert verdicts["RIGHT"].status is VerdictStatus.RESOLVED, "its result was there"
    reason = "standin was ended after 15 s; see "
    assert verdicts["LOST+HANG"].reason.startswith(reason)
    (child,) = [line for line in lines if line.startswith("standin: child")]
    process = child.split()[-1]
    argv = ["ps", "-o", "stat=", process]
    result = subprocess.run(argv, capture_output=True, check=False)
    state = result.stdout.strip()
    assert not state or state.startswith(b"Z")


@pytest.mark.long
@pytest.mark.docker
def test_a_container_of_a_hanging_tool_is_removed(tmp_path: Path) -> None:
    """It outlives the process that started it."""
    lines: list[str] = []
    tool = official.evaluator(
        "standin",
        tmp_path,
        lines.append,
        kind=ContainerStandIn,
        timeout=8.0,
    )
    row = {**ROW, "instance_id": "own__calc-hanging"}
    task = official.task(row, official.GOLD, "hanging", IMAGE)
    with official.image([IMAGE], "/calc"):
        (verdict,) = tool.evaluate([task], "run-1")
    assert verdict.reason.startswith("standin was ended after 17 s; see ")
    assert "\n".join(lines).count("removed what the evaluation left: container") == 1


@pytest.mark.parametrize(
    ("python", "problem"),
    [
        (
            sys.executable,
            "does not run multi-swe-bench: importlib.metadata.PackageNotFoundError",
        ),
        (
            "/no/python",
            "evaluation.python /no/python does not run multi-swe-bench: [Errno 2]",
        ),
        ("/bin/false", "does not run multi-swe-bench: no output"),
    ],
)
def test_what_is_missing_is_one_clear_line(
    python: str, problem: str, tmp_path: Path
) -> None:
    tool = official.evaluator("multi-swe-bench", tmp_path, python=python)
    with pytest.raises(UserError) as caught:
        tool.prepare([])
    message = str(caught.value)
    assert problem in message
    assert "\n" not in message


def test_rows_that_lack_something(tmp_path: Path) -> None:
    tool = official.evaluator("standin", tmp_path)
    row = {"instance_id": "own__calc-2"}
    bad = official.task(row, patch("RIGHT"), "bad", "")
    problems = tool.prepare([*tasks("RIGHT"), bad])
    assert problems == {"bad": "the row lacks repo, which standin needs"}
    with pytest.raises(UserError, match="instance bad: the row lacks repo"):
        tool.prepare([bad])


def test_official_verdicts_are_those_of_the_official_tools() -> None:
    assert PROGRAMS.keys() == {*OFFICIAL_TOOLS, "standin"}
    # As version 0.12 wrote it.
    for name in (*OFFICIAL_TOOLS, "modal", "local"):
        status = VerdictStatus.RESOLVED
        verdict = Verdict(instance_id="x", status=status, evaluator=name)
        assert verdict.final is (name != "local")


def test_a_tool_evaluates_a_run(tmp_path: Path, cache: Path) -> None:
    patches = {
        BANK: patch("RIGHT"),
        TEXTKIT: patch("WRONG"),
        UNITS: "",
    }
    store = make_run(tmp_path, patches)
    printed = report_run(store.folder, cache, "standin")
    assert printed.code == 0
    verdict = on_disk(store, BANK)
    assert verdict["status"] == "resolved"
    assert verdict["evaluator"] == "standin"
    assert verdict["official"] is False
    assert verdict["swebench"] == ""
    assert re.fullmatch(r"pytest [\d.]+", verdict["tool"])
    evaluation = read_json(store.run_file)["evaluation"]
    assert evaluation["evaluators"] == {f"standin, {verdict['tool']}": 2}
    printed = report_run(store.folder, cache, "standin")
    assert not printed.containing("evaluating"), "its own verdicts stand"
    assert not differs(store.folder)
    with pytest.raises(UserError, match="sb-cli, standin"):
        report_settings(cache, "nobody")


def test_of_a_progress_bar_the_end_is_shown() -> None:
    log = BytesIO()
    lines: list[str] = []
    output = ConsoleLog(log, lines.append)
    output.add(b"1%\r2%\r3")
    output.add(b"%\r\nend\n" + b"x" * 100_000)
    output.add(b"y")
    output.end()
    assert lines[:2] == ["3%", "end"]
    assert lines[2].startswith("xxx")
    assert len(lines) == 3
    short_lines = b"1%\r2%\r3%\r\nend\n"
    assert len(log.getvalue()) == len(short_lines) + 100_001
