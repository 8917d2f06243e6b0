"""SWE-rebench V2: ``scripts/eval.py`` of SWE-rebench/SWE-rebench-V2.

It evaluates the gold patch of every row that has no prediction. Rows are written without it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from bench.repos.patches import patch_paths
from reports.evaluation.evaluators.base import EvaluationTask, VerdictStatus
from reports.evaluation.evaluators.official.program import (
    ToolBase,
    predictions_file,
    rows_file,
    workers_of,
)
from reports.evaluation.evaluators.official.tool import (
    EvaluationFolder,
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


class RebenchV2Tool(ToolBase):
    """Evaluates SWE-rebench V2 on the local engine; its containers use the host's network."""

    name = "rebench-v2"
    repository = "SWE-rebench/SWE-rebench-V2"
    entry = _SCRIPT
    needed = ("repo", "test_patch", "install_config", "image_name", "FAIL_TO_PASS")

    def write(self, tasks: Sequence[EvaluationTask], folder: EvaluationFolder) -> None:
        """Write rows without a gold patch, and a patch for each of them."""
        rows = [{**task.evaluation.row, "patch": "", **_lists(task)} for task in tasks]
        write_json(rows_file(folder), rows)
        patches = [{"instance_id": row_id(t), "patch": t.prediction.patch} for t in tasks]
        write_json(predictions_file(folder), patches)

    def commands(
        self, tasks: Sequence[EvaluationTask], folder: EvaluationFolder
    ) -> Sequence[Sequence[str]]:
        """Return the one command."""
        options = {
            "--json": rows_file(folder),
            "--patches": predictions_file(folder),
            "--instance-ids": ",".join(map(row_id, tasks)),
            "--max-workers": workers_of(self.settings, tasks),
            "--report-json": folder.outputs / _REPORT,
        }
        return [self.command([self.checkout / _SCRIPT], options)]

    def read(self, task: EvaluationTask, folder: EvaluationFolder) -> ToolResult | None:
        """Return whether all wanted tests passed.

        ``passed_match`` also demands that no other test passed, so it is not used.
        """
        item = _item(read_result(folder.outputs / _REPORT) or {}, row_id(task))
        if item is None:
            return None
        log = read_text(folder.outputs / "logs" / f"{row_id(task)}_log.txt")
        if item.get("error") or item.get("exit_code") == _NO_CONTAINER:
            words = item.get("error") or log.strip().partition("\n")[0]
            return ToolResult(VerdictStatus.NOT_EVALUATED, f"{self.name}: {words}"[:300], log)
        wanted = _names(names_in(task.evaluation.row.get("FAIL_TO_PASS")))
        passed = _names(names_in(item.get("from_fail_to_pass")))
        failed = _names(names_in(item.get("failed_from_pass_to_pass")))
        details = tests_status(task, _passed(task, passed, failed))
        if wanted <= passed and not failed:
            return resolved_if(True, log, details)
        return _failed(task, details, log)


def _passed(task: EvaluationTask, passed: set[str], failed: set[str]) -> set[str]:
    """Return the row's names of the tests that passed; the tool has them without durations."""
    row = task.evaluation
    return {n for n in row.fail_to_pass if _names([n]) <= passed} | {
        n for n in row.pass_to_pass if not _names([n]) <= failed
    }


def _failed(task: EvaluationTask, details: Mapping[str, object], log: str) -> ToolResult:
    if shows_results(log):
        return resolved_if(False, log, details)
    unapplied = {match[1] for match in _UNAPPLIED.finditer(log)}
    if unapplied & {*patch_paths(task.prediction.patch)}:
        return ToolResult(VerdictStatus.UNRESOLVED, "the patch does not apply", log, details)
    return unclear(log)


def _item(report: Mapping[str, object], name: str) -> Mapping[str, object] | None:
    items = report.get("items")
    for item in items if isinstance(items, list) else ():
        if isinstance(item, dict) and item.get("instance_id") == name:
            return item
    return None


def _lists(task: EvaluationTask) -> dict[str, list[str]]:
    row = task.evaluation.row
    return {key: names_in(row.get(key)) for key in ("FAIL_TO_PASS", "PASS_TO_PASS")}


def _names(names: Iterable[str]) -> set[str]:
    return {_DURATION.sub("", name).strip() for name in names}
