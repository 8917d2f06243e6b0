from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from swe_retry.environments.base import ResourceLimits, Session, run_once
from swe_retry.environments.local.bubblewrap import bubblewrap_works
from swe_retry.environments.local.confinement import Confined, find_confinement
from swe_retry.environments.local.environment import LocalSession
from swe_retry.environments.local.venvs import Built
from swe_retry.llm.chat import Message
from swe_retry.llm.client import LiteLLMModel
from swe_retry.record.records import Attempt
from swe_retry.record.store import RunStore
from swe_retry.runner.benchmark import Benchmark
from swe_retry.runner.config import CommonConfig
from swe_retry.runner.jobs import End, Finished, JobContext, WorkerAccess
from swe_retry.runner.progress.state import DONE
from swe_retry.runner.session import start_run
from swe_retry.runner.settings import CommonSettings, FolderSettings, ScaleSettings
from tests.architecture import ROOMS

RUN = "own"


@dataclass(frozen=True)
class Services:
    worker: WorkerAccess
    commands: Session


def services(worker: WorkerAccess) -> Services:
    folder = worker.work / f"project-{os.getpid()}"
    (folder / "template").mkdir(parents=True)
    python = Path(sys.executable)
    built = Built(python, folder, (), folder / "template", folder / "testbed", ())
    confined = Confined(
        find_confinement(), ResourceLimits(), worker.key, worker.stop.check
    )
    session = LocalSession(built, "", "", bubblewrap_works(), confined)
    return Services(worker, session)


@dataclass(frozen=True)
class Question:
    number: int
    url: str

    @property
    def key(self) -> str:
        return f"question-{self.number}"

    @property
    def description(self) -> str:
        return f"question {self.number}"

    @property
    def group(self) -> str:
        return "question"

    def portable(self) -> Question:
        return self

    def start(self, services: Services, context: JobContext) -> Asking:
        return Asking(self, services, context)


@dataclass(frozen=True)
class Asking:
    question: Question
    services: Services
    context: JobContext

    def attempts(self, end: End[Any]) -> Sequence[Attempt]:
        return ()

    def run(self) -> End[str]:
        question = self.question
        gate = self.context.gate(1)
        model = LiteLLMModel("gpt-4o", 0.0, 60.0, api_base=question.url, gate=gate)
        with self.context.slot as slot:
            with slot.given_back():
                reply = model.complete([Message("user", question.description)])
            written = {"reply": reply.content.encode()}
            result = run_once(self.services.commands, written, "tr a-z A-Z < reply", 60)
        self.context.log.info("exit code %s", result.exit_code)
        return End(DONE, "answered", result.output)


@dataclass(frozen=True)
class Config(CommonConfig):
    @property
    def run_name(self) -> str:
        return RUN

    @property
    def calls_models(self) -> bool:
        return False


@dataclass
class Questions(Benchmark[str]):
    """Asks some questions."""

    packages = ("tests",)

    selected: Mapping[str, Question]

    @property
    def jobs(self) -> Mapping[str, Question]:
        return self.selected

    def services(self) -> Callable[[WorkerAccess], Services]:
        return services

    def deciding(self) -> dict[str, Any]:
        return {"count": len(self.jobs)}

    def save(self, finished: Finished[str]) -> None:
        content = {
            "instance_id": finished.key,
            "status": str(finished.end.status),
            "output": finished.end.value,
        }
        self.store.save_instance(finished.key, content, None, None)


def main(
    out: str,
    url: str,
    ray: str,
    count: str,
) -> None:
    """Work on questions; the exit code is 3 where a benchmark was loaded, else the run's.

    What this process loaded before does not count.
    """
    for name in loaded_benchmarks():
        del sys.modules[name]
    settings = CommonSettings(
        scale=ScaleSettings(workers=4, jobs=1, ray=ray),
        folders=FolderSettings(out=Path(out), cache=Path(out, "cache")),
    )
    config = Config(settings, prints_json=True)
    questions = {}
    for number in range(int(count)):
        question = Question(number, url)
        questions[question.key] = question
    store = RunStore(Path(out), RUN)
    code = start_run(Questions(config, store, print, questions))
    sys.exit(3 if loaded_benchmarks() else code)


_FIRST_ABOVE = ROOMS.index("swe_retry/runner") + 1
ABOVE_RUNNER = tuple(room.replace("/", ".") for room in ROOMS[_FIRST_ABOVE:])


def loaded_benchmarks() -> list[str]:
    """Return the modules of benchmarks that are loaded."""
    names = []
    for name in sys.modules:
        if name.startswith(ABOVE_RUNNER):
            names.append(name)
    return names
