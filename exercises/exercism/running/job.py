"""One exercise in one column as a job of a run."""

from __future__ import annotations

import tempfile
import time
import traceback
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from core.errors import InfrastructureError, StoppedError, UserError
from core.processes import remove_tree
from exercises.exercism.exercise import Exercise
from exercises.exercism.results import ExerciseResult, ExerciseStatus
from exercises.exercism.running.config import ExercismConfig, ExercismOptions, RunColumn
from exercises.exercism.running.conversation import ExerciseConversation
from exercises.exercism.running.outcome import Played, played_of
from exercises.exercism.running.pair import alike
from exercises.exercism.running.store import job_key
from exercises.exercism.testing.tester import ExerciseTester, make_tester
from runs.calls.gate import AttemptGate, recorded_calls
from runs.calls.journal import EntryKind
from runs.jobs import Finished, JobAccess, WorkerAccess
from runs.modelsource import LiveModels, ModelSource, NotRecordedError, ReplayedModels, Turn
from runs.progress.state import WorkStep
from runs.progress.statuses import InstanceStatus
from runs.slots import Slot, WaitingModel

# What the machinery of runs does with an end; `FALLBACK` has a result and is not solved.
STATUSES = {
    ExerciseStatus.SOLVED: InstanceStatus.PLAUSIBLE,
    ExerciseStatus.FAILED: InstanceStatus.FALLBACK,
    ExerciseStatus.CONTEXT: InstanceStatus.FALLBACK,
    ExerciseStatus.REFUSED: InstanceStatus.FALLBACK,
    ExerciseStatus.BUDGET: InstanceStatus.BUDGET,
    ExerciseStatus.INFRASTRUCTURE: InstanceStatus.INFRA_ERROR,
    ExerciseStatus.INTERRUPTED: InstanceStatus.INTERRUPTED,
}
# The conversation about an exercise is one attempt, with all its tries.
ATTEMPT = 1


@dataclass(frozen=True)
class ExerciseServices:
    config: ExercismConfig
    worker: WorkerAccess
    models: ModelSource
    tester: ExerciseTester


@dataclass(frozen=True)
class ExerciseServicesFactory:
    """Builds the services; ``close`` releases those of this process."""

    config: ExercismConfig
    options: ExercismOptions
    _made: list[ExerciseTester] = field(default_factory=list)

    def __call__(self, worker: WorkerAccess) -> ExerciseServices:
        config, options = self.config, self.options
        tester = make_tester(
            config.environment, config.test_settings, worker.cache, worker.key,
            worker.stop.check, worker.warn_once,
        )  # fmt: skip
        self._made.append(tester)
        models = LiveModels(config, options.retries, worker.warn_once, options.money.prices)
        return ExerciseServices(config, worker, models, tester)

    def close(self) -> None:
        while self._made:
            self._made.pop().close()


@dataclass(frozen=True)
class ExerciseWork:
    """The work on an exercise; it must be redone where ``result`` is None."""

    played: Played
    result: ExerciseResult | None = None


@dataclass(frozen=True)
class ExerciseJob:
    """An exercise in a column; ``recordings`` are replayed, None where models are called."""

    exercise: Exercise
    column: RunColumn
    recordings: ReplayedModels | None = None

    @property
    def key(self) -> str:
        return job_key(self.column.name, self.exercise.key)

    @property
    def description(self) -> str:
        return f"{self.exercise.key} {self.column.name.label}"

    @property
    def group(self) -> str:
        """The exercise: its tests take equally long in all columns."""
        return self.exercise.key

    def portable(self) -> ExerciseJob:
        if self.recordings is None:
            return self
        read = {self.key: self.recordings.attempts(self.key)}
        return replace(self, recordings=replace(self.recordings, read=read))

    def work(self, services: ExerciseServices, access: JobAccess) -> Finished[ExerciseWork]:
        started = time.monotonic()
        one = _Work(self, services, access)
        try:
            work = one.done()
        except UserError:
            raise
        except StoppedError as error:
            work = one.broken(ExerciseStatus.INTERRUPTED, f"interrupted: {error}")
        except (InfrastructureError, OSError) as error:
            access.log.error("%s", traceback.format_exc())
            work = one.broken(ExerciseStatus.INFRASTRUCTURE, str(error))
        except Exception as error:  # a fault of the harness must not end the others
            access.log.error("%s", traceback.format_exc())
            words = f"the harness failed: {error!r}"
            work = one.broken(ExerciseStatus.INFRASTRUCTURE, words)
        played, seconds = work.played, time.monotonic() - started
        access.log.info("%s: %s", played.status.value, played.reason)
        return Finished(self.key, STATUSES[played.status], played.reason, work, seconds)


@dataclass
class _Work:
    job: ExerciseJob
    services: ExerciseServices
    access: JobAccess
    _turn: Turn | None = None
    _conversation: ExerciseConversation | None = None

    def done(self) -> ExerciseWork:
        work = self.services.worker.work
        work.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(dir=work, prefix=f"{self.job.exercise.name}."))
        try:
            with Slot(self.services.worker.slots) as slot:
                try:
                    self._play(folder, slot)
                except NotRecordedError:
                    words = f"--replay {self.services.config.replay} has no recording of it"
                    return self.broken(ExerciseStatus.INFRASTRUCTURE, words)
        finally:
            remove_tree(folder)
        played = self._played()
        if not played.status.is_result or played.not_started:
            return ExerciseWork(played)
        kinds = (EntryKind.REFUSED.value, EntryKind.FAILED.value)
        entries = self.access.calls.entries(self.job.key)
        errors = sum(entry.get("kind") in kinds for entry in entries)
        return ExerciseWork(played, played.result(errors))

    def _play(self, folder: Path, slot: Slot) -> None:
        job, config = self.job, self.services.config
        source = job.recordings or self.services.models
        calls = self.access.calls
        gate = AttemptGate(
            coordinator=calls,
            instance_id=job.key,
            attempt=ATTEMPT,
            recorded_calls=recorded_calls(calls.entries(job.key), ATTEMPT),
            sleep=self.services.worker.stop.wait,
            seconds=config.max_seconds_per_attempt,
        )
        turn = source.turn(job.key, ATTEMPT, job.column.choice, 0.0, gate)
        models = (turn.model, turn.architect) if turn.architect else (turn.model,)
        asking = [
            WaitingModel(one, slot, self._step, lambda: None)
            for one in alike(models, job.column.name.model)
        ]
        self._turn = turn
        self._conversation = ExerciseConversation(
            exercise=job.exercise,
            config=config,
            edit_format=turn.edit_format,
            model=asking[0],
            architect=asking[1] if turn.architect else None,
            tester=self.services.tester,
            root=folder,
            log=self.access.log.info,
            testing=partial(self._step, WorkStep.TESTING),
        )
        self._conversation.run()

    def _step(self, step: WorkStep) -> None:
        tries = len(self._conversation.works) if self._conversation else 0
        self.access.steps.step(self.job.key, tries + 1, "", step)

    def _played(self) -> Played:
        return played_of(self.job.exercise, self.job.column, self._turn, self._conversation)

    def broken(self, status: ExerciseStatus, reason: str) -> ExerciseWork:
        return ExerciseWork(replace(self._played(), status=status, reason=reason, error=reason))
