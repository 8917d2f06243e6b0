"""The official programs that users run themselves: their predictions files and commands.

They do not run from the package index alone, so nothing here installs or runs them.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from core.atomic import write_text_atomic
from core.plaintext import Say
from reports.data.verdicts import Verdict, VerdictStatus
from reports.evaluation.evaluators.base import (
    MODEL,
    Evaluator,
    Tasks,
    swebench_prediction,
)
from reports.evaluation.evaluators.official.tool import row_id


def _pro_predictions(tasks: Tasks) -> object:
    return [
        {"instance_id": row_id(task), "patch": task.prediction.patch, "prefix": MODEL}
        for task in tasks
    ]


def _live_predictions(tasks: Tasks) -> object:
    return {row_id(task): {"model_patch": task.prediction.patch} for task in tasks}


def _rebench_v2_predictions(tasks: Tasks) -> object:
    return [
        {"instance_id": row_id(task), "patch": task.prediction.patch} for task in tasks
    ]


def _swebench_predictions(tasks: Tasks) -> object:
    return [swebench_prediction(row_id(task), task) for task in tasks]


def _smith_predictions(tasks: Tasks) -> object:
    return {row_id(task): swebench_prediction(row_id(task), task) for task in tasks}


def _gym_predictions(tasks: Tasks) -> object:
    # The program looks predictions up by ids in small letters.
    return [swebench_prediction(row_id(task).lower(), task) for task in tasks]


@dataclass(frozen=True)
class ManualProgram:
    """An official program that comes as a checkout alone."""

    name: str  # the value of ``--evaluator``
    repository: str  # OWNER/NAME of the code
    predictions: Callable[[Tasks], object]  # makes the content of its predictions file
    command: str  # to run in the checkout, with {file}, {ids} and {run_id} to fill in


_SWEBENCH = (
    "python -m swebench.harness.run_evaluation --dataset_name ROWS --split SPLIT "
    "--predictions_path {file} --run_id {run_id}"
)
_PROGRAMS = (
    ManualProgram(
        "pro",
        "scaleapi/SWE-bench_Pro-os",
        _pro_predictions,
        "python swe_bench_pro_eval.py --raw_sample_path ROWS --patch_path {file} "
        "--output_dir results --scripts_dir run_scripts --dockerhub_username jefzda "
        "--use_local_docker",
    ),
    ManualProgram(
        "live",
        "microsoft/SWE-bench-Live",
        _live_predictions,
        "python -m evaluation.evaluation --dataset ROWS --patch_dir {file} --platform linux "
        "--workers 2 --overwrite 1 --output_dir results",
    ),
    ManualProgram(
        "live-python",
        "microsoft/SWE-bench-Live, branch python-only",
        _swebench_predictions,
        f"{_SWEBENCH} --namespace starryzhang",
    ),
    ManualProgram(
        "rebench",
        "SWE-rebench/SWE-bench-fork",
        _swebench_predictions,
        f"{_SWEBENCH} --namespace swerebench",
    ),
    # It evaluates the gold patch of each row that has no prediction, unless the ids are given.
    ManualProgram(
        "rebench-v2",
        "SWE-rebench/SWE-rebench-V2",
        _rebench_v2_predictions,
        "python scripts/eval.py --json ROWS --patches {file} --instance-ids {ids} "
        "--report-json results.json",
    ),
    ManualProgram("gym", "SWE-Gym/SWE-Bench-Fork", _gym_predictions, _SWEBENCH),
    ManualProgram(
        "smith",
        "SWE-bench/SWE-smith",
        _smith_predictions,
        "python -m swesmith.harness.eval --dataset_path ROWS --predictions_path {file} "
        "--run_id {run_id}",
    ),
)
PROGRAMS: Mapping[str, ManualProgram] = {program.name: program for program in _PROGRAMS}
"""By the value of ``--evaluator``; ``MANUAL_TOOLS`` lists these values for the user."""


@dataclass(frozen=True)
class ManualEvaluator(Evaluator):
    """Writes the predictions file of a program, says how to run it, and evaluates nothing."""

    program: ManualProgram
    folder: Path  # for the predictions files
    say: Say

    @property
    def name(self) -> str:
        return self.program.name

    def evaluate(self, tasks: Tasks, run_id: str) -> Iterator[Verdict]:
        file = self.folder.resolve() / f"{run_id}.json"
        predictions = self.program.predictions(tasks)
        write_text_atomic(file, json.dumps(predictions, indent=1) + "\n")
        command = self.program.command.format(
            file=shlex.quote(str(file)),
            ids=",".join(row_id(task) for task in tasks),
            run_id=run_id,
        )
        repository = self.program.repository
        self.say(
            f"{self.name}: run in a checkout of {repository} (docs/evaluators.md): {command}"
        )
        reason = f"run the program of {repository} on {file}"
        for task in tasks:
            yield Verdict(
                instance_id=task.instance_id,
                status=VerdictStatus.NOT_EVALUATED,
                evaluator=self.name,
                reason=reason,
                tool=repository,
            )
