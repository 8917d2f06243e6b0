"""SWE-smith: ``swesmith.harness.eval`` of the package ``swesmith``.

It fetches the branch with the bug from GitHub in the container, so it needs a network.
"""

from __future__ import annotations

import re

from reports.evaluation.evaluators.base import (
    OUTPUT_FILE,
    REPORT_FILE,
    RUN_LOG,
    EvaluationTask,
    VerdictStatus,
)
from reports.evaluation.evaluators.official.tool import (
    MODEL,
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
    unclear,
    write_json,
)
from reports.evaluation.evaluators.swebench import patch_fault

_REASON = re.compile(r"(?:FAILED|Error validating [^:]*): ?(.+)")


class SmithTool(OfficialTool):
    """Evaluates SWE-smith; ``--evaluator-dir`` may name a checkout in place of the package."""

    name = "smith"
    repository = "SWE-bench/SWE-smith"
    entry = "swesmith/harness/eval.py"
    package = "swesmith"
    modules = ("swesmith", "swebench", "datasets", "docker", "dotenv", "ghapi", "unidiff")
    needed = ("repo", "FAIL_TO_PASS")
    # It derives the names of images itself, and they have changed since the set was published.
    names_images = True

    def write(self, tasks: Tasks, folder: EvaluationFolder) -> None:
        rows = [
            {
                **task.evaluation.row,
                "FAIL_TO_PASS": names_in(task.evaluation.row.get("FAIL_TO_PASS")),
                "PASS_TO_PASS": names_in(task.evaluation.row.get("PASS_TO_PASS")),
                "instance_id": row_id(task),
            }
            for task in tasks
        ]
        write_json(folder.rows(), rows)
        predictions = {
            row_id(task): {
                "instance_id": row_id(task),
                "model_name_or_path": MODEL,
                "model_patch": task.prediction.patch,
            }
            for task in tasks
        }
        write_json(folder.predictions(), predictions)

    def commands(self, tasks: Tasks, folder: EvaluationFolder) -> list[list[str]]:
        options = {
            "--dataset_path": folder.rows(),
            "--predictions_path": folder.predictions(),
            "--run_id": folder.run_id,
            "--workers": self.workers(tasks),
            "--redo_existing": None,
            "--instance_ids": [row_id(task) for task in tasks],
        }
        return [self.command(["-m", "swesmith.harness.eval"], options)]

    def read(self, task: EvaluationTask, folder: EvaluationFolder) -> ToolResult | None:
        own = folder.outputs / "logs" / "run_evaluation" / folder.run_id / row_id(task)
        report, output = read_result(own / REPORT_FILE), read_text(own / OUTPUT_FILE)
        if report is None:
            if fault := patch_fault(own):
                return ToolResult(VerdictStatus.UNRESOLVED, fault, output)
            found = _REASON.findall(read_text(own / RUN_LOG))
            return (
                ToolResult(VerdictStatus.NOT_EVALUATED, f"{self.name}: {found[-1]}"[:300])
                if found
                else None
            )
        if report.get("timed_out"):
            words = f"the tests did not end within {report.get('timeout')} s"
            return ToolResult(VerdictStatus.UNRESOLVED, words, output, report)
        if "tests_status" in report and shows_results(output):
            return resolved_if(report.get("resolved") is True, output, report)
        return unclear(output)
