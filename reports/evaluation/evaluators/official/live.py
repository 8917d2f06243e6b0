"""SWE-bench Live: ``evaluation.evaluation`` of microsoft/SWE-bench-Live, with its submodule.

The tool runs the Python source in a row's ``log_parser`` in its own process on this machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from core.errors import UserError
from reports.evaluation.evaluators.base import REPORT_FILE, EvaluationTask, VerdictStatus
from reports.evaluation.evaluators.official.tool import (
    EvaluationFolder,
    OfficialTool,
    Tasks,
    ToolResult,
    names_in,
    read_result,
    read_text,
    resolved_if,
    revision,
    row_id,
    tests_status,
    unclear,
    write_json,
    write_lines,
)

_RESULTS = "results"
_LISTS = ("FAIL_TO_PASS", "PASS_TO_PASS", "rebuild_cmds", "test_cmds", "print_cmds")
_GOLD = ("patch", "hints_text", "all_hints_text")
# Its runtime removes all dangling images of the engine after each instance, also those of others.
_PROGRAM = """\
import os, runpy, sys
sys.path[:0] = [os.path.join(os.getcwd(), "launch"), os.getcwd()]
from launch.core.platforms.base import BaseRuntime
BaseRuntime.cleanup.__defaults__ = (False,)
runpy.run_module("evaluation.evaluation", run_name="__main__", alter_sys=True)
"""


class LiveTool(OfficialTool):
    """Evaluates the sets of SWE-bench Live on Linux, on the local engine."""

    name = "live"
    repository = "microsoft/SWE-bench-Live"
    entry = "evaluation/evaluation.py"
    modules = ("datasets", "docker")
    needed = ("test_patch", "test_cmds", "log_parser", "FAIL_TO_PASS")
    links = ("evaluation", "launch")

    def check(self) -> str:
        version = super().check()
        launch = self.checkout / "launch"
        if not (launch / "launch").is_dir():
            raise UserError(
                f"{launch} is empty; run: git -C {self.checkout} submodule update --init launch"
            )
        return f"{version}; launch {revision(launch)}"

    def write(self, tasks: Tasks, folder: EvaluationFolder) -> None:
        write_lines(folder.rows("jsonl"), [_row(task) for task in tasks])
        predictions = {row_id(task): {"model_patch": task.prediction.patch} for task in tasks}
        write_json(folder.predictions(), predictions)

    def commands(self, tasks: Tasks, folder: EvaluationFolder) -> list[list[str]]:
        options = {
            "--dataset": folder.rows("jsonl"),
            "--patch_dir": folder.predictions(),
            "--platform": "linux",
            "--workers": self.workers(tasks),
            "--overwrite": 1,
            "--output_dir": folder.outputs / _RESULTS,
            "--instance_ids": [row_id(task) for task in tasks],
        }
        return [self.command(["-c", _PROGRAM], options)]

    def read(self, task: EvaluationTask, folder: EvaluationFolder) -> ToolResult | None:
        # The report of all is written at the end only.
        own = folder.outputs / _RESULTS / row_id(task)
        report, log = read_result(own / REPORT_FILE), read_text(own / "post_patch_log.txt")
        if report is None:
            return None
        results = read_result(own / "status.json") or {}
        passed = {name for name, status in results.items() if "pass" in str(status).lower()}
        outcome = resolved_if(report.get("resolved") is True, log, tests_status(task, passed))
        if outcome.status is VerdictStatus.UNRESOLVED and not results:
            return unclear(log)
        return outcome


def _row(task: EvaluationTask) -> Mapping[str, Any]:
    row = {key: value for key, value in task.evaluation.row.items() if key not in _GOLD}
    # An empty list of commands is left out: the Python set has no such column.
    lists = {key: names for key in _LISTS if (names := names_in(row.get(key)))}
    kept = {key: value for key, value in row.items() if key not in _LISTS and value is not None}
    return {"PASS_TO_PASS": [], **kept, **lists, "instance_id": row_id(task)}
