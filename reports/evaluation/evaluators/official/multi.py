"""Multi-SWE-bench: the package ``multi-swe-bench``, with the images ``mswebench/…``.

Its mode ``evaluation`` clones repositories and builds images before it runs anything. The modes
that run instances and report on them need neither, so they are called one after the other.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from core.errors import UserError
from reports.data.jsonvalues import mapping, texts
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
    tests_status,
    unclear,
    write_lines,
)

_NAME = re.compile(r"[\w-][\w.-]*")
_TESTS = ("fixed_tests", "p2p_tests", "f2p_tests", "s2p_tests", "n2p_tests")
_COUNTS = ("passed_count", "failed_count", "skipped_count")
_PACKAGE = "multi_swe_bench.harness"
_WORK, _LOGS, _REPORTS = "work", "logs", "report"


class MultiTool(OfficialTool):
    """Evaluates Multi-SWE-bench; it also starts a container ``nix_swe``, and fails without."""

    name = "multi-swe-bench"
    repository = "multi-swe-bench/multi-swe-bench"
    entry = "multi_swe_bench/harness/run_evaluation.py"
    package = "multi-swe-bench"
    modules = ("multi_swe_bench", "docker", "dataclasses_json")
    needed = ("org", "repo", "number", "base", "run_result", "test_patch_result")

    def identifier(self, task: EvaluationTask) -> str:
        org, repo, number = _pull_request(task)
        return f"{org}/{repo}:pr-{number}"

    def groups(self, tasks: Tasks) -> Sequence[Tasks]:
        """Return a group for each repository: patches are matched to rows by number alone."""
        found: dict[tuple[str, str], list[EvaluationTask]] = {}
        for task in tasks:
            org, repo, _ = _pull_request(task)
            found.setdefault((org, repo), []).append(task)
        return list(found.values())

    def write(self, tasks: Tasks, folder: EvaluationFolder) -> None:
        for name in (_WORK, _LOGS, _REPORTS):
            (folder.outputs / name).mkdir()
        write_lines(folder.rows("jsonl"), [_row(task) for task in tasks])
        patches = []
        for task in tasks:
            org, repo, number = _pull_request(task)
            patch = {"org": org, "repo": repo, "number": number}
            patches.append({**patch, "fix_patch": task.prediction.patch})
        write_lines(folder.predictions("jsonl"), patches)

    def commands(self, tasks: Tasks, folder: EvaluationFolder) -> list[list[str]]:
        common = {
            "--workdir": folder.outputs / _WORK,
            "--output_dir": folder.outputs / _REPORTS,
            "--dataset_files": folder.rows("jsonl"),
            "--log_dir": folder.outputs / _LOGS,
        }
        running = {
            "--mode": "instance_only",
            "--patch_files": folder.predictions("jsonl"),
            "--stop_on_error": "false",
            "--need_clone": "false",
            "--max_workers_run_instance": self.workers(tasks),
        }
        return [
            self.command(["-m", f"{_PACKAGE}.run_evaluation"], common | running),
            self.command(["-m", f"{_PACKAGE}.gen_report"], common | {"--mode": "evaluation"}),
        ]

    def read(self, task: EvaluationTask, folder: EvaluationFolder) -> ToolResult | None:
        org, repo, number = _pull_request(task)
        name = self.identifier(task)
        own = folder.outputs / _WORK / org / repo / "evals" / f"pr-{number}"
        log, report = read_text(own / "fix-patch-run.log"), read_result(own / REPORT_FILE)
        final = read_result(folder.outputs / _REPORTS / "final_report.json") or {}
        if report is None or not any(
            name in texts(final.get(f"{key}_ids")) for key in ("resolved", "unresolved")
        ):
            return unclear(log, "the report could not be made") if log.strip() else None
        result = mapping(report.get("fix_patch_result"))
        if not any(result.get(key) for key in _COUNTS):
            return unclear(log)
        passed = {*names_in(result.get("passed_tests"))}
        outcome = resolved_if(
            name in texts(final.get("resolved_ids")), log, tests_status(task, passed)
        )
        if outcome.status is VerdictStatus.RESOLVED:
            return outcome
        # The tool's own words.
        words = str(report.get("error_msg") or "").partition(". A brief summary")[0]
        return replace(outcome, reason=words[:300])


def _pull_request(task: EvaluationTask) -> tuple[str, str, int]:
    """Return owner, repository and number, checked to be names of folders: the tool's id."""
    row = task.evaluation.row
    org, repo, number = row.get("org"), row.get("repo"), row.get("number")
    named = all(isinstance(name, str) and _NAME.fullmatch(name) for name in (org, repo))
    if not named or not isinstance(number, int):
        raise UserError(
            f"instance {task.instance.instance_id}: `org`, `repo` and `number` name no pull request"
        )
    return str(org), str(repo), number


def _row(task: EvaluationTask) -> Mapping[str, Any]:
    row = dict(task.evaluation.row)
    for key in _TESTS:
        tests = row.get(key) or {}
        row[key] = {name: test for name, test in tests.items() if test}
    return {**row, "fix_patch": ""}
