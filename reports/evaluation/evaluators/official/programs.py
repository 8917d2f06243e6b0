"""The official programs of other task sets, each with its commands and result files."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from bench.repos.patches import patch_paths
from core.errors import UserError
from reports.data.jsonvalues import mapping, objects
from reports.data.verdicts import REPORT_FILE, VerdictStatus
from reports.evaluation.evaluators.base import EvaluationTask
from reports.evaluation.evaluators.official import forks
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
    revision,
    row_id,
    shows_results,
    tests_status,
    unclear,
)


class ProTool(OfficialTool):
    """SWE-bench Pro: ``swe_bench_pro_eval.py``, in the images ``jefzda/sweap-images``.

    It writes ``false`` for a wrong patch, for a crash and for an image that cannot be pulled. The
    parser's ``output.json`` tells them apart: only a test run that reached its end leaves one.
    """

    texts = ("repo", "base_commit", "before_repo_set_cmd")
    lists = ("selected_test_files_to_run", "fail_to_pass", "pass_to_pass")
    name = "pro"
    repository = "scaleapi/SWE-bench_Pro-os"
    entry = "swe_bench_pro_eval.py"
    modules = ("docker", "pandas", "tqdm")
    needed = (*texts, "selected_test_files_to_run", "fail_to_pass")
    row_format = "jsonl"
    # It reads dockerfiles/ below its working folder.
    links = ("dockerfiles",)

    def lacking(self, task: EvaluationTask) -> str:
        # Without tests to pass, the tool would call every patch right.
        row = task.evaluation.row
        if words := super().lacking(task) or (not names_in(row["fail_to_pass"]) and "tests"):
            return words
        scripts = self.checkout / "run_scripts" / row_id(task)
        return "" if scripts.is_dir() else f"scripts in {scripts}"

    def row(self, task: EvaluationTask) -> Mapping[str, object]:
        row = task.evaluation.row
        texts = {key: str(row[key]) for key in self.texts}
        lists = {key: str(names_in(row.get(key))) for key in self.lists}
        return {"instance_id": row_id(task), **texts, **lists}

    def prediction(self, task: EvaluationTask) -> Mapping[str, object]:
        return {"instance_id": row_id(task), "patch": task.prediction.patch, "prefix": MODEL}

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
        return [self.command([self.checkout / self.entry], options)]

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


# Its runtime removes all dangling images of the engine after each instance, also those of others.
_LIVE_PROGRAM = """\
import os, runpy, sys
sys.path[:0] = [os.path.join(os.getcwd(), "launch"), os.getcwd()]
from launch.core.platforms.base import BaseRuntime
BaseRuntime.cleanup.__defaults__ = (False,)
runpy.run_module("evaluation.evaluation", run_name="__main__", alter_sys=True)
"""


class LiveTool(OfficialTool):
    """SWE-bench Live on Linux: ``evaluation.evaluation``, with its submodule ``launch``.

    The tool runs the Python source in a row's ``log_parser`` in its own process on this machine.
    """

    name = "live"
    repository = "microsoft/SWE-bench-Live"
    entry = "evaluation/evaluation.py"
    modules = ("datasets", "docker")
    needed = ("test_patch", "test_cmds", "log_parser", "FAIL_TO_PASS")
    gold = ("patch", "hints_text", "all_hints_text")
    lists = ("FAIL_TO_PASS", "PASS_TO_PASS", "rebuild_cmds", "test_cmds", "print_cmds")
    row_format = "jsonl"
    predictions_by_id = True
    links = ("evaluation", "launch")

    def check(self) -> str:
        version = super().check()
        launch = self.checkout / "launch"
        if not (launch / "launch").is_dir():
            raise UserError(
                f"{launch} is empty; run: git -C {self.checkout} submodule update --init launch"
            )
        return f"{version}; launch {revision(launch)}"

    def row(self, task: EvaluationTask) -> Mapping[str, object]:
        row = {key: value for key, value in task.evaluation.row.items() if key not in self.gold}
        # An empty list of commands is left out: the Python set has no such column.
        lists = {key: names for key in self.lists if (names := names_in(row.get(key)))}
        kept = {k: value for k, value in row.items() if k not in self.lists and value is not None}
        return {"PASS_TO_PASS": [], **kept, **lists, "instance_id": row_id(task)}

    def prediction(self, task: EvaluationTask) -> Mapping[str, object]:
        return {"model_patch": task.prediction.patch}

    def commands(self, tasks: Tasks, folder: EvaluationFolder) -> list[list[str]]:
        options = {
            "--dataset": folder.rows("jsonl"),
            "--patch_dir": folder.predictions(),
            "--platform": "linux",
            "--workers": self.workers(tasks),
            "--overwrite": 1,
            "--output_dir": folder.outputs / "results",
            "--instance_ids": [row_id(task) for task in tasks],
        }
        return [self.command(["-c", _LIVE_PROGRAM], options)]

    def read(self, task: EvaluationTask, folder: EvaluationFolder) -> ToolResult | None:
        # The report of all is written at the end only.
        own = folder.outputs / "results" / row_id(task)
        report, log = read_result(own / REPORT_FILE), read_text(own / "post_patch_log.txt")
        if report is None:
            return None
        results = read_result(own / "status.json") or {}
        passed = {name for name, status in results.items() if "pass" in str(status).lower()}
        outcome = resolved_if(report.get("resolved") is True, log, tests_status(task, passed))
        if outcome.status is VerdictStatus.UNRESOLVED and not results:
            return unclear(log)
        return outcome


_REPOSITORY_NAME = re.compile(r"[\w-][\w.-]*")
_TESTS = ("fixed_tests", "p2p_tests", "f2p_tests", "s2p_tests", "n2p_tests")


class MultiTool(OfficialTool):
    """Multi-SWE-bench: the package ``multi-swe-bench``, with the images ``mswebench/…``.

    Its mode ``evaluation`` clones repositories and builds images before it runs anything. The modes
    that run instances and report on them need neither, so they are called one after the other.
    It also starts a container ``nix_swe``, and fails without.
    """

    name = "multi-swe-bench"
    repository = "multi-swe-bench/multi-swe-bench"
    entry = "multi_swe_bench/harness/run_evaluation.py"
    package = "multi-swe-bench"
    modules = ("multi_swe_bench", "docker", "dataclasses_json")
    needed = ("org", "repo", "number", "base", "run_result", "test_patch_result")
    row_format = prediction_format = "jsonl"

    def identifier(self, task: EvaluationTask) -> str:
        org, repo, number = _pull_request(task)
        return f"{org}/{repo}:pr-{number}"

    def groups(self, tasks: Tasks) -> Sequence[Tasks]:
        # One for each repository: the tool matches patches to rows by number alone.
        found: dict[tuple[str, str], list[EvaluationTask]] = {}
        for task in tasks:
            org, repo, _ = _pull_request(task)
            found.setdefault((org, repo), []).append(task)
        return list(found.values())

    def row(self, task: EvaluationTask) -> Mapping[str, object]:
        row = task.evaluation.row
        tests = {key: row.get(key) or {} for key in _TESTS}
        kept = {key: {k: v for k, v in each.items() if v} for key, each in tests.items()}
        return {**row, **kept, "fix_patch": ""}

    def prediction(self, task: EvaluationTask) -> Mapping[str, object]:
        org, repo, number = _pull_request(task)
        return {"org": org, "repo": repo, "number": number, "fix_patch": task.prediction.patch}

    def write(self, tasks: Tasks, folder: EvaluationFolder) -> None:
        for name in ("work", "logs", "report"):
            (folder.outputs / name).mkdir()
        super().write(tasks, folder)

    def commands(self, tasks: Tasks, folder: EvaluationFolder) -> list[list[str]]:
        common = {
            "--workdir": folder.outputs / "work",
            "--output_dir": folder.outputs / "report",
            "--dataset_files": folder.rows("jsonl"),
            "--log_dir": folder.outputs / "logs",
        }
        running = {
            "--mode": "instance_only",
            "--patch_files": folder.predictions("jsonl"),
            "--stop_on_error": "false",
            "--need_clone": "false",
            "--max_workers_run_instance": self.workers(tasks),
        }
        return [
            self.command(["-m", "multi_swe_bench.harness.run_evaluation"], common | running),
            self.command(
                ["-m", "multi_swe_bench.harness.gen_report"], common | {"--mode": "evaluation"}
            ),
        ]

    def read(self, task: EvaluationTask, folder: EvaluationFolder) -> ToolResult | None:
        org, repo, number = _pull_request(task)
        name = self.identifier(task)
        own = folder.outputs / "work" / org / repo / "evals" / f"pr-{number}"
        log, report = read_text(own / "fix-patch-run.log"), read_result(own / REPORT_FILE)
        final = read_result(folder.outputs / "report" / "final_report.json") or {}
        if report is None or not any(
            name in names_in(final.get(f"{key}_ids")) for key in ("resolved", "unresolved")
        ):
            return unclear(log, "the report could not be made") if log.strip() else None
        result = mapping(report.get("fix_patch_result"))
        if not any(result.get(key) for key in ("passed_count", "failed_count", "skipped_count")):
            return unclear(log)
        passed = {*names_in(result.get("passed_tests"))}
        outcome = resolved_if(
            name in names_in(final.get("resolved_ids")), log, tests_status(task, passed)
        )
        if outcome.status is VerdictStatus.RESOLVED:
            return outcome
        words = str(report.get("error_msg") or "").partition(". A brief summary")[0]
        return replace(outcome, reason=words[:300])


def _pull_request(task: EvaluationTask) -> tuple[str, str, int]:
    # Owner and repository become names of folders.
    row = task.evaluation.row
    org, repo, number = row.get("org"), row.get("repo"), row.get("number")
    named = all(isinstance(name, str) and _REPOSITORY_NAME.fullmatch(name) for name in (org, repo))
    if not named or not isinstance(number, int):
        name = task.instance.instance_id
        words = "`org`, `repo` and `number` do not name a pull request"
        raise UserError(f"instance {name}: {words}")
    return str(org), str(repo), number


_UNAPPLIED = re.compile(r"^error: (?:patch failed: )?(.+?)(?::\d+$|: |$)", re.MULTILINE)
# The tool removes the durations that some runners print in the names of tests.
_DURATION = re.compile(
    r"\s*[\[(]\s*\d+(?:\.\d+)?\s*m?s\s*[\])]\s*$|\s+in\s+\d+(?:\.\d+)?\s+m?sec\b", re.IGNORECASE
)


class RebenchV2Tool(OfficialTool):
    """SWE-rebench V2: ``scripts/eval.py``; its containers use the host's network.

    It evaluates the gold patch of each row without a prediction, so rows are written without it.
    """

    name = "rebench-v2"
    repository = "SWE-rebench/SWE-rebench-V2"
    entry = "scripts/eval.py"
    needed = ("repo", "test_patch", "install_config", "image_name", "FAIL_TO_PASS")

    def prediction(self, task: EvaluationTask) -> Mapping[str, object]:
        return {"instance_id": row_id(task), "patch": task.prediction.patch}

    def commands(self, tasks: Tasks, folder: EvaluationFolder) -> list[list[str]]:
        options = {
            "--json": folder.rows(),
            "--patches": folder.predictions(),
            "--instance-ids": ",".join(map(row_id, tasks)),
            "--max-workers": self.workers(tasks),
            "--report-json": folder.outputs / "rebench_v2.json",
        }
        return [self.command([self.checkout / self.entry], options)]

    def read(self, task: EvaluationTask, folder: EvaluationFolder) -> ToolResult | None:
        # ``passed_match`` also demands that no other test passed, so it is not used.
        name = row_id(task)
        report = read_result(folder.outputs / "rebench_v2.json") or {}
        item = next((i for i in objects(report.get("items")) if i.get("instance_id") == name), None)
        if item is None:
            return None
        log = read_text(folder.outputs / "logs" / f"{name}_log.txt")
        # 125 is the exit code of `docker run` if no container could be started.
        if item.get("error") or item.get("exit_code") == 125:
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

    def prediction(self, task: EvaluationTask) -> Mapping[str, object]:
        own = {"model_name_or_path": task.prediction.model_name_or_path}
        return {**super().prediction(task), **own}

    def write(self, tasks: Tasks, folder: EvaluationFolder) -> None:
        self.write_predictions(tasks, folder)  # the service has the rows

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
            if name in names_in(report.get(key)):
                return resolved_if(resolved, "")
        named = [key for key in report if key.endswith("_ids") and name in names_in(report[key])]
        where = f"under {', '.join(named)}" if named else "nowhere"
        return ToolResult(VerdictStatus.NOT_EVALUATED, f"the service lists it {where}")


TOOLS: dict[str, type[OfficialTool]] = {
    tool.name: tool
    for tool in [*vars(forks).values(), *globals().values()]
    if isinstance(tool, type) and issubclass(tool, OfficialTool) and tool.name
}
"""By the value of ``--evaluator``; ``OFFICIAL_TOOLS`` lists these values for the user."""
