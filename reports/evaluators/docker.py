"""The official evaluator: swebench in its own process, its containers and its log layout."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agent.errors import InfrastructureError, UserError
from agent.processes import without_secrets
from reports.evaluators.base import Job, Verdict, VerdictStatus, verdict_of_report

# Where swebench leaves no report because of the patch and not of the engine: its APPLY_PATCH_FAIL,
# and a test run that did not end.
_PATCH_FAULTS = (">>>>> Patch Apply Failed", "Test timed out after")
_NEEDED = ("image", "log_parser", "eval_type", "eval_script", "FAIL_TO_PASS", "PASS_TO_PASS")


@dataclass(frozen=True)
class DockerEvaluator:
    """Runs ``swebench.harness.run_evaluation``.

    Attributes:
        folder: where swebench writes its logs; verdicts of the same run id are taken from there.
        prepare: is called with the instance ids before, to build or pull images.
    """

    folder: Path
    workers: int
    timeout: float
    split: str
    prepare: Callable[[Sequence[str]], None]
    name: str = field(default="docker", init=False)

    def evaluate(self, jobs: Sequence[Job], run_id: str) -> dict[str, Verdict]:
        """Return the official verdicts; see ``Evaluator``."""
        for job in jobs:
            _check(job)
        self.prepare([job.instance.instance_id for job in jobs])
        self.folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as scratch:
            self._swebench(jobs, run_id, Path(scratch))
        return {job.instance.instance_id: self._verdict(job, run_id) for job in jobs}

    def _swebench(self, jobs: Sequence[Job], run_id: str, scratch: Path) -> None:
        # The dataset goes in a file of its own: it holds the answers, and only the rows needed.
        dataset, predictions = scratch / "dataset.json", scratch / "preds.json"
        rows = [dict(job.evaluation.row) for job in jobs]
        dataset.write_text(json.dumps(rows, default=str), encoding="utf-8")
        predictions.write_text(json.dumps([_swebench_prediction(job) for job in jobs]))
        argv = [
            sys.executable, "-m", "swebench.harness.run_evaluation",
            "--dataset_name", dataset, "--split", self.split, "--predictions_path", predictions,
            "--run_id", run_id, "--max_workers", self.workers, "--timeout", int(self.timeout),
        ]  # fmt: skip
        log = self.folder / f"{run_id}.log"
        with log.open("wb") as output:
            result = subprocess.run(
                [str(word) for word in argv], cwd=self.folder, stdin=subprocess.DEVNULL,
                stdout=output, stderr=subprocess.STDOUT, check=False,
                env={**without_secrets(os.environ), "HF_HUB_OFFLINE": "1"},
            )  # fmt: skip
        if result.returncode:
            raise InfrastructureError(f"swebench failed: {_last_line(log)}; see {log}")

    def _verdict(self, job: Job, run_id: str) -> Verdict:
        name = job.instance.instance_id
        folder = self._instance_folder(job, run_id)
        report = folder / "report.json" if folder else None
        if folder is None or report is None or not report.is_file():
            reason = _reason(folder) if folder else "swebench left no log"
            fault = any(words in reason for words in _PATCH_FAULTS)
            status = VerdictStatus.UNRESOLVED if fault else VerdictStatus.NOT_EVALUATED
            return Verdict(name, status, self.name, reason, _log(folder))
        data = json.loads(report.read_text(encoding="utf-8"))
        return verdict_of_report(job, data, _log(folder), self.name)

    def _instance_folder(self, job: Job, run_id: str) -> Path | None:
        """Find where swebench put an instance's logs; versions differ in the folders above."""
        model = job.prediction.model_name_or_path.replace("/", "__")
        tail = f"{run_id}/{model}/{job.instance.instance_id}"
        return next((path for path in self.folder.glob(f"**/{tail}") if path.is_dir()), None)


def _check(job: Job) -> None:
    missing = [key for key in _NEEDED if not job.evaluation.row.get(key)]
    missing = [key for key in missing if key != "PASS_TO_PASS"]
    if missing:
        raise UserError(
            f"instance {job.instance.instance_id}: the dataset lacks {', '.join(missing)}, which "
            "the evaluator needs; give --dataset lite (or the hub id) or --evaluator none"
        )


def _swebench_prediction(job: Job) -> dict[str, str]:
    return {
        "instance_id": job.instance.instance_id,
        "model_name_or_path": job.prediction.model_name_or_path,
        "model_patch": job.prediction.patch,
    }


def _log(folder: Path | None) -> str:
    output = folder / "test_output.txt" if folder else None
    return output.read_text("utf-8", "replace") if output and output.is_file() else ""


def _reason(folder: Path) -> str:
    """Return why there is no report: the patch's fault, else the last error of the log."""
    log = folder / "run_instance.log"
    lines = log.read_text("utf-8", "replace").splitlines() if log.is_file() else []
    faults = [line for line in lines if any(words in line for words in _PATCH_FAULTS)]
    errors = [line for line in lines if "Error" in line or "Failed" in line]
    return (faults or errors or lines or ["no log"])[-1].strip()[:300]


def _last_line(log: Path) -> str:
    lines = [line for line in log.read_text("utf-8", "replace").splitlines() if line.strip()]
    return lines[-1][:300] if lines else "it printed nothing"
