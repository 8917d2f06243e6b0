"""Official programs of other task sets, and swebench's own service: those that were run here."""

from __future__ import annotations

import json
import os
import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from swe_retry.core.errors import UserError
from swe_retry.core.jsontypes import object_at
from swe_retry.report.evaluation.engine import command_line
from swe_retry.report.evaluation.evaluator import (
    EXIT_CODE,
    INCOMPLETE,
    EvaluationTask,
    Tasks,
    printed_exit_code,
    tests_ended,
)
from swe_retry.report.evaluation.program import (
    OfficialEvaluator,
    ProgramFolder,
    read_log,
    read_result,
)
from swe_retry.repositories.names import ALIASES
from swe_retry.results.jsonvalues import texts
from swe_retry.results.verdicts import REPORT_FILE, Verdict
from swe_retry.runner.envfile import unread_file

_REPOSITORY_NAME = re.compile(r"[\w-][\w.-]*")
_TESTS = ("fixed_tests", "p2p_tests", "f2p_tests", "s2p_tests", "n2p_tests")
_COUNTS = ("passed_count", "failed_count", "skipped_count")
_UNCLEAR = "the tool cannot tell a crash from a wrong patch"
# The command of all its instances, with a last line that a killed container lacks.
_RUN_COMMAND = f"bash -c 'bash /home/fix-run.sh; printf \"\\\\n{EXIT_CODE}$?\\\\n\"'"


class MultiSweBench(OfficialEvaluator):
    """Multi-SWE-bench, with the images ``mswebench/…``.

    Its mode ``evaluation`` clones repositories and builds images before it runs anything. The modes
    that run instances and report on them need neither, so they are called one after the other.
    It also starts a container ``nix_swe``, and fails without.
    """

    package = "multi-swe-bench"
    columns = ("org", "repo", "number", "base", "run_result", "test_patch_result")

    def identifier(self, task: EvaluationTask) -> str:
        org, repo, number = _pull_request(task)
        return f"{org}/{repo}:pr-{number}"

    def groups(self, tasks: Tasks) -> Sequence[Tasks]:
        # One for each repository: the program matches patches to rows by number alone.
        groups = defaultdict(list)
        for task in tasks:
            repository = _pull_request(task)[:2]
            groups[repository].append(task)
        return list(groups.values())

    def commands(self, tasks: Tasks, folder: ProgramFolder) -> list[list[str]]:
        rows = []
        predictions = []
        for task in tasks:
            org, repo, number = _pull_request(task)
            patch = task.prediction.patch
            predictions.append(
                {"org": org, "repo": repo, "number": number, "fix_patch": patch}
            )
            row = {**task.evaluation.row, "fix_patch": ""}
            for key in _TESTS:
                tests = row.get(key) or {}
                row[key] = {name: test for name, test in tests.items() if test}
            rows.append(row)
        rows_file = folder.inputs / "rows.jsonl"
        predictions_file = folder.inputs / "predictions.jsonl"
        _write_lines(rows_file, rows)
        _write_lines(predictions_file, predictions)
        for name in ("work", "logs", "report"):
            (folder.outputs / name).mkdir()
        common = {
            "--workdir": folder.outputs / "work",
            "--output_dir": folder.outputs / "report",
            "--dataset_files": rows_file,
            "--log_dir": folder.outputs / "logs",
        }
        running = {
            "--mode": "instance_only",
            "--patch_files": predictions_file,
            "--stop_on_error": "false",
            "--need_clone": "false",
            "--fix_patch_run_cmd": _RUN_COMMAND,
            "--max_workers_run_instance": min(
                self.settings.evaluation.workers, len(tasks)
            ),
        }
        run = [self.python, "-m", "multi_swe_bench.harness.run_evaluation"]
        report = [self.python, "-m", "multi_swe_bench.harness.gen_report"]
        return [
            command_line(run, common | running),
            command_line(report, common | {"--mode": "evaluation"}),
        ]

    def read(self, task: EvaluationTask, folder: ProgramFolder) -> Verdict | None:
        org, repo, number = _pull_request(task)
        name = self.identifier(task)
        instance = folder.outputs / "work" / org / repo / "evals" / f"pr-{number}"
        log = read_log(instance / "fix-patch-run.log")
        report = read_result(instance / REPORT_FILE)
        final = read_result(folder.outputs / "report" / "final_report.json")
        resolved = name in texts(final.get("resolved_ids"))
        if not report or not (resolved or name in texts(final.get("unresolved_ids"))):
            if not log.strip():
                return None
            reason = f"the report could not be made: {_UNCLEAR}"
            return task.no_result(reason, log)
        if not tests_ended(printed_exit_code(log)):
            return task.no_result(INCOMPLETE, log)
        result = object_at(report, "fix_patch_result")
        if not any(map(result.get, _COUNTS)):
            reason = f"no test result could be read: {_UNCLEAR}"
            return task.no_result(reason, log)
        reason = ""
        if not resolved:
            message = str(report.get("error_msg") or "")
            reason = message.partition(". A brief summary")[0][:300]
        tests = _tests_status(task, texts(result.get("passed_tests")))
        return self.result(task, resolved, log, reason, tests_status=tests)


def _pull_request(task: EvaluationTask) -> tuple[str, str, int]:
    # Owner and repository become names of folders.
    row = task.evaluation.row
    org = str(row.get("org"))
    repo = str(row.get("repo"))
    number = row.get("number")
    names_are_safe = _REPOSITORY_NAME.fullmatch(org) and _REPOSITORY_NAME.fullmatch(
        repo
    )
    if not names_are_safe or not isinstance(number, int):
        raise UserError(
            f"instance {task.instance_id}: `org`, `repo` and `number` do not name a pull request"
        )
    return org, repo, number


def _write_lines(path: Path, values: Sequence[object]) -> None:
    # Dates of a dataset become texts.
    lines = [json.dumps(value, default=str) + "\n" for value in values]
    path.write_text("".join(lines), "utf-8")


def _tests_status(task: EvaluationTask, passed: Sequence[str]) -> dict[str, object]:
    """Return which of the deciding tests passed, as swebench's report has it."""
    lists = {
        "FAIL_TO_PASS": task.evaluation.fail_to_pass,
        "PASS_TO_PASS": task.evaluation.pass_to_pass,
    }
    status: dict[str, object] = {}
    for kind, names in lists.items():
        success = [name for name in names if name in passed]
        failure = [name for name in names if name not in passed]
        status[kind] = {"success": success, "failure": failure}
    return status


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


PROGRAMS: dict[str, type[OfficialEvaluator]] = {
    "multi-swe-bench": MultiSweBench,
    "sb-cli": SbCli,
}
"""By the value of ``--evaluator``; ``OFFICIAL_TOOLS`` lists these values for the user."""
