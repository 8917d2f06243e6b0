from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from swe_retry.agent.formats import format_names, get_format
from swe_retry.agent.formats.protocol import EditFormat, Notation
from swe_retry.core.atomic import write_json_atomic
from swe_retry.environments.folders import FolderResult
from swe_retry.environments.local.bubblewrap import bubblewrap_works
from swe_retry.record.result import InstanceStatus
from swe_retry_exercises.exercism.__main__ import PROGRAM
from swe_retry_exercises.exercism.catalog import Exercise, read_catalog
from swe_retry_exercises.exercism.languages import REPORT, argv
from swe_retry_exercises.exercism.messages import PROFILES, Profile
from swe_retry_exercises.exercism.records import RECORD, Record, read_records
from swe_retry_exercises.exercism.results import (
    KEY,
    ExerciseResult,
    Extra,
    RunFacts,
)
from tests.support import write_files
from tests.support.provider import Answer, Provider
from tests.support.render_edits import render

SIX = Path(__file__).parents[1] / "data/exercism"


def main(argv: Sequence[object]) -> int:
    """Run a command of the benchmark in this process and return its exit code."""
    sys.argv = ["exercism", *map(str, argv)]
    return PROGRAM.main()


def six() -> dict[str, Exercise]:
    """Return our exercises by name."""
    return {exercise.name: exercise for exercise in read_catalog(SIX).exercises}


def run_tests(
    files: Mapping[str, bytes],
    exercise: Exercise,
    folder: Path,
    *,
    unittest: bool = False,
) -> FolderResult:
    """Run the command of the language in ``folder`` made of ``files``."""
    write_files(folder, files)
    rules = exercise.rules
    command = argv(rules.unittest if unittest else rules.test, exercise.name)
    env = {**os.environ, **rules.variables}
    done = subprocess.run(
        [sys.executable, *command[1:]],
        cwd=folder,
        env=env,
        text=True,
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    report = (
        {REPORT: (folder / REPORT).read_bytes()} if (folder / REPORT).exists() else {}
    )
    return FolderResult(done.stdout, done.returncode, 1.0, files=report)


def profile_of(unittest: bool, timeout: float = 60.0) -> Profile:
    """Return the profile of 2023 or the current one with this limit."""
    return replace(PROFILES["2023" if unittest else "current"], timeout=timeout)


def result(
    key: str,
    outcomes: Sequence[bool] = (True,),
    model: str = "gpt-4o",
    edit_format: str = "diff",
    repeat: int = 1,
    **values: Any,
) -> ExerciseResult:
    """Return a result; ``values`` are of the file and of its ``extra``."""
    language, _, name = key.partition("/")
    status = InstanceStatus.FAILED
    if any(outcomes):
        status = InstanceStatus.SOLVED
    extra = {k: values.pop(k) for k in list(values) if k in Extra.model_fields}
    values = {"cost": Decimal("0.25"), "duration": 10.0, **values}
    return ExerciseResult(
        testdir=f"{language}/{name}",
        testcase=name,
        model=model,
        edit_format=edit_format,
        tests_outcomes=tuple(outcomes),
        **values,
        extra=Extra(
            **{"status": status, "language": language, "repeat": repeat, **extra}
        ),
    )


def write_result(run: Path, result: ExerciseResult) -> Path:
    """Write a result and return its path."""
    path = result.column.result_path(run, result.key)
    write_json_atomic(path, result.as_json())
    return path


def write_run(
    folder: Path,
    results: Sequence[ExerciseResult],
    exercises: Sequence[str] = (),
    **facts: Any,
) -> Path:
    """Write a run with these results, in the columns that they name."""
    columns = tuple(dict.fromkeys(result.column for result in results))
    keys = tuple(exercises or dict.fromkeys(r.key for r in results))
    facts_of_run = RunFacts(columns=columns, exercises=keys, profile="current", **facts)
    write_json_atomic(folder / "run.json", {KEY: facts_of_run.as_json()})
    for result in results:
        write_result(folder, result)
    return folder


Contents = Mapping[str, bytes]
_NAMES = re.compile(r"^Use the above instructions .* supplied files: (.*)$", re.M)
NOTHING = "Nothing needs to change."


def stubs(exercise: Exercise, try_: int) -> Contents:
    return exercise.stubs()


def examples(exercise: Exercise, try_: int) -> Contents:
    return exercise.example()


def late_examples(exercise: Exercise, try_: int) -> Contents:
    if try_ == 1:
        return exercise.stubs()
    return exercise.example()


class ExerciseProvider(Provider):
    """Answers by what is asked alone: exercise, format, and number of the message.

    Attributes:
        solution: returns the files of an exercise after a try, from 1.
        latency: seconds before each answer.
    """

    def __init__(
        self,
        exercises: Sequence[Exercise],
        solution: Callable[[Exercise, int], Contents] = examples,
        notation: Notation = Notation.CURRENT,
        latency: float = 0.0,
    ) -> None:
        super().__init__()
        self.solution = solution
        self.latency = latency
        self._by_solution = {
            " ".join(exercise.solution): exercise for exercise in exercises
        }
        forms = [get_format(name, notation=notation) for name in format_names(notation)]
        self._forms = {}
        for form in forms:
            title, _, _ = form.instructions("```").partition("\n")
            self._forms[f"{title}\n"] = form

    def answer(self, request: dict[str, Any]) -> Answer:
        prompts = [
            str(m["content"]) for m in request["messages"] if m["role"] == "user"
        ]
        exercise = self._by_solution[_NAMES.findall(prompts[0])[-1]]
        before = (
            exercise.stubs()
            if len(prompts) == 1
            else self.solution(exercise, len(prompts) - 1)
        )
        after = self.solution(exercise, len(prompts))
        return rendered(self.form(request), before, after, self.latency)

    def form(self, request: Mapping[str, Any]) -> EditFormat:
        """Return the format whose rules are in the system message."""
        system = request["messages"][0]["content"]
        return next(form for title, form in self._forms.items() if title in system)


def rendered(
    form: EditFormat,
    before: Contents,
    after: Contents,
    latency: float = 0.0,
) -> Answer:
    """Return the answer that turns the files ``before`` into ``after``."""
    replies = []
    for path, data in before.items():
        if after[path] != data:
            replies.append(render(form, path, data.decode(), after[path].decode()))
    calls = tuple(
        (call.name, call.arguments) for reply in replies for call in reply.tool_calls
    )
    text = "\n".join(reply.content for reply in replies)
    return Answer(text if replies else NOTHING, tool_calls=calls, hang=latency)


needs_bubblewrap = pytest.mark.skipif(
    not bubblewrap_works(), reason="bubblewrap is not installed"
)
# Two tests each, and one that its stub passes.
THREE = "cuckoo-clock,garden-path,tidy-receipt"


@dataclass(frozen=True)
class ExerciseRun:
    """A run ``r`` below ``out``."""

    out: Path
    cache: Path
    options: tuple[str, ...] = field(default=())

    @property
    def folder(self) -> Path:
        return self.out / "predictions" / "r"

    def argv(self, provider: Provider | None, exercises: Path = SIX) -> list[str]:
        """Return the words of the command."""
        base = ["--api-base", provider.url] if provider else []
        return [
            "--models",
            "gpt-4o",
            "--exercises",
            str(exercises),
            "--run",
            "r",
            "--environment",
            "local",
            "--out",
            str(self.out),
            "--set",
            f"folders.cache={self.cache}",
            "--workers",
            "4",
            "--set",
            "scale.jobs=2",
            *base,
            *self.options,
        ]

    def run(
        self,
        provider: Provider | None,
        *options: str,
        exercises: Path = SIX,
    ) -> int:
        """Run the command in this process and return its exit code."""
        return main(["run", *self.argv(provider, exercises), *options])

    def records(self) -> Mapping[str, Record]:
        """Return the records by edit format."""
        return {
            record["edit_format"]: record
            for record in read_records(self.folder / RECORD)
        }

    def results(self) -> dict[str, Any]:
        """Return the results by path, without what depends on the clock."""
        return {
            str(path.relative_to(self.folder)): timeless(json.loads(path.read_text()))
            for path in sorted((self.folder / "results").rglob("*.json"))
        }

    def result(self, edit_format: str, name: str) -> dict[str, Any]:
        return dict(
            self.results()[f"results/gpt-4o.{edit_format}.1/python/{name}.json"]
        )


def timeless(value: Any) -> Any:
    """Return a value of a result file without seconds."""
    if isinstance(value, dict):
        return {
            k: timeless(v) for k, v in value.items() if k not in ("duration", "seconds")
        }
    if isinstance(value, list):
        return [timeless(item) for item in value]
    return value


def requests(provider: Provider) -> list[str]:
    """Return all requests as they were sent, sorted: workers send them in any order."""
    return sorted(json.dumps(request, sort_keys=True) for request in provider.requests)
