"""What each tool writes and reads, on files of the documented form."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from swe_retry.core.errors import UserError
from swe_retry.report.evaluation.evaluator import EvaluationTask
from swe_retry.report.evaluation.program import OfficialEvaluator, ProgramFolder
from swe_retry.results.verdicts import OFFICIAL_TOOLS, Verdict
from tests.support import official, write_files
from tests.support.official import F2P, GOLD, P2P, TEST_PATCH

MULTI = "work/own/calc/evals/pr-7"
# A patch that occurs nowhere else: gold must not reach a tool.
SECRET_GOLD = GOLD.replace("calc", "secret_gold")
NO_ROW = {"instance_id": "own__calc-1"}
ROW: dict[str, Any] = {
    **NO_ROW,
    "repo": "own/calc",
    "base_commit": "0" * 40,
    "version": "1",
    "patch": SECRET_GOLD,
    "test_patch": TEST_PATCH,
    "org": "own",
    "FAIL_TO_PASS": json.dumps([F2P]),
    "PASS_TO_PASS": [P2P],
    "image_name": "own/calc",
    "number": 7,
    "base": {"sha": "0" * 40},
    "run_result": {"passed_count": 1},
    "test_patch_result": {"passed_count": 1},
    "p2p_tests": {P2P: {"run": "PASS"}, "other": None},
}


def task_of(row: Mapping[str, Any], name: str = "neutral-1") -> EvaluationTask:
    return official.task(row, GOLD, name, "")


class Tool:
    """A program with a task of its set, and its folders below ``tmp_path``."""

    def __init__(self, name: str, tmp_path: Path) -> None:
        self.program: OfficialEvaluator = official.evaluator(
            name,
            tmp_path,
            dataset="lite",
            python="python3",
        )
        row = ROW
        if name == "multi-swe-bench":
            row = {
                **ROW,
                "repo": "calc",
                "patch": "",
                "fix_patch": SECRET_GOLD,
            }
        self.task = task_of(row)
        self.folder = ProgramFolder(tmp_path / "in", tmp_path / "out", "run-1")
        self.folder.inputs.mkdir(parents=True)
        self.folder.outputs.mkdir()

    def read(self, files: Mapping[str, object]) -> Verdict | None:
        texts: dict[str, Any] = {}
        for path, content in files.items():
            if not isinstance(content, str):
                content = json.dumps(content)
            texts[path] = content
        write_files(self.folder.outputs, texts)
        return self.program.read(self.task, self.folder)

    def argv(self, task: EvaluationTask | None = None) -> list[str]:
        argv, *_ = self.program.commands([task or self.task], self.folder)
        return argv


ENDED = "log\n>>>>> Test Exit Code: 1\n"


def multi(
    kind: str,
    count: int = 1,
    message: str = "",
    log: str = ENDED,
) -> dict[str, Any]:
    report = {
        "valid": False,
        "error_msg": message,
        "fix_patch_result": {"passed_count": count},
    }
    return {
        f"{MULTI}/report.json": report,
        f"{MULTI}/fix-patch-run.log": log,
        "report/final_report.json": {f"{kind}_ids": ["own/calc:pr-7"]},
    }


def hosted_report(kind: str, suffix: str = "") -> dict[str, Any]:
    name = f"reports/swe-bench_lite__test__run-1{suffix}.json"
    return {name: {f"{kind}_ids": ["own__calc-1"]}}


@pytest.mark.parametrize(
    ("name", "files", "status", "reason"),
    [
        ("multi-swe-bench", multi("resolved"), "resolved", ""),
        (
            "multi-swe-bench",
            multi("unresolved", message="It fails. A brief summary"),
            "unresolved",
            "It fails",
        ),
        ("multi-swe-bench", multi("unresolved", 0), "not_evaluated", "no test result"),
        (
            "multi-swe-bench",
            multi("error"),
            "not_evaluated",
            "the report could not be made",
        ),
        # Container or tests were killed.
        (
            "multi-swe-bench",
            multi("unresolved", log="PASS: a\n"),
            "not_evaluated",
            "does not show that the tests ran",
        ),
        (
            "multi-swe-bench",
            multi("unresolved", log="PASS: a\n>>>>> Test Exit Code: 137\n"),
            "not_evaluated",
            "does not show that the tests ran",
        ),
        ("sb-cli", hosted_report("resolved"), "resolved", ""),
        ("sb-cli", hosted_report("unresolved"), "unresolved", ""),
        ("sb-cli", hosted_report("pending"), "not_evaluated", "under pending_ids"),
    ],
)
def test_a_result_is_read(
    name: str,
    files: dict[str, Any],
    status: str,
    reason: str,
    tmp_path: Path,
) -> None:
    verdict = Tool(name, tmp_path).read(files)
    assert verdict is not None
    assert verdict.status.value == status
    assert reason in verdict.reason
    assert bool(reason) is bool(verdict.reason)


@pytest.mark.parametrize(
    ("name", "files"),
    [
        ("multi-swe-bench", {}),
        ("sb-cli", hosted_report("resolved", "-1")),
    ],
)
def test_no_result_of_this_run_is_none(
    name: str, files: dict[str, Any], tmp_path: Path
) -> None:
    assert Tool(name, tmp_path).read(files) is None


@pytest.mark.parametrize("name", OFFICIAL_TOOLS)
def test_a_tool_gets_a_prediction_for_each_row_and_no_gold_patch(
    name: str, tmp_path: Path
) -> None:
    tool = Tool(name, tmp_path)
    assert tool.program.incomplete_rows([tool.task]) == {}
    ((only,),) = tool.program.groups([tool.task])
    assert only is tool.task
    argv = tool.argv()
    files = filter(Path.is_file, tool.folder.inputs.iterdir())
    text = "".join(path.read_text() for path in files)
    assert "return a + b" in text
    assert "secret_gold" not in text
    assert all(isinstance(word, str) for word in argv)
    stem = str(tool.folder.inputs / "predictions")
    assert not {f"{stem}.json", f"{stem}.jsonl"}.isdisjoint(argv)
    assert "neutral-1" not in text
    assert "neutral-1" not in argv


@pytest.mark.parametrize(
    "name",
    sorted({*OFFICIAL_TOOLS} - {"sb-cli"}),
)
def test_a_row_of_another_set_is_refused(name: str, tmp_path: Path) -> None:
    program = Tool(name, tmp_path).program
    problem = f"instance neutral-1: the row lacks .*, which {name} needs"
    with pytest.raises(UserError, match=problem):
        program.incomplete_rows([task_of(NO_ROW)])


@pytest.mark.parametrize("name", ["../../x", "a/b", "-x y"])
def test_an_id_that_is_no_folder_is_refused(name: str, tmp_path: Path) -> None:
    task = task_of({**ROW, "instance_id": name})
    with pytest.raises(UserError, match="an id holds only"):
        Tool("sb-cli", tmp_path).argv(task)
    program = Tool("multi-swe-bench", tmp_path / "m").program
    task = task_of({**ROW, "org": name})
    with pytest.raises(UserError, match="do not name a pull request"):
        program.groups([task])


def test_pull_requests_of_several_repositories_are_evaluated_apart(
    tmp_path: Path,
) -> None:
    tasks = []
    for repo, number in (("a", 1), ("b", 1), ("a", 2)):
        row = {**ROW, "repo": repo, "number": number}
        tasks.append(task_of(row, f"{repo}-{number}"))
    program = Tool("multi-swe-bench", tmp_path).program
    names = []
    for group in program.groups(tasks):
        names.append([task.instance.instance_id for task in group])
    assert names == [["a-1", "a-2"], ["b-1"]]


def test_ids_are_those_that_the_tool_prints(tmp_path: Path) -> None:
    expected = {"sb-cli": "own__calc-1", "multi-swe-bench": "own/calc:pr-7"}
    for name, identifier in expected.items():
        tool = Tool(name, tmp_path / name)
        assert tool.program.identifier(tool.task) == identifier


def test_the_service_knows_patches_again(tmp_path: Path) -> None:
    argv = Tool("sb-cli", tmp_path).argv()
    assert "--run_id run-1" in " ".join(argv)


def test_the_deciding_tests_are_listed_as_in_swebenchs_report(tmp_path: Path) -> None:
    result = {"passed_count": 1, "passed_tests": [P2P]}
    files = multi("unresolved")
    files[f"{MULTI}/report.json"] = {"fix_patch_result": result}
    verdict = Tool("multi-swe-bench", tmp_path).read(files)
    assert verdict is not None
    assert verdict.status.value == "unresolved"
    assert verdict.report is not None
    assert verdict.report["neutral-1"]["tests_status"] == {
        "FAIL_TO_PASS": {"success": [], "failure": [F2P]},
        "PASS_TO_PASS": {"success": [P2P], "failure": []},
    }


def test_the_log_of_multi_swe_bench_says_how_its_tests_ended(tmp_path: Path) -> None:
    """The container runs the command that the program is told to."""
    argv = Tool("multi-swe-bench", tmp_path).argv()
    command = argv[argv.index("--fix_patch_run_cmd") + 1]
    script = tmp_path / "fix-run.sh"
    script.write_text("printf 'PASS: a'; exit 5")
    command = command.replace("/home/fix-run.sh", str(script))
    argv = shlex.split(command)
    result = subprocess.run(argv, capture_output=True, check=True)
    assert result.stdout == b"PASS: a\n>>>>> Test Exit Code: 5\n"
