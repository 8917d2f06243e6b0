"""What each tool writes and reads, on files of the documented form."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from core.errors import UserError
from reports.data.verdicts import OFFICIAL_TOOLS, Verdict
from reports.evaluation.evaluator import EvaluationTask
from reports.evaluation.official import OfficialEvaluator, ProgramFolder
from tests.support import official
from tests.support.official import F2P, GOLD, P2P, TEST_PATCH

MULTI = "work/own/calc/evals/pr-7"


def multi(
    kind: str,
    count: int = 1,
    message: str = "",
) -> dict[str, Any]:
    report = {
        "valid": False,
        "error_msg": message,
        "fix_patch_result": {"passed_count": count},
    }
    return {
        f"{MULTI}/report.json": report,
        f"{MULTI}/fix-patch-run.log": "log",
        "report/final_report.json": {f"{kind}_ids": ["own/calc:pr-7"]},
    }


CASES: list[tuple[str, dict[str, Any], str, str]] = [
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
    ("multi-swe-bench", {}, "", ""),
    (
        "sb-cli",
        {"reports/swe-bench_lite__test__run-1.json": {"resolved_ids": ["own__calc-1"]}},
        "resolved",
        "",
    ),
    (
        "sb-cli",
        {
            "reports/swe-bench_lite__test__run-1.json": {
                "unresolved_ids": ["own__calc-1"]
            }
        },
        "unresolved",
        "",
    ),
    (
        "sb-cli",
        {"reports/swe-bench_lite__test__run-1.json": {"pending_ids": ["own__calc-1"]}},
        "not_evaluated",
        "under pending_ids",
    ),
    (
        "sb-cli",
        {
            "reports/swe-bench_lite__test__run-1-1.json": {
                "resolved_ids": ["own__calc-1"]
            }
        },
        "",
        "",
    ),
]


# A patch that occurs nowhere else: gold must not reach a tool.
SECRET_GOLD = GOLD.replace("calc", "secret_gold")
ROW: dict[str, Any] = {
    "instance_id": "own__calc-1",
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


def row_of(name: str) -> dict[str, Any]:
    """Return a row with the keys of a set."""
    if name == "multi-swe-bench":
        return {**ROW, "repo": "calc", "patch": "", "fix_patch": SECRET_GOLD}
    return ROW


def made(
    name: str, tmp_path: Path
) -> tuple[OfficialEvaluator, EvaluationTask, ProgramFolder]:
    folder = ProgramFolder(tmp_path / "in", tmp_path / "out", "run-1")
    folder.inputs.mkdir(parents=True)
    folder.outputs.mkdir()
    return (
        official.evaluator(name, tmp_path, dataset="lite", python="python3"),
        official.task(row_of(name), GOLD, "neutral-1", ""),
        folder,
    )


def read(
    name: str,
    tmp_path: Path,
    files: Mapping[str, object],
) -> Verdict | None:
    tool, task, folder = made(name, tmp_path)
    for path, content in files.items():
        place = folder.outputs / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(content if isinstance(content, str) else json.dumps(content))
    return tool.read(task, folder)


@pytest.mark.parametrize(("name", "files", "status", "reason"), CASES)
def test_a_result_is_read(
    name: str,
    files: dict[str, Any],
    status: str,
    reason: str,
    tmp_path: Path,
) -> None:
    outcome = read(name, tmp_path, files)
    assert (outcome.status.value if outcome else "") == status
    assert reason in (outcome.reason if outcome else "")
    if outcome and not reason:
        assert not outcome.reason


@pytest.mark.parametrize("name", OFFICIAL_TOOLS)
def test_a_tool_gets_a_prediction_for_each_row_and_no_gold_patch(
    name: str, tmp_path: Path
) -> None:
    tool, task, folder = made(name, tmp_path)
    assert tool.incomplete_rows([task]) == {}
    ((only,),) = tool.groups([task])
    assert only is task
    (words, *_) = tool.commands([task], folder)
    files = [path for path in folder.inputs.iterdir() if path.is_file()]
    text = "".join(path.read_text() for path in files)
    assert "return a + b" in text and "secret_gold" not in text
    assert all(isinstance(word, str) for word in words)
    assert {str(folder.inputs / f"predictions.{e}") for e in ("json", "jsonl")} & {
        *words
    }
    assert "neutral-1" not in text and "neutral-1" not in words


@pytest.mark.parametrize("name", sorted({*OFFICIAL_TOOLS} - {"sb-cli"}))
def test_a_row_of_another_set_is_refused(name: str, tmp_path: Path) -> None:
    tool, _, _ = made(name, tmp_path)
    task = official.task({"instance_id": "own__calc-1"}, GOLD, "neutral-1", "")
    with pytest.raises(
        UserError, match=f"instance neutral-1: the row lacks .*, which {name} needs"
    ):
        tool.incomplete_rows([task])


@pytest.mark.parametrize("name", ["../../x", "a/b", "-x y"])
def test_an_id_that_is_no_folder_is_refused(name: str, tmp_path: Path) -> None:
    tool, _, folder = made("sb-cli", tmp_path)
    task = official.task({**ROW, "instance_id": name}, GOLD, "neutral-1", "")
    with pytest.raises(UserError, match="an id holds only"):
        tool.commands([task], folder)
    multi_task = official.task({**ROW, "org": name}, GOLD, "neutral-1", "")
    with pytest.raises(UserError, match="do not name a pull request"):
        made("multi-swe-bench", tmp_path / "m")[0].groups([multi_task])


def test_pull_requests_of_several_repositories_are_evaluated_apart(
    tmp_path: Path,
) -> None:
    tool, _, _ = made("multi-swe-bench", tmp_path)
    tasks = []
    for repo, number in (("a", 1), ("b", 1), ("a", 2)):
        tasks.append(
            official.task(
                {**ROW, "repo": repo, "number": number}, GOLD, f"{repo}-{number}", ""
            )
        )
    names = []
    for group in tool.groups(tasks):
        names.append([task.instance.instance_id for task in group])
    assert names == [["a-1", "a-2"], ["b-1"]]


def test_ids_are_those_that_the_tool_prints(tmp_path: Path) -> None:
    expected = {"sb-cli": "own__calc-1", "multi-swe-bench": "own/calc:pr-7"}
    for name, words in expected.items():
        tool, task, _ = made(name, tmp_path / name)
        assert tool.identifier(task) == words


def test_the_service_knows_patches_again(tmp_path: Path) -> None:
    tool, task, folder = made("sb-cli", tmp_path)
    ((*words,),) = tool.commands([task], folder)
    assert words[words.index("--run_id") + 1] == "run-1"


def test_the_deciding_tests_are_told_as_in_swebenchs_report(tmp_path: Path) -> None:
    files = {
        f"{MULTI}/report.json": {
            "fix_patch_result": {"passed_count": 1, "passed_tests": [P2P]}
        },
        "report/final_report.json": {"unresolved_ids": ["own/calc:pr-7"]},
    }
    outcome = read("multi-swe-bench", tmp_path, files)
    assert outcome is not None and outcome.status.value == "unresolved"
    assert outcome.report is not None
    details = outcome.report["neutral-1"]
    assert {"tests_status": details["tests_status"]} == {
        "tests_status": {
            "FAIL_TO_PASS": {"success": [], "failure": [F2P]},
            "PASS_TO_PASS": {"success": [P2P], "failure": []},
        }
    }
