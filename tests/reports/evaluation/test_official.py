"""How official tools are found, started, shown, ended and recorded."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from core.errors import UserError
from reports.data.verdicts import OFFICIAL_TOOLS, Verdict, VerdictStatus
from reports.evaluation.evaluator import EvaluationTask, Tasks
from reports.evaluation.official import (
    PROGRAMS,
    ConsoleLog,
    OfficialEvaluator,
    ProgramFolder,
    read_result,
)
from reports.report import report_command
from reports.verify import verify_command
from tests.support import official
from tests.support.evaluated import (
    BANK,
    TEXTKIT,
    UNITS,
    make_run,
    on_disk,
    report_settings,
)

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


class StandIn(OfficialEvaluator):
    """Runs ``PROGRAM``."""

    package = "pytest"
    columns = ("repo",)
    uses_engine = False
    allowance = 1.0

    def commands(self, tasks: Tasks, folder: ProgramFolder) -> list[list[str]]:
        patches = {task.official_id: task.prediction.patch for task in tasks}
        file = folder.inputs / "predictions.json"
        file.write_text(json.dumps(patches))
        return [[sys.executable, "-c", PROGRAM, str(file)]]

    def read(self, task: EvaluationTask, folder: ProgramFolder) -> Verdict | None:
        resolved = read_result(folder.outputs / "results.json").get(task.official_id)
        if not isinstance(resolved, bool):
            return None
        return self.result(task, resolved, "the log")


@pytest.fixture(autouse=True)
def program(monkeypatch: pytest.MonkeyPatch) -> None:
    """Add the program to those that the user can name."""
    monkeypatch.setitem(PROGRAMS, "standin", StandIn)
    tools = (*OFFICIAL_TOOLS, "standin")
    for module in ("requested", "settings"):
        monkeypatch.setattr(f"reports.evaluation.{module}.OFFICIAL_TOOLS", tools)


IMAGE = "own/calc:hanging"


class ContainerStandIn(StandIn):
    """Starts a container with its folder mounted, and waits for it without a limit."""

    uses_engine = True

    def commands(self, tasks: Tasks, folder: ProgramFolder) -> list[list[str]]:
        mount = f"{folder.outputs}:/outputs"
        return [["docker", "run", "--rm", "--volume", mount, IMAGE, "sleep", "600"]]


ROW = {"repo": "own/calc"}


def patch(word: str) -> str:
    return f"diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-{word}\n+it\n"


def tasks(*words: str) -> list[Any]:
    return [
        official.task({**ROW, "instance_id": f"own__calc-{w}"}, patch(w), w, "")
        for w in words
    ]


def evaluate(
    place: Path, *words: str, **changes: Any
) -> tuple[dict[str, Verdict], list[str]]:
    said: list[str] = []
    made = official.evaluator("standin", place, said.append, **changes)
    assert made.prepare(tasks(*words)) == {}
    return {v.instance_id: v for v in made.evaluate(tasks(*words), "run-1")}, said


def test_each_prediction_has_a_verdict_or_a_reason(tmp_path: Path) -> None:
    found, said = evaluate(tmp_path, "RIGHT", "WRONG", "CRASH", "LOST")
    (folder,) = tmp_path.iterdir()
    log = folder / "console.log"
    assert official.statuses(found) == {
        "RIGHT": "resolved",
        "WRONG": "unresolved",
        "CRASH": "not_evaluated",
        "LOST": "not_evaluated",
    }
    assert found["CRASH"].reason == (
        f"standin: Error evaluating own__calc-CRASH: it crashed; see {log}"
    )
    assert found["LOST"].reason == f"standin left no result; see {log}"
    assert found["LOST"].report is None
    assert found["RIGHT"].report == {"RIGHT": {"resolved": True, "patch_exists": True}}
    assert found["RIGHT"].tool.startswith("pytest ")
    assert not found["RIGHT"].official
    assert said[1:3] == [f"standin: working in {folder}", "standin: done"]
    assert b"10%\r20%\r\x1b[31mdone" in log.read_bytes()


def test_a_failure_is_the_reason_where_there_is_no_result(tmp_path: Path) -> None:
    found, _ = evaluate(tmp_path, "RIGHT", "LOST+FAIL")
    assert found["RIGHT"].status is VerdictStatus.RESOLVED
    assert found["LOST+FAIL"].reason.startswith("standin failed: secret None /")


def test_a_tool_sees_no_secret_and_no_earlier_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLANTED_API_KEY", "sk-planted")
    assert evaluate(tmp_path, "RIGHT")[0]["RIGHT"].conclusive
    found, said = evaluate(tmp_path, "RIGHT", "LOST")
    assert not found["LOST"].conclusive
    assert len([*tmp_path.iterdir()]) == 2
    assert not any("sk-planted" in line for line in said)


@pytest.mark.long
def test_a_hanging_tool_is_ended_with_its_children(tmp_path: Path) -> None:
    found, said = evaluate(tmp_path, "RIGHT", "LOST+HANG", timeout=7.0, workers=2)
    assert found["RIGHT"].status is VerdictStatus.RESOLVED, "its result was there"
    assert found["LOST+HANG"].reason.startswith("standin was ended after 15 s; see ")
    (child,) = [line.split()[-1] for line in said if line.startswith("standin: child")]
    state = subprocess.run(
        ["ps", "-o", "stat=", child], capture_output=True, check=False
    ).stdout
    assert not state.strip() or state.startswith(b"Z")


@pytest.mark.long
@pytest.mark.docker
def test_a_container_of_a_hanging_tool_is_removed(tmp_path: Path) -> None:
    """It outlives the process that started it."""
    said: list[str] = []
    made = official.evaluator(
        "standin", tmp_path, said.append, kind=ContainerStandIn, timeout=8.0
    )
    row = {**ROW, "instance_id": "own__calc-hanging"}
    with official.image([IMAGE], "/calc"):
        (verdict,) = made.evaluate(
            [official.task(row, official.GOLD, "hanging", IMAGE)], "run-1"
        )
    assert verdict.reason.startswith("standin was ended after 17 s; see ")
    assert (
        sum(
            line.startswith("removed what the evaluation left: container")
            for line in said
        )
        == 1
    )


@pytest.mark.parametrize(
    ("name", "python", "words"),
    [
        (
            "multi-swe-bench",
            sys.executable,
            "does not run multi-swe-bench: importlib.metadata.PackageNotFoundError",
        ),
        (
            "multi-swe-bench",
            "/no/python",
            "evaluation.python /no/python does not run multi-swe-bench: [Errno 2]",
        ),
        ("multi-swe-bench", "/bin/false", "does not run multi-swe-bench: no output"),
    ],
)
def test_what_is_missing_is_one_clear_line(
    name: str, python: str, words: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError) as caught:
        official.evaluator(name, tmp_path, python=python).prepare([])
    assert words in str(caught.value) and "\n" not in str(caught.value)


def test_rows_that_lack_something(tmp_path: Path) -> None:
    made = official.evaluator("standin", tmp_path)
    bad = official.task({"instance_id": "own__calc-2"}, patch("RIGHT"), "bad", "")
    assert made.prepare([*tasks("RIGHT"), bad]) == {
        "bad": "the row lacks repo, which standin needs"
    }
    with pytest.raises(UserError, match="instance bad: the row lacks repo"):
        made.prepare([bad])


def test_official_verdicts_are_those_of_the_official_tools() -> None:
    assert PROGRAMS.keys() == {*OFFICIAL_TOOLS, "standin"}
    for name in OFFICIAL_TOOLS:
        assert Verdict(
            instance_id="x", status=VerdictStatus.RESOLVED, evaluator=name
        ).final
    assert Verdict(
        instance_id="x", status=VerdictStatus.RESOLVED, evaluator="modal"
    ).final, "as version 0.12 wrote it"
    assert not Verdict(
        instance_id="x", status=VerdictStatus.RESOLVED, evaluator="local"
    ).final


def test_a_tool_evaluates_a_run(tmp_path: Path, cache: Path) -> None:
    store = make_run(
        tmp_path, {BANK: patch("RIGHT"), TEXTKIT: patch("WRONG"), UNITS: ""}
    )
    said: list[str] = []
    chosen = report_settings(cache, "standin", page=False)
    assert report_command([store.folder], chosen, said.append) == 0
    verdict = on_disk(store, BANK)
    assert (verdict["status"], verdict["evaluator"]) == ("resolved", "standin")
    assert (verdict["official"], verdict["swebench"]) == (False, "")
    assert re.fullmatch(r"pytest [\d.]+", verdict["tool"])
    evaluators = json.loads((store.folder / "run.json").read_text())["evaluation"][
        "evaluators"
    ]
    assert evaluators == {f"standin, {verdict['tool']}": 2}
    said.clear()
    report_command([store.folder], chosen, said.append)
    assert not any("evaluating" in line for line in said), "its own verdicts stand"
    assert verify_command([store.folder], said.append) == 0
    with pytest.raises(UserError, match="sb-cli, standin"):
        report_settings(cache, "nobody")


def test_of_a_progress_bar_the_end_is_shown() -> None:
    log = BytesIO()
    shown = list[str]()
    output = ConsoleLog(log, shown.append)
    output.add(b"1%\r2%\r3")
    output.add(b"%\r\nend\n" + b"x" * 100_000)
    output.add(b"y")
    output.end()
    assert shown[:2] == ["3%", "end"]
    assert shown[2].startswith("xxx") and len(shown) == 3
    assert len(log.getvalue()) == len(b"1%\r2%\r3%\r\nend\n") + 100_001
