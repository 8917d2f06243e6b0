"""The official programs that the package index has, each with its commands and result files."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from core.errors import UserError
from reports.data.jsonvalues import mapping, texts
from reports.data.verdicts import REPORT_FILE, VerdictStatus
from reports.evaluation.evaluators.base import (
    EvaluationTask,
    Tasks,
    swebench_prediction,
)
from reports.evaluation.evaluators.official.tool import (
    EvaluationFolder,
    OfficialTool,
    ToolResult,
    read_result,
    read_text,
    resolved_if,
    row_id,
    tests_status,
    unclear,
    write_values,
)
from runs.envfile import unread_file

_REPOSITORY_NAME = re.compile(r"[\w-][\w.-]*")
_TESTS = ("fixed_tests", "p2p_tests", "f2p_tests", "s2p_tests", "n2p_tests")


class MultiTool(OfficialTool):
    """Multi-SWE-bench: the package ``multi-swe-bench``, with the images ``mswebench/…``.

    Its mode ``evaluation`` clones repositories and builds images before it runs anything. The modes
    that run instances and report on them need neither, so they are called one after the other.
    It also starts a container ``nix_swe``, and fails without.
    """

    name = "multi-swe-bench"
    package = "multi-swe-bench"
    modules = ("multi_swe_bench", "docker", "dataclasses_json")
    needed = ("org", "repo", "number", "base", "run_result", "test_patch_result")

    def identifier(self, task: EvaluationTask) -> str:
        org, repo, number = _pull_request(task)
        return f"{org}/{repo}:pr-{number}"

    def groups(self, tasks: Tasks) -> Sequence[Tasks]:
        # One for each repository: the tool matches patches to rows by number alone.
        groups: dict[tuple[str, str], list[EvaluationTask]] = {}
        for task in tasks:
            org, repo, _ = _pull_request(task)
            groups.setdefault((org, repo), []).append(task)
        return list(groups.values())

    def _row(self, task: EvaluationTask) -> Mapping[str, object]:
        row = task.evaluation.row
        tests = {key: row.get(key) or {} for key in _TESTS}
        kept = {
            key: {k: v for k, v in each.items() if v} for key, each in tests.items()
        }
        return {**row, **kept, "fix_patch": ""}

    def _prediction(self, task: EvaluationTask) -> Mapping[str, object]:
        org, repo, number = _pull_request(task)
        return {
            "org": org,
            "repo": repo,
            "number": number,
            "fix_patch": task.prediction.patch,
        }

    def write(self, tasks: Tasks, folder: EvaluationFolder) -> None:
        for name in ("work", "logs", "report"):
            (folder.outputs / name).mkdir()
        write_values(folder.rows, [self._row(task) for task in tasks])
        write_values(
            folder.predictions("jsonl"), [self._prediction(task) for task in tasks]
        )

    def commands(self, tasks: Tasks, folder: EvaluationFolder) -> list[list[str]]:
        common = {
            "--workdir": folder.outputs / "work",
            "--output_dir": folder.outputs / "report",
            "--dataset_files": folder.rows,
            "--log_dir": folder.outputs / "logs",
        }
        running = {
            "--mode": "instance_only",
            "--patch_files": folder.predictions("jsonl"),
            "--stop_on_error": "false",
            "--need_clone": "false",
            "--max_workers_run_instance": max(
                min(self.settings.workers, len(tasks)), 1
            ),
        }
        return [
            self.command(
                ["-m", "multi_swe_bench.harness.run_evaluation"], common | running
            ),
            self.command(
                ["-m", "multi_swe_bench.harness.gen_report"],
                common | {"--mode": "evaluation"},
            ),
        ]

    def read(self, task: EvaluationTask, folder: EvaluationFolder) -> ToolResult | None:
        org, repo, number = _pull_request(task)
        name = self.identifier(task)
        own = folder.outputs / "work" / org / repo / "evals" / f"pr-{number}"
        log, report = (
            read_text(own / "fix-patch-run.log"),
            read_result(own / REPORT_FILE),
        )
        final = read_result(folder.outputs / "report" / "final_report.json") or {}
        if report is None or not any(
            name in texts(final.get(f"{key}_ids")) for key in ("resolved", "unresolved")
        ):
            return unclear(log, "the report could not be made") if log.strip() else None
        result = mapping(report.get("fix_patch_result"))
        if not any(
            result.get(key) for key in ("passed_count", "failed_count", "skipped_count")
        ):
            return unclear(log)
        passed = {*texts(result.get("passed_tests"))}
        outcome = resolved_if(
            name in texts(final.get("resolved_ids")), log, tests_status(task, passed)
        )
        if outcome.status is VerdictStatus.RESOLVED:
            return outcome
        words = str(report.get("error_msg") or "").partition(". A brief summary")[0]
        return replace(outcome, reason=words[:300])


def _pull_request(task: EvaluationTask) -> tuple[str, str, int]:
    # Owner and repository become names of folders.
    row = task.evaluation.row
    org, repo, number = row.get("org"), row.get("repo"), row.get("number")
    named = all(
        isinstance(name, str) and _REPOSITORY_NAME.fullmatch(name)
        for name in (org, repo)
    )
    if not named or not isinstance(number, int):
        name = task.instance_id
        words = "`org`, `repo` and `number` do not name a pull request"
        raise UserError(f"instance {name}: {words}")
    return str(org), str(repo), number


_KEY = "SWEBENCH_API_KEY"
# The service's names of data sets, by the end of the hub's.
_SUBSETS = {
    "SWE-bench_Lite": "swe-bench_lite",
    "SWE-bench_Verified": "swe-bench_verified",
    "SWE-bench_Multimodal": "swe-bench-m",
}


class HostedTool(OfficialTool):
    """swebench's own service through ``sb-cli``, for Lite, Verified and Multimodal.

    A prediction that was sent cannot be changed.
    """

    name = "sb-cli"
    package = "sb-cli"
    modules = ("sb_cli", "requests", "typer")
    # sb-cli waits up to five minutes for the start and thirty for the end.
    allowance = 3600.0
    uses_engine = False

    def check(self) -> str:
        if not os.environ.get(_KEY):
            raise UserError(
                f"--evaluator sb-cli needs a key: set {_KEY} (sb-cli gen-api-key){unread_file()}"
            )
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
        # The service has the rows.
        predictions = [
            swebench_prediction(row_id(task), task, task.prediction.model_name_or_path)
            for task in tasks
        ]
        write_values(folder.predictions(), predictions)

    def commands(self, tasks: Tasks, folder: EvaluationFolder) -> list[list[str]]:
        options = {
            "--predictions_path": folder.predictions(),
            # The same patches continue an earlier submission.
            "--run_id": folder.patches_id,
            "--output_dir": folder.outputs / "reports",
            "--overwrite": 1,
        }
        start = ["-c", "import sb_cli; sb_cli.main()", "submit"]
        return [self.command([*start, self._subset(), self.settings.split], options)]

    def read(self, task: EvaluationTask, folder: EvaluationFolder) -> ToolResult | None:
        file = f"{self._subset()}__{self.settings.split}__{folder.patches_id}.json"
        report = read_result(folder.outputs / "reports" / file)
        if report is None:
            return None
        name = row_id(task)
        for resolved, key in ((True, "resolved_ids"), (False, "unresolved_ids")):
            if name in texts(report.get(key)):
                return resolved_if(resolved, "")
        named = [
            key for key in report if key.endswith("_ids") and name in texts(report[key])
        ]
        where = f"under {', '.join(named)}" if named else "nowhere"
        return ToolResult(VerdictStatus.NOT_EVALUATED, f"the service lists it {where}")


TOOLS: Mapping[str, type[OfficialTool]] = {
    MultiTool.name: MultiTool,
    HostedTool.name: HostedTool,
}
"""By the value of ``--evaluator``; ``OFFICIAL_TOOLS`` lists these values for the user."""
