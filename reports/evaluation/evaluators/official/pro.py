"""SWE-bench Pro: ``swe_bench_pro_eval.py`` of scaleapi/SWE-bench_Pro-os.

It writes ``false`` for a wrong patch, for a crash and for an image that cannot be pulled. The
parser's ``output.json`` tells them apart: only a test run that reached its end leaves one.
"""

from __future__ import annotations

from collections.abc import Mapping

from reports.data.jsonvalues import objects
from reports.evaluation.evaluators.base import EvaluationTask, VerdictStatus
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
    tests_status,
    unclear,
    write_json,
    write_lines,
)

_SCRIPT = "swe_bench_pro_eval.py"
_TEXTS = ("repo", "base_commit", "before_repo_set_cmd")
_LISTS = ("selected_test_files_to_run", "fail_to_pass", "pass_to_pass")


class ProTool(OfficialTool):
    """Evaluates in the images ``jefzda/sweap-images`` on the local engine."""

    name = "pro"
    repository = "scaleapi/SWE-bench_Pro-os"
    entry = _SCRIPT
    modules = ("docker", "pandas", "tqdm")
    needed = (*_TEXTS, "selected_test_files_to_run", "fail_to_pass")
    # It reads dockerfiles/ below its working folder.
    links = ("dockerfiles",)

    def lacking(self, task: EvaluationTask) -> str:
        """Return what the row or the checkout lacks.

        Without tests to pass, the tool would call every patch right.
        """
        row = task.evaluation.row
        if words := super().lacking(task) or (not names_in(row["fail_to_pass"]) and "tests"):
            return words
        scripts = self.checkout / "run_scripts" / row_id(task)
        return "" if scripts.is_dir() else f"scripts in {scripts}"

    def write(self, tasks: Tasks, folder: EvaluationFolder) -> None:
        write_lines(folder.rows("jsonl"), [_row(task) for task in tasks])
        predictions = [
            {"instance_id": row_id(task), "patch": task.prediction.patch, "prefix": MODEL}
            for task in tasks
        ]
        write_json(folder.predictions(), predictions)

    def commands(self, tasks: Tasks, folder: EvaluationFolder) -> list[list[str]]:
        options = {
            "--raw_sample_path": folder.rows("jsonl"),
            "--patch_path": folder.predictions(),
            "--output_dir": folder.outputs,
            "--dockerhub_username": "jefzda",
            "--scripts_dir": self.checkout / "run_scripts",
            "--num_workers": self.workers(tasks),
            "--use_local_docker": None,
            "--redo": None,
        }
        return [self.command([self.checkout / _SCRIPT], options)]

    def read(self, task: EvaluationTask, folder: EvaluationFolder) -> ToolResult | None:
        name = row_id(task)
        own = folder.outputs / name
        log = "".join(read_text(own / f"{MODEL}_{kind}.log") for kind in ("stdout", "stderr"))
        output = read_result(own / f"{MODEL}_output.json")
        given = read_result(folder.outputs / "eval_results.json") or {}
        if output is None or name not in given:
            # A test run that was cut short leaves its logs.
            return unclear(log, "the test run left no result") if log.strip() else None
        tests = objects(output.get("tests"))
        passed = {str(test.get("name")) for test in tests if test.get("status") == "PASSED"}
        outcome = resolved_if(given[name] is True, log, tests_status(task, passed))
        if outcome.status is VerdictStatus.UNRESOLVED and not output.get("tests"):
            return unclear(log)
        return outcome


def _row(task: EvaluationTask) -> Mapping[str, str]:
    row = task.evaluation.row
    texts = {key: str(row[key]) for key in _TEXTS}
    return {
        "instance_id": row_id(task),
        **texts,
        **{key: str(names_in(row.get(key))) for key in _LISTS},
    }
