"""swebench's own service, for Lite, Verified and Multimodal."""

from __future__ import annotations

import json
import os

from swe_retry.core.errors import UserError
from swe_retry.report.evaluation.engine import command_line
from swe_retry.report.evaluation.evaluator import EvaluationTask, Tasks
from swe_retry.report.evaluation.program import (
    OfficialEvaluator,
    ProgramFolder,
    read_result,
)
from swe_retry.repositories.names import ALIASES
from swe_retry.results.jsonvalues import texts
from swe_retry.results.verdicts import Verdict
from swe_retry.runner.envfile import unread_file

_KEY = "SWEBENCH_API_KEY"
_ADDRESS = "SWEBENCH_API_URL"
# The service's names of data sets, by the end of the hub's.
_SUBSETS = {
    "SWE-bench_Lite": "swe-bench_lite",
    "SWE-bench_Verified": "swe-bench_verified",
    "SWE-bench_Multimodal": "swe-bench-m",
}


class SbCli(OfficialEvaluator):
    """swebench's own service, for Lite, Verified and Multimodal.

    A prediction that was sent cannot be changed.
    """

    package = "sb-cli"
    # sb-cli waits up to five minutes for the start and thirty for the end.
    allowance = 3600.0
    uses_engine = False

    def prepare(self, tasks: Tasks) -> dict[str, str]:
        if not os.environ.get(_KEY):
            raise UserError(
                f"--evaluator sb-cli needs a key: set {_KEY} (sb-cli gen-api-key){unread_file()}"
            )
        if not self._subset:
            raise UserError(
                f"--evaluator sb-cli does not know the dataset {self.dataset}; it "
                "evaluates lite, verified and multimodal"
            )
        return super().prepare(tasks)

    @property
    def _subset(self) -> str:
        hub_id = ALIASES.get(self.dataset, self.dataset)
        return _SUBSETS.get(hub_id.rpartition("/")[2], "")

    def variables(self) -> dict[str, str]:
        names = (_KEY, _ADDRESS)
        return {name: os.environ[name] for name in names if name in os.environ}

    def commands(self, tasks: Tasks, folder: ProgramFolder) -> list[list[str]]:
        # The service has the rows.
        predictions = [task.prediction.as_json(task.official_id) for task in tasks]
        predictions_file = folder.inputs / "predictions.json"
        predictions_file.write_text(json.dumps(predictions))
        start = [self.python, "-c", "import sb_cli; sb_cli.main()", "submit"]
        options = {
            "--predictions_path": predictions_file,
            # The same patches continue an earlier submission.
            "--run_id": folder.patches_id,
            "--output_dir": folder.outputs / "reports",
            "--overwrite": 1,
        }
        return [command_line([*start, self._subset, self.split], options)]

    def read(self, task: EvaluationTask, folder: ProgramFolder) -> Verdict | None:
        file = f"{self._subset}__{self.split}__{folder.patches_id}.json"
        report = read_result(folder.outputs / "reports" / file)
        if not report:
            return None
        lists = []
        for key, ids in report.items():
            if key.endswith("_ids") and task.official_id in texts(ids):
                lists.append(key)
        for key in ("resolved_ids", "unresolved_ids"):
            if key in lists:
                return self.result(task, key == "resolved_ids")
        place = f"under {', '.join(lists)}" if lists else "nowhere"
        return task.no_result(f"the service lists it {place}")
