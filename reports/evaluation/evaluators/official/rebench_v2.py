"""SWE-rebench V2: ``scripts/eval.py`` of SWE-rebench/SWE-rebench-V2.

It evaluates the gold patch of every row that has no prediction. Rows are written without it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from bench.repos.patches import patch_paths
from reports.data.jsonvalues import objects
from reports.evaluation.evaluators.base import EvaluationTask, VerdictStatus
from reports.evaluation.evaluators.official.tool import (
    EvaluationFolder,
    OfficialTool,
    Tasks,
    ToolResult,
    names_in,
    read_result,
    read_text,
    resolved_if,
    row_id,
    shows_results,
    tests_status,
    unclear,
    write_json,
)

_SCRIPT = "scripts/eval.py"
_REPORT = "rebench_v2.json"
# The exit code of `docker run` if no container could be started.
_NO_CONTAINER = 125
_UNAPPLIED = re.compile(r"^error: (?:patch failed: )?(.+?)(?::\d+$|: |$)", re.MULTILINE)
# The tool removes the durations that some runners print in the names of tests.
_DURATION = re.compile(
    r"\s*[\[(]\s*\d+(?:\.\d+)?\s*m?s\s*[\])]\s*$|\s+in\s+\d+(?:\.\d+)?\s+m?sec\b", re.IGNORECASE
)


class RebenchV2Tool(OfficialTool):
    """Evaluates SWE-rebench V2 on the local engine; its containers use the host's network."""

    name = "rebench-v2"
    repository = "SWE-rebench/SWE-rebench-V2"
    entry = _SCRIPT
    needed = ("repo", "test_patch", "install_config", "image_name", "FAIL_TO_PASS")

    def write(self, tasks: Tasks, folder: EvaluationFolder) -> None:
        rows = []
        for task in tasks:
            row = task.evaluation.row
            lists = {key: names_in(row.get(key)) for key in ("FAIL_TO_PASS", "PASS_TO_PASS")}
            rows.append({**row, "patch": "", **lists})
        write_json(folder.rows(), rows)
        patches = [{"instance_id": row_id(t), "patch": t.prediction.patch} for t in tasks]
        write_json(folder.predictions(), patches)

    def commands(self, tasks: Tasks, folder: EvaluationFolder) -> list[list[str]]:
        options = {
            "--json": folder.rows(),
            "--patches": folder.predictions(),
            "--instance-ids": ",".join(map(row_id, tasks)),
            "--max-workers": self.workers(tasks),
            "--report-json": folder.outputs / _REPORT,
        }
        return [self.command([self.checkout / _SCRIPT], options)]

    def read(self, task: EvaluationTask, folder: EvaluationFolder) -> ToolResult | None:
        # ``passed_match`` also demands that no other test passed, so it is not used.
        name = row_id(task)
        report = read_result(folder.outputs / _REPORT) or {}
        item = next((i for i in objects(report.get("items")) if i.get("instance_id") == name), None)
        if item is None:
            return None
        log = read_text(folder.outputs / "logs" / f"{name}_log.txt")
        if item.get("error") or item.get("exit_code") == _NO_CONTAINER:
            words = item.get("error") or log.strip().partition("\n")[0]
            return ToolResult(VerdictStatus.NOT_EVALUATED, f"{self.name}: {words}"[:300], log)
        wanted = _names(names_in(task.evaluation.row.get("FAIL_TO_PASS")))
        passed = _names(names_in(item.get("from_fail_to_pass")))
        failed = _names(names_in(item.get("failed_from_pass_to_pass")))
        # The row's names have durations, those of the tool have none.
        row = task.evaluation
        own = {n for n in row.fail_to_pass if _names([n]) <= passed}
        own |= {n for n in row.pass_to_pass if not _names([n]) <= failed}
        details = tests_status(task, own)
        if wanted <= passed and not failed:
            return resolved_if(True, log, details)
        if shows_results(log):
            return resolved_if(False, log, details)
        unapplied = {match[1] for match in _UNAPPLIED.finditer(log)}
        if unapplied & {*patch_paths(task.prediction.patch)}:
            return ToolResult(VerdictStatus.UNRESOLVED, "the patch does not apply", log, details)
        return unclear(log)


def _names(names: Iterable[str]) -> set[str]:
    return {_DURATION.sub("", name).strip() for name in names}
