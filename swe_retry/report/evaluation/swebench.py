"""The official evaluator: the installed swebench in its own process, its logs and containers.

Process, container and engine can end at any point.
"""

from __future__ import annotations

import fcntl
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import IO

from swe_retry.core.errors import InfrastructureError, UserError
from swe_retry.core.jsontypes import object_at
from swe_retry.core.processes import RUN_VARIABLE
from swe_retry.core.untrusted import read_object
from swe_retry.environments.base import ResourceLimits
from swe_retry.environments.docker.containers import Containers
from swe_retry.environments.docker.engine import connect, engine_answers
from swe_retry.environments.docker.environment import label_of
from swe_retry.environments.leftovers import remove_containers, remove_named
from swe_retry.instances.instance import END_MARKER, START_MARKER
from swe_retry.report.evaluation.engine import (
    ENGINE_STOPPED,
    EngineEvaluator,
    command_line,
    program_variables,
)
from swe_retry.report.evaluation.evaluation_settings import EvaluatorKind
from swe_retry.report.evaluation.evaluator import (
    INCOMPLETE,
    EvaluationTask,
    Tasks,
    printed_exit_code,
    tests_ended,
)
from swe_retry.report.evaluation.grading import doubt_official
from swe_retry.results.verdicts import (
    OUTPUT_FILE,
    REPORT_FILE,
    RUN_LOG,
    Verdict,
    VerdictStatus,
)
from swe_retry.runner.leftovers import kill_processes

DOCKER = EvaluatorKind.DOCKER.value
# An engine may still work on the last request of a client that was ended.
_SETTLE = 1.0
_SECONDS = 120.0
# Where swebench keeps its files.
_LOGS = Path("logs/run_evaluation")
# swebench's folder of every image, and its ways to apply a patch there.
_FOLDER = "/testbed"
_PATCH = "/harness/patch.diff"
_SCRIPT = "/harness/check.sh"
_HAS_REPOSITORY = f"""exec 2>&1
cd {_FOLDER} && git -c safe.directory='*' rev-parse HEAD ||
{{ echo it has no repository in {_FOLDER}; exit 1; }}
"""
_FAILS_TO_APPLY = f"""git apply {_PATCH} || git apply --3way {_PATCH} ||
{{ git reset -q --hard; patch --batch --forward --fuzz=5 -p1 -i {_PATCH}; }} || exit 0
echo the patch applies to it, though it did not when swebench tried; exit 1
"""
# Errors of the patch, not of the engine, after which swebench writes no report: APPLY_PATCH_FAIL,
# and a test run that did not end. Each starts a record or the last line of an exception. The log
# also holds the patch, but its lines start with a sign, so they cannot match.
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


class DockerEvaluator(EngineEvaluator):
    """Evaluates with swebench, which keeps its logs, and reads verdicts of the same run id."""

    columns = ("image", "log_parser", "eval_type", "eval_script", "FAIL_TO_PASS")

    @property
    def running(self) -> Path:
        """A folder of all runs, with a link to the log of each evaluation.

        The log is locked while the evaluation goes on. It may have left containers until its link
        is removed.
        """
        return self.settings.folders.cache / "evaluations"

    def prepare(self, tasks: Tasks) -> dict[str, str]:
        self._remove_containers("an earlier evaluation")
        return super().prepare(tasks)

    def run(self, tasks: Tasks, run_id: str) -> Iterator[Verdict]:
        verdicts = []
        try:
            failure = self._run_swebench(tasks, run_id)
            if not engine_answers():
                failure = ENGINE_STOPPED
            for task in tasks:
                verdicts.append(self._verdict(task, run_id, failure))
        except BaseException:
            time.sleep(_SETTLE)
            raise
        finally:
            self._remove_containers("the evaluation")
        yield from verdicts

    def _run_swebench(self, tasks: Tasks, run_id: str) -> str:
        """Evaluate ``tasks`` and return swebench's error; empty if there was none."""
        self.folder.mkdir(parents=True, exist_ok=True)
        log = self.folder / f"{run_id}.log"
        # swebench must not inherit the lock, so it gets the log as another open file.
        with (
            tempfile.TemporaryDirectory() as scratch,
            log.open("ab") as lock,
            log.open("ab") as output,
        ):
            _lock(log, lock)
            output.truncate(0)
            self.running.mkdir(parents=True, exist_ok=True)
            link = self.running / run_id
            link.unlink(missing_ok=True)
            link.symlink_to(log.resolve())
            kill_processes(run_id)
            for task in tasks:
                folder = self._folder_of(task, run_id)
                # swebench would take any report for that of an evaluation that ended well.
                if not shows_end(saved_output(folder)):
                    shutil.rmtree(folder, ignore_errors=True)
            try:
                # In a session of its own: only this process hears of Ctrl-C, and ends it.
                result = subprocess.run(
                    self._command(tasks, run_id, Path(scratch)),
                    cwd=self.folder,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    check=False,
                    start_new_session=True,
                    env=program_variables({RUN_VARIABLE: run_id}),
                )
            finally:
                kill_processes(run_id)
        if result.returncode == 0:
            return ""
        return process_failure(log)

    def _command(self, tasks: Tasks, run_id: str, scratch: Path) -> list[str]:
        rows = []
        predictions = []
        for task in tasks:
            rows.append(dict(task.evaluation.row))
            predictions.append(task.prediction.as_json(task.instance_id))
        # A temporary dataset with only the needed rows, because it holds the answers.
        dataset = scratch / "dataset.json"
        dataset.write_text(json.dumps(rows, default=str), "utf-8")
        predictions_file = scratch / "preds.json"
        predictions_file.write_text(json.dumps(predictions))
        options = {
            "--dataset_name": dataset,
            "--split": self.split,
            "--predictions_path": predictions_file,
            "--run_id": run_id,
            "--max_workers": self.settings.evaluation.workers,
            "--timeout": int(self.settings.evaluation.timeout),
        }
        start = [sys.executable, "-m", "swebench.harness.run_evaluation"]
        return command_line(start, options)

    def _verdict(self, task: EvaluationTask, run_id: str, failure: str) -> Verdict:
        folder = self._folder_of(task, run_id)
        verdict = logged_verdict(task, folder, failure)
        reason = _fault_of_image(task, verdict, run_id)
        if not reason:
            return verdict
        # Then swebench evaluates and grades it again.
        shutil.rmtree(folder, ignore_errors=True)
        return task.no_result(reason, verdict.log)

    def _folder_of(self, task: EvaluationTask, run_id: str) -> Path:
        model = task.prediction.model_name_or_path.replace("/", "__")
        return self.folder / _LOGS / run_id / model / task.instance_id

    def _remove_containers(self, origin: str) -> None:
        """Remove the processes and containers of evaluations, of any run, that have ended."""
        client = connect()
        if client is None or not self.running.is_dir():
            return
        with closing(client), suppress(InfrastructureError):
            for link in sorted(self.running.iterdir()):
                if _is_in_use(link):
                    continue
                run_id = link.name
                kill_processes(run_id)
                # swebench adds the time to a name that is taken (``create_container`` of 5.0).
                pattern = rf"sweb\.eval\..+\.{re.escape(run_id)}(?:\.\d+)?"
                for name in remove_named(client, re.compile(pattern)):
                    self.say(f"removed what {origin} left: container {name}")
                remove_containers(client, run_id)
                link.unlink(missing_ok=True)


def _fault_of_image(task: EvaluationTask, verdict: Verdict, run_id: str) -> str:
    """Return why not the patch, but the image or the engine may be at fault; empty if it is.

    A test that passed shows that the image is right. Without one the image is looked at.
    """
    timed_out = verdict.reason.startswith("Test timed out")
    if verdict.status is not VerdictStatus.UNRESOLVED or timed_out:
        return ""
    results = object_at(verdict.report, task.instance_id, "tests_status")
    if any(tests["success"] for tests in results.values()):
        return ""
    client = connect()
    if client is None:
        return ENGINE_STOPPED
    script = _HAS_REPOSITORY
    if verdict.report is None:
        script += _FAILS_TO_APPLY
    as_root = Containers(
        client,
        label_of(run_id),
        ResourceLimits(),
        folder="/",
        user="0:0",
        home="/root",
    )
    image = task.instance.image
    try:
        with closing(client), as_root.start(image) as container:
            container.put({}, {_PATCH: task.prediction.patch, _SCRIPT: script})
            result = container.bash([_SCRIPT], _SECONDS)
    except InfrastructureError as error:
        return f"the image {image} could not be looked at: {error}"
    if result.exit_code == 0:
        return ""
    return f"the image {image}: {result.output.strip()[-200:]}"


def _lock(log: Path, stream: IO[bytes]) -> None:
    # Until the log is closed, which the end of this process does as well.
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
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


def shows_end(output: str) -> bool:
    """Return whether a test output proves that swebench's script saw the tests start and end.

    Container, engine and swebench may end before, and busy engines lose the beginning; swebench
    grades the rest. The tests' exit code is the last part that it needs.
    """
    _, start, tests = output.partition(START_MARKER)
    _, end, rest = tests.rpartition(END_MARKER)
    return bool(start and end) and tests_ended(printed_exit_code(rest))


def logged_verdict(task: EvaluationTask, folder: Path, failure: str) -> Verdict:
    """Return the verdict in swebench's folder of an instance.

    ``failure`` is why swebench's process failed; empty if it did not.
    """
    output = saved_output(folder)
    status = VerdictStatus.NOT_EVALUATED
    try:
        report = read_object(folder / REPORT_FILE, "evaluate again")
    except FileNotFoundError:
        log = folder / RUN_LOG
        faults = _records(log, _PATCH_FAULT)
        if faults:
            status = VerdictStatus.UNRESOLVED
            reason = faults[-1].strip()[:300]
        else:
            reason = _first_error(log) or failure or _early_end(log)
    except UserError as error:
        reason = str(error)
    else:
        if shows_end(output):
            part = object_at(report, task.instance_id)
            status = VerdictStatus.UNRESOLVED
            reason = ""
            if part.get("resolved"):
                status = VerdictStatus.RESOLVED
                reason = doubt_official(task, output)
            fault = part.get("infra_failure_reason")
            if fault:
                reason = f"no test results could be read; the output looks like {fault}"
            return task.verdict(
                status,
                reason,
                log=output,
                report=part,
            )
        reason = INCOMPLETE
    return task.verdict(status, reason, log=output)


def process_failure(log: Path) -> str:
    """Return why swebench's process failed, by the last line that it printed."""
    lines = list(filter(str.strip, _text_of(log).splitlines()))
    lines = lines or ["it printed nothing"]
    return _explanation("swebench failed", lines[-1], log)


def saved_output(folder: Path) -> str:
    return _text_of(folder / OUTPUT_FILE)


def _text_of(path: Path) -> str:
    if not path.is_file():
        return ""
    return path.read_text("utf-8", "replace")


def _records(log: Path, pattern: re.Pattern[str]) -> list[str]:
    """Return what ``pattern`` matches in the records of an instance's log."""
    matches = map(pattern.match, _text_of(log).splitlines())
    return [match[1] for match in matches if match]


def _first_error(log: Path) -> str:
    errors = _records(log, _ERROR)
    if not errors:
        return ""
    return _explanation("swebench could not evaluate it", errors[0], log)


def _early_end(log: Path) -> str:
    if not log.parent.is_dir():
        return "swebench left no log"
    return f"swebench ended early; see {log}"


def _explanation(event: str, error: str, log: Path) -> str:
    if _ENGINE_LOST.search(error):
        return ENGINE_STOPPED
    if _CONTAINER_LOST.search(error):
        return (
            "its container stopped during the evaluation, because the Docker engine was started "
            f"again or code in it ended it; repeat the command, or see {log}"
        )
    return f"{event}: {error.strip()[:300]}; see {log}"
