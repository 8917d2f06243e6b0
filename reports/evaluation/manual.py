"""The official programs that users run themselves: their predictions files and commands.

They do not run from the package index alone, so nothing here installs or runs them.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from core.atomic import write_text_atomic
from reports.data.verdicts import Verdict, VerdictStatus
from reports.evaluation.evaluator import Evaluator, Tasks

# Programs name folders by the model, so a run's own name is not used.
_MODEL = "candidate"


@dataclass(frozen=True)
class ManualProgram:
    """An official program that comes as a checkout alone.

    Attributes:
        repository: OWNER/NAME of the code.
        keys: of a prediction in its file, each with what it holds: ``id``, ``patch``, ``model``, or
            ``small_id``, the id in small letters.
        command: to run in the checkout, with {file}, {ids} and {run_id} to fill in.
        by_id: the file holds an object by id instead of a list.
    """

    repository: str
    keys: Mapping[str, str]
    command: str
    by_id: bool = False


_SWEBENCH_KEYS = {
    "instance_id": "id",
    "model_name_or_path": "model",
    "model_patch": "patch",
}
_SWEBENCH = (
    "python -m swebench.harness.run_evaluation --dataset_name ROWS --split SPLIT "
    "--predictions_path {file} --run_id {run_id}"
)
PROGRAMS: Mapping[str, ManualProgram] = {
    "pro": ManualProgram(
        "scaleapi/SWE-bench_Pro-os",
        {"instance_id": "id", "patch": "patch", "prefix": "model"},
        "python swe_bench_pro_eval.py --raw_sample_path ROWS --patch_path {file} "
        "--output_dir results --scripts_dir run_scripts --dockerhub_username jefzda "
        "--use_local_docker",
    ),
    "live": ManualProgram(
        "microsoft/SWE-bench-Live",
        {"model_patch": "patch"},
        "python -m evaluation.evaluation --dataset ROWS --patch_dir {file} --platform linux "
        "--workers 2 --overwrite 1 --output_dir results",
        by_id=True,
    ),
    "live-python": ManualProgram(
        "microsoft/SWE-bench-Live, branch python-only",
        _SWEBENCH_KEYS,
        f"{_SWEBENCH} --namespace starryzhang",
    ),
    "rebench": ManualProgram(
        "SWE-rebench/SWE-bench-fork",
        _SWEBENCH_KEYS,
        f"{_SWEBENCH} --namespace swerebench",
    ),
    # It evaluates the gold patch of each row that has no prediction, unless the ids are given.
    "rebench-v2": ManualProgram(
        "SWE-rebench/SWE-rebench-V2",
        {"instance_id": "id", "patch": "patch"},
        "python scripts/eval.py --json ROWS --patches {file} --instance-ids {ids} "
        "--report-json results.json",
    ),
    # It looks predictions up by ids in small letters.
    "gym": ManualProgram(
        "SWE-Gym/SWE-Bench-Fork",
        {**_SWEBENCH_KEYS, "instance_id": "small_id"},
        _SWEBENCH,
    ),
    "smith": ManualProgram(
        "SWE-bench/SWE-smith",
        _SWEBENCH_KEYS,
        "python -m swesmith.harness.eval --dataset_path ROWS --predictions_path {file} "
        "--run_id {run_id}",
        by_id=True,
    ),
}
"""By the value of ``--evaluator``; ``MANUAL_TOOLS`` lists these values for the user."""


class ManualEvaluator(Evaluator):
    """Writes the predictions file of a program, says how to run it, and evaluates nothing."""

    def evaluate(self, tasks: Tasks, run_id: str) -> Iterator[Verdict]:
        program = PROGRAMS[self.name]
        predictions = {}
        for task in tasks:
            name = task.official_id
            values = {
                "id": name,
                "small_id": name.lower(),
                "patch": task.prediction.patch,
                "model": _MODEL,
            }
            predictions[name] = {
                key: values[value] for key, value in program.keys.items()
            }
        content: object = predictions
        if not program.by_id:
            content = list(predictions.values())
        file = self.folder.resolve() / f"{run_id}.json"
        write_text_atomic(file, json.dumps(content, indent=1) + "\n")
        command = program.command.format(
            file=shlex.quote(str(file)),
            ids=",".join(predictions),
            run_id=run_id,
        )
        self.say(
            f"{self.name}: run in a checkout of {program.repository} "
            f"(docs/evaluators.md): {command}"
        )
        reason = f"run the program of {program.repository} on {file}"
        for task in tasks:
            verdict = task.verdict(self.name, VerdictStatus.NOT_EVALUATED, reason)
            yield verdict.but(tool=program.repository)
