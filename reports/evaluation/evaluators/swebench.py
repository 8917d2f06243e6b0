"""Run the installed swebench in its own process and read its logs."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from bench.instances.shape import END_MARKER, START_MARKER
from core.errors import UserError
from core.parsing.untrusted import read_object
from core.processes import RUN_VARIABLE, without_secrets
from environments.docker.engine import engine_variables
from reports.data.verdicts import (
    OUTPUT_FILE,
    REPORT_FILE,
    RUN_LOG,
    Verdict,
    VerdictStatus,
)
from reports.evaluation.evaluators.base import (
    EvaluationTask,
    Tasks,
    swebench_prediction,
    verdict_of_report,
)
from reports.evaluation.settings import EvaluatorKind
from runs.leftovers import kill_processes

# Errors of the patch, not of the engine, after which swebench writes no report: APPLY_PATCH_FAIL,
# and a test run that did not end. Each begins a record or the last line of an exception. The log
# also holds the patch, but its lines begin with a sign, so they cannot match.
_PATCH_FAULT = re.compile(
    r"^(?:\d{4}-\d\d-\d\d [\d:,]+ - [A-Z]+ - |(?:swebench\.|__main__\.)[\w.]*Error: )"
    r"(?:.*: )?(>>>>> Patch Apply Failed|Test timed out after.*)"
)
# An error record of an instance; the group is the message without the time and the prefix.
_ERROR = re.compile(
    r"^\d{4}-\d\d-\d\d [\d:,]+ - ERROR - "
    r"(?:Error (?:in evaluating model|creating container) for [^:]*: )?(.+)"
)
# Messages of the Docker SDK if the engine is gone or hangs.
_ENGINE_LOST = re.compile(
    r"Connection aborted|Connection broken|Connection refused|Connection reset|Max retries exceeded"
    r"|Read timed out|Error while fetching server API version|Cannot connect to the Docker daemon"
)
_CONTAINER_LOST = re.compile(r"[Cc]ontainer \w+ is not running")
ENGINE_STOPPED = (
    "the Docker engine stopped answering during the evaluation; start it and "
    "repeat the command"
)
_INCOMPLETE = (
    "its test output does not show that the tests ran from their beginning to their end, as when "
    "the container or the engine stops; repeat the command"
)
# Where swebench keeps its files, and the line that it adds to scripts for what the tests returned.
_LOGS = Path("logs/run_evaluation")
_EXIT_CODE = ">>>>> Test Exit Code: "
_EVALUATOR = EvaluatorKind.DOCKER.value
_NEEDED = ("image", "log_parser", "eval_type", "eval_script", "FAIL_TO_PASS")
# Columns by which the rows of sets with an evaluator of their own are known.
_TOOL_COLUMNS = (
    ("pro", ("before_repo_set_cmd",)),
    ("live", ("test_cmds",)),
    ("multi-swe-bench", ("org", "number")),
    ("rebench-v2", ("install_config", "language")),
    ("rebench", ("install_config",)),
)


@dataclass(frozen=True)
class Swebench:
    folder: Path  # for its logs, from which it also reads verdicts of the same run id
    # A folder that all runs share, with a link to the log of each evaluation that may have left
    # containers. The log is locked while the evaluation goes on.
    running: Path
    workers: int
    timeout: float  # seconds for one instance's tests
    split: str

    def run(self, tasks: Tasks, run_id: str) -> str:
        """Evaluate ``tasks`` and return swebench's error; empty if there was none."""
        self.folder.mkdir(parents=True, exist_ok=True)
        log = self.folder / f"{run_id}.log"
        # swebench must not inherit the lock, so it gets the log as another open file.
        with (
            tempfile.TemporaryDirectory() as scratch,
            log.open("ab") as lock,
            log.open("ab") as output,
        ):
            _lock(log, lock.fileno())
            output.truncate(0)
            self.running.mkdir(parents=True, exist_ok=True)
            self.settle(run_id)
            (self.running / run_id).symlink_to(log.resolve())
            kill_processes(run_id)
            for task in tasks:
                # swebench would take any report for that of an evaluation that ended well.
                if not tests_ended(saved_output(self._place(task, run_id))):
                    self.forget(task, run_id)
            # A temporary dataset with only the needed rows, because it holds the answers.
            dataset, predictions = (
                Path(scratch) / "dataset.json",
                Path(scratch) / "preds.json",
            )
            rows = [dict(task.evaluation.row) for task in tasks]
            dataset.write_text(json.dumps(rows, default=str), encoding="utf-8")
            made = [
                swebench_prediction(
                    task.instance_id, task, task.prediction.model_name_or_path
                )
                for task in tasks
            ]
            predictions.write_text(json.dumps(made))
            argv = [
                sys.executable,
                "-m",
                "swebench.harness.run_evaluation",
                "--dataset_name",
                dataset,
                "--split",
                self.split,
                "--predictions_path",
                predictions,
                "--run_id",
                run_id,
                "--max_workers",
                self.workers,
                "--timeout",
                int(self.timeout),
            ]
            marks = {"HF_HUB_OFFLINE": "1", RUN_VARIABLE: run_id}
            try:
                # In a session of its own: only this process hears of Ctrl-C, and ends it.
                result = subprocess.run(
                    [str(word) for word in argv],
                    cwd=self.folder,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    check=False,
                    start_new_session=True,
                    env={**without_secrets(os.environ), **engine_variables(), **marks},
                )
            finally:
                kill_processes(run_id)
        if not result.returncode:
            return ""
        lines = [
            line
            for line in log.read_text("utf-8", "replace").splitlines()
            if line.strip()
        ]
        return _in_words(
            "swebench failed", lines[-1] if lines else "it printed nothing", log
        )

    def ended(self) -> list[str]:
        """End evaluations whose process is gone, of any run, and return their ids."""
        links = sorted(self.running.iterdir()) if self.running.is_dir() else []
        found = [link.name for link in links if not _is_in_use(link)]
        for run_id in found:
            kill_processes(run_id)
        return found

    def settle(self, run_id: str) -> None:
        """Note that an evaluation left no container."""
        (self.running / run_id).unlink(missing_ok=True)

    def verdict(self, task: EvaluationTask, run_id: str, failure: str) -> Verdict:
        """Return the verdict in swebench's logs; ``failure`` is the result of ``run``."""
        folder = self._place(task, run_id)
        output, report = saved_output(folder), folder / REPORT_FILE
        status = VerdictStatus.NOT_EVALUATED
        if not folder.is_dir():
            reason = failure or "swebench left no log"
        elif report.is_file():
            try:
                data = read_object(report, "evaluate again")
            except UserError as error:
                reason = str(error)
            else:
                if tests_ended(output):
                    return verdict_of_report(task, data, output, _EVALUATOR)
                reason = _INCOMPLETE
        elif fault := _patch_fault(folder):
            status, reason = VerdictStatus.UNRESOLVED, fault
        else:
            ended = f"swebench ended early; see {folder / RUN_LOG}"
            reason = first_error(folder) or failure or ended
        return Verdict(
            instance_id=task.instance_id,
            status=status,
            evaluator=_EVALUATOR,
            reason=reason,
            log=output,
        )

    def forget(self, task: EvaluationTask, run_id: str) -> None:
        """Delete what swebench keeps of an evaluation, so that it evaluates and grades it again."""
        shutil.rmtree(self._place(task, run_id), ignore_errors=True)

    def _place(self, task: EvaluationTask, run_id: str) -> Path:
        model = task.prediction.model_name_or_path.replace("/", "__")
        return self.folder / _LOGS / run_id / model / task.instance_id


def check_rows(tasks: Tasks) -> dict[str, str]:
    """Return by id what the rows of some instances lack for swebench 5."""
    lacking = {}
    for task in tasks:
        if missing := [key for key in _NEEDED if not task.evaluation.row.get(key)]:
            lacking[task.instance_id] = ", ".join(missing)
    if tasks and len(lacking) == len({task.instance_id for task in tasks}):
        name, keys = next(iter(lacking.items()))
        # The value of --evaluator for the set that a row looks like; empty if unknown.
        tools = {
            next(
                (tool for tool, columns in _TOOL_COLUMNS if {*columns} <= row.keys()),
                "",
            )
            for row in (task.evaluation.row for task in tasks)
        }
        fix = "--dataset lite (or the hub id) or --evaluator none"
        raise UserError(
            f"instance {name}: the dataset lacks {keys}, which the evaluator needs; "
            f"give {fix if '' in tools else f'--evaluator {min(tools)} (docs/evaluators.md)'}"
        )
    return {name: f"the dataset's row lacks {keys}" for name, keys in lacking.items()}


def tests_ended(output: str) -> bool:
    """Return whether a test output proves that swebench's script saw the tests begin and end.

    Container, engine and swebench may end before, and busy engines lose the beginning; swebench
    grades the rest. The tests' exit code is the last part that it needs.
    """
    _, begins, tests = output.partition(START_MARKER)
    _, ends, after = tests.rpartition(END_MARKER)
    return bool(begins and ends) and _EXIT_CODE in after


def saved_output(folder: Path) -> str:
    output = folder / OUTPUT_FILE
    return output.read_text("utf-8", "replace") if output.is_file() else ""


def _records(folder: Path, pattern: re.Pattern[str]) -> list[str]:
    log = folder / RUN_LOG
    lines = log.read_text("utf-8", "replace").splitlines() if log.is_file() else []
    return [match[1] for line in lines if (match := pattern.match(line))]


def _patch_fault(folder: Path) -> str:
    """Return the error of the patch in the log of an instance; empty if there is none."""
    return "".join(_records(folder, _PATCH_FAULT)[-1:]).strip()[:300]


def first_error(folder: Path) -> str:
    """Return the first error record in the log of an instance; empty if there is none."""
    found = _records(folder, _ERROR)
    return (
        _in_words("swebench could not evaluate it", found[0], folder / RUN_LOG)
        if found
        else ""
    )


def _in_words(what: str, error: str, log: Path) -> str:
    if _ENGINE_LOST.search(error):
        return ENGINE_STOPPED
    if _CONTAINER_LOST.search(error):
        return (
            "its container stopped during the evaluation, because the Docker engine was started "
            f"again or code in it ended it; repeat the command, or see {log}"
        )
    return f"{what}: {error.strip()[:300]}; see {log}"


def _lock(log: Path, descriptor: int) -> None:
    # Until the log is closed, which the end of this process does as well.
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise UserError(
            f"{log} is in use: another process evaluates these predictions; wait until it has ended"
        ) from error
    except OSError:
        return  # a file system without locks


def _is_in_use(log: Path) -> bool:
    try:
        with log.open("rb") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:  # its run was deleted
        return False
    except OSError:
        return True
    return False
