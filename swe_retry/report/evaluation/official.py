"""Official programs of other task sets, and swebench's own service: those that were run here."""

from __future__ import annotations

import json
import math
import os
import re
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, ClassVar

from swe_retry.core.errors import InfrastructureError, UserError
from swe_retry.core.jsontypes import object_at
from swe_retry.core.plaintext import Say, abbreviate
from swe_retry.core.processes import Tail, run_limited, without_secrets
from swe_retry.core.untrusted import MIB, read_object
from swe_retry.environments.leftovers import remove_mounted, remove_named
from swe_retry.report.evaluation.engine import (
    EngineEvaluator,
    command_line,
    program_variables,
)
from swe_retry.report.evaluation.evaluator import (
    EXIT_CODE,
    INCOMPLETE,
    EvaluationTask,
    Tasks,
    printed_exit_code,
    tests_ended,
)
from swe_retry.repositories.names import ALIASES
from swe_retry.results.jsonvalues import texts
from swe_retry.results.verdicts import REPORT_FILE, Verdict, VerdictStatus
from swe_retry.runner.envfile import unread_file

_FAILURE = re.compile(r"error|fail|exception|not found|no such", re.IGNORECASE)
_MAX_LOG = 64 * MIB
_MAX_LINE = 1 << 16
_PROBE_SECONDS = 120.0
_PROBE = "import sys, importlib.metadata as m; print(m.version(sys.argv[1]))"


@dataclass(frozen=True)
class ProgramFolder:
    """The fresh folders of one evaluation: no program finds results of an earlier one.

    Attributes:
        inputs: for rows, which hold the answers, and predictions; removed at the end.
        outputs: for logs and results; the working folder. Containers carry its name.
        patches_id: the same for the same patches of a run.
    """

    inputs: Path
    outputs: Path
    patches_id: str


class OfficialEvaluator(EngineEvaluator):
    """Runs an official program in a process group of its own, in a fresh folder each time.

    A subclass states what the program needs, writes its inputs, and reads its results.

    Attributes:
        package: on the package index.
        allowance: seconds that the commands may take beyond the tests.
    """

    package: ClassVar[str]
    allowance: ClassVar[float] = 0.0

    def identifier(self, task: EvaluationTask) -> str:
        """Return the id of the instance in what the program prints."""
        return task.official_id

    def groups(self, tasks: Tasks) -> Sequence[Tasks]:
        """Return ``tasks`` in groups that one call of the program may evaluate together."""
        return [tasks]

    def variables(self) -> dict[str, str]:
        """Return variables for the commands."""
        return {}

    def commands(self, tasks: Tasks, folder: ProgramFolder) -> list[list[str]]:
        """Write the rows, without gold patch, and predictions; return the commands to run."""
        raise NotImplementedError

    def read(self, task: EvaluationTask, folder: ProgramFolder) -> Verdict | None:
        """Return the result on one prediction; None if the program left none.

        A result that may come from a crash as well as from a wrong patch is ``NOT_EVALUATED``.
        """
        raise NotImplementedError

    @property
    def python(self) -> str:
        return self.settings.evaluation.python or sys.executable

    @cached_property
    def version(self) -> str:
        """The package and its version; a UserError where the interpreter lacks it."""
        argv = [self.python, "-c", _PROBE, self.package]
        variables = without_secrets(os.environ)
        try:
            result = run_limited(argv, Path("/"), variables, _PROBE_SECONDS)
        except OSError as error:
            problem = str(error)
        else:
            line = result.output.strip().rpartition("\n")[2]
            if result.exit_code == 0:
                return f"{self.package} {line}"
            problem = abbreviate(line, 200) or "no output"
        raise UserError(
            f"evaluation.python {self.python} does not run {self.package}: {problem}; "
            "install the package in an environment of its own, and name that"
        )

    def prepare(self, tasks: Tasks) -> dict[str, str]:
        self.say(f"evaluator {self.name}: {self.version}")
        return super().prepare(tasks)

    def run(self, tasks: Tasks, run_id: str) -> Iterator[Verdict]:
        for group in self.groups(tasks):
            for verdict in self._evaluate_group(group, run_id):
                yield verdict.but(tool=self.version)

    def _evaluate_group(self, tasks: Tasks, run_id: str) -> list[Verdict]:
        self.folder.mkdir(parents=True, exist_ok=True)
        outputs = Path(tempfile.mkdtemp(prefix=f"{run_id}-", dir=self.folder))
        log = outputs / "console.log"
        verdicts = []
        with tempfile.TemporaryDirectory() as inputs:
            folder = ProgramFolder(Path(inputs), outputs, run_id)
            try:
                failure = self._run(tasks, folder, log)
            finally:
                self._remove_containers(folder)
            for task in tasks:
                verdict = self.read(task, folder)
                if verdict is None:
                    reason = self._printed_failure(task, log) or failure
                    reason = reason or f"{self.name} left no result; see {log}"
                    verdict = self.no_result(task, reason)
                verdicts.append(verdict)
        return verdicts

    def _run(self, tasks: Tasks, folder: ProgramFolder, log: Path) -> str:
        """Run the commands; return why one did not end well, empty if all did."""
        settings = self.settings.evaluation
        rounds = math.ceil(len(tasks) / settings.workers)
        limit = settings.timeout * (rounds + 1) + self.allowance
        # Programs leave files there that they mount into containers.
        temporary = folder.inputs / "tmp"
        temporary.mkdir()
        variables = program_variables(
            {
                "TMPDIR": str(temporary),
                "PYTHONDONTWRITEBYTECODE": "1",
                "PYTHONUNBUFFERED": "1",
                **self.variables(),
            }
        )
        with log.open("wb") as stream:
            output = ConsoleLog(stream, lambda line: self.say(f"{self.name}: {line}"))
            for argv in self.commands(tasks, folder):
                result = run_limited(
                    argv, folder.outputs, variables, limit, tail=output
                )
                output.end()
                if result.timed_out:
                    return f"{self.name} was ended after {limit:.0f} s; see {log}"
                if result.exit_code:
                    line = output.last_line or "no output"
                    return f"{self.name} failed: {line}; see {log}"
        return ""

    def _remove_containers(self, folder: ProgramFolder) -> None:
        client = self.connect()
        if client is None:
            return
        with closing(client), suppress(InfrastructureError):
            pattern = re.compile(rf".*{re.escape(folder.outputs.name)}.*")
            names = remove_named(client, pattern)
            names += remove_mounted(client, (folder.inputs, folder.outputs))
            for name in names:
                self.say(f"removed what the evaluation left: container {name}")

    def _printed_failure(self, task: EvaluationTask, log: Path) -> str:
        """Return the program's last line about a failure of the instance; empty without one."""
        name = self.identifier(task)
        for line in reversed(read_log(log).splitlines()):
            if name in line and _FAILURE.search(line.replace(name, "")):
                return f"{self.name}: {abbreviate(line, 300)}; see {log}"
        return ""

    def result(
        self,
        task: EvaluationTask,
        resolved: object,
        log: str = "",
        reason: str = "",
        **details: object,
    ) -> Verdict:
        """Return the verdict of a complete evaluation; ``details`` are for swebench's report."""
        status = VerdictStatus.RESOLVED if resolved else VerdictStatus.UNRESOLVED
        report = {"resolved": bool(resolved), "patch_exists": True, **details}
        return task.verdict(
            self.name,
            status,
            reason,
            log=log,
            report=report,
        )


class ConsoleLog(Tail):
    """Writes output to ``stream`` and shows its lines; of a progress bar the end alone."""

    def __init__(self, stream: IO[bytes], show: Say) -> None:
        super().__init__()
        self.last_line = ""
        self._stream = stream
        self._show = show
        self._rest = b""

    def _add(self, chunk: bytes) -> None:
        self._stream.write(chunk)
        self._stream.flush()
        *lines, rest = (self._rest + chunk).split(b"\n")
        self._rest = rest[-_MAX_LINE:]
        for line in lines:
            self._show_line(line)

    def end(self) -> None:
        self._show_line(self._rest)
        self._rest = b""

    def _show_line(self, line: bytes) -> None:
        # A bar goes back to the start of its line.
        end = line.rstrip(b"\r").rpartition(b"\r")[2]
        text = abbreviate(end.decode("utf-8", "replace"), 200)
        if text:
            self.last_line = text
            self._show(text)


def read_result(path: Path) -> Mapping[str, object]:
    """Return the object in a result file; empty if there is none that can be read."""
    try:
        return read_object(path, "evaluate again")
    except (FileNotFoundError, UserError):
        return {}


def read_log(path: Path) -> str:
    """Return the text of a log, at most 64 MiB of it; empty if there is none."""
    if not path.is_file():
        return ""
    with path.open("rb") as stream:
        return stream.read(_MAX_LOG).decode("utf-8", "replace")


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
            return self.no_result(task, reason, log)
        if not tests_ended(printed_exit_code(log)):
            return self.no_result(task, INCOMPLETE, log)
        result = object_at(report, "fix_patch_result")
        if not any(map(result.get, _COUNTS)):
            reason = f"no test result could be read: {_UNCLEAR}"
            return self.no_result(task, reason, log)
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
        return self.no_result(task, f"the service lists it {place}")


PROGRAMS: dict[str, type[OfficialEvaluator]] = {
    "multi-swe-bench": MultiSweBench,
    "sb-cli": SbCli,
}
"""By the value of ``--evaluator``; ``OFFICIAL_TOOLS`` lists these values for the user."""
