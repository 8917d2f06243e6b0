"""A kind of job of no benchmark: ask a model once, and run a sandboxed command on its reply."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.errors import StoppedError
from environments import Session, run_once
from environments.local.bubblewrap import bubblewrap_works
from environments.local.confinement import Confined, find_confinement
from environments.local.environment import LocalSession
from environments.local.venvs import Built
from llm.chat import Message
from llm.client import LiteLLMModel
from runs.calls.coordinator import CallCoordinator
from runs.calls.gate import AttemptGate, recorded_calls
from runs.engines.ray.nodes import clean
from runs.jobs import Finished, JobAccess, JobKind, WorkerAccess
from runs.options import EngineKind, Scale, Spending
from runs.progress.statuses import InstanceStatus
from runs.redo import Plan, plan
from runs.run import open_run
from runs.session import ModelUse, RunSession
from runs.slots import Slot
from runs.storage.runlock import run_lock
from runs.storage.store import RunStore

RUN = "own"


@dataclass(frozen=True)
class Services:
    worker: WorkerAccess
    commands: Session


def services(worker: WorkerAccess) -> Services:
    folder = worker.work / f"project-{os.getpid()}"
    (folder / "template").mkdir(parents=True)
    built = Built(Path(sys.executable), (), folder / "template", folder / "testbed")
    confined = Confined(find_confinement(), run_key=worker.key, check=worker.stop.check)
    return Services(worker, LocalSession(built, "", "", bubblewrap_works(), ExitStack(), confined))


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

    def work(self, services: Services, access: JobAccess) -> Finished[str]:
        started, stop = time.monotonic(), services.worker.stop
        recorded = recorded_calls(access.calls.entries(self.key), 1)
        gate = AttemptGate(access.calls, self.key, 1, recorded, stop.wait)
        model = LiteLLMModel("gpt-4o", 0.0, 60.0, api_base=self.url, gate=gate)
        try:
            with Slot(services.worker.slots) as slot:
                with slot.given_back():
                    reply = model.complete([Message("user", self.description)])
                written = {"reply": reply.content.encode()}
                result = run_once(services.commands, written, "tr a-z A-Z < reply", 60)
        except StoppedError as error:
            return Finished(self.key, InstanceStatus.INTERRUPTED, f"interrupted: {error}")
        access.log.info("exit code %s", result.exit_code)
        seconds = time.monotonic() - started
        return Finished(self.key, InstanceStatus.PLAUSIBLE, "answered", result.output, seconds)


@dataclass(frozen=True)
class Saver:
    store: RunStore

    def __call__(self, finished: Finished[str], coordinator: CallCoordinator) -> None:
        content: dict[str, Any] = {
            "instance_id": finished.key, "status": finished.status.value, "output": finished.value
        }  # fmt: skip
        if finished.value is None:
            self.store.save_unfinished(finished.key, content)
        else:
            coordinator.ledger.sync()
            self.store.save_instance(finished.key, content, None, None)


def main(out: str, url: str, engine: str, count: str) -> None:
    """Work on questions; the exit code is 3 where a benchmark was loaded, else the run's."""
    store, cache, money = RunStore(Path(out), RUN), Path(out, "cache"), Spending()
    questions = {one.key: one for one in (Question(n, url) for n in range(int(count)))}

    def choose(coordinator: CallCoordinator, say: Any) -> tuple[Sequence[Question], Plan]:
        found = plan(store, money.limits, list(questions))
        open_run(store, {"run": RUN, "deciding": {"count": count}}, questions)
        return [questions[key] for key in found.todo], found

    kind = JobKind(services, Saver(store), packages=("tests",))
    scale = Scale(workers=4, jobs=1, engine=EngineKind(engine))
    with run_lock(store.folder):
        clean(store, cache, containers=False)
        summary = RunSession(store, cache, scale, money, kind, ModelUse(), choose, print).run()
    print(summary.text())
    benchmarks = {name.partition(".")[0] for name in sys.modules} & {"bench", "reports", "demo"}
    sys.exit(3 if benchmarks else summary.exit_code)
