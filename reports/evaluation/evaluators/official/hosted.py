"""swebench's own service through ``sb-cli``, for Lite, Verified and Multimodal."""

from __future__ import annotations

import os
from collections.abc import Mapping

from core.errors import UserError
from reports.data.jsonvalues import texts
from reports.evaluation.evaluators.base import EvaluationTask, VerdictStatus
from reports.evaluation.evaluators.official.tool import (
    EvaluationFolder,
    OfficialTool,
    Tasks,
    ToolResult,
    read_result,
    resolved_if,
    row_id,
    write_json,
)

_KEY = "SWEBENCH_API_KEY"
_REPORTS = "reports"
# The service's names of data sets, by the end of the hub's.
_SUBSETS = {
    "SWE-bench_Lite": "swe-bench_lite",
    "SWE-bench_Verified": "swe-bench_verified",
    "SWE-bench_Multimodal": "swe-bench-m",
}


class HostedTool(OfficialTool):
    """Sends predictions to the service and waits; what was sent cannot be changed."""

    name = "sb-cli"
    repository = "SWE-bench/sb-cli"
    entry = "sb_cli/__init__.py"
    package = "sb-cli"
    modules = ("sb_cli", "requests", "typer")
    # sb-cli waits up to five minutes for the start and thirty for the end.
    allowance = 3600.0
    uses_engine = False

    def check(self) -> str:
        if not os.environ.get(_KEY):
            raise UserError(f"--evaluator sb-cli needs a key: set {_KEY} (sb-cli gen-api-key)")
        self._subset()
        return super().check()

    def _subset(self) -> str:
        name = self.settings.dataset.rpartition("/")[2]
        if name not in _SUBSETS:
            raise UserError(
                f"--evaluator sb-cli does not know the dataset {self.settings.dataset}; it "
                "evaluates lite, verified and multimodal"
            )
        return _SUBSETS[name]

    def environment(self) -> Mapping[str, str]:
        address = {k: v for k, v in os.environ.items() if k == "SWEBENCH_API_URL"}
        return {**super().environment(), **address, _KEY: os.environ[_KEY]}

    def write(self, tasks: Tasks, folder: EvaluationFolder) -> None:
        predictions = [
            {
                "instance_id": row_id(task),
                "model_name_or_path": task.prediction.model_name_or_path,
                "model_patch": task.prediction.patch,
            }
            for task in tasks
        ]
        write_json(folder.predictions(), predictions)

    def commands(self, tasks: Tasks, folder: EvaluationFolder) -> list[list[str]]:
        options = {
            "--predictions_path": folder.predictions(),
            # The same patches continue what was sent before.
            "--run_id": folder.patches_id,
            "--output_dir": folder.outputs / _REPORTS,
            "--overwrite": 1,
        }
        start = ["-c", "import sb_cli; sb_cli.main()", "submit"]
        return [self.command([*start, self._subset(), self.settings.split], options)]

    def read(self, task: EvaluationTask, folder: EvaluationFolder) -> ToolResult | None:
        file = f"{self._subset()}__{self.settings.split}__{folder.patches_id}.json"
        report = read_result(folder.outputs / _REPORTS / file)
        if report is None:
            return None
        name = row_id(task)
        for resolved, key in ((True, "resolved_ids"), (False, "unresolved_ids")):
            if name in texts(report.get(key)):
                return resolved_if(resolved, "")
        named = [key for key in report if key.endswith("_ids") and name in texts(report[key])]
        words = (
            f"the service lists it under {', '.join(named)}"
            if named
            else "the service lists it nowhere"
        )
        return ToolResult(VerdictStatus.NOT_EVALUATED, words)
