"""The official programs that users run themselves: their predictions files and commands.

They do not run from the package index alone, so nothing here installs or runs them.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pydantic import TypeAdapter

from swe_retry.core.atomic import write_text_atomic
from swe_retry.core.data import read_yaml
from swe_retry.report.evaluation.evaluator import Evaluator, Tasks
from swe_retry.results.verdicts import Verdict

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


_ROWS = read_yaml(__file__, "manual.yaml")
PROGRAMS = TypeAdapter(dict[str, ManualProgram]).validate_python(_ROWS)
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
            verdict = task.no_result(reason)
            yield verdict.but(tool=program.repository)
