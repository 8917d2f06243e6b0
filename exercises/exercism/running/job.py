"""One exercise in one column as a job of a run."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from bench.attempts.records import AttemptRecord
from core.processes import remove_tree
from exercises.exercism.exercise import Exercise
from exercises.exercism.results import ExerciseResult, ExerciseStatus
from exercises.exercism.running.config import ExercismConfig, RunColumn
from exercises.exercism.running.conversation import ExerciseConversation
from exercises.exercism.running.outcome import Played, played_of
from exercises.exercism.running.pair import alike
from exercises.exercism.running.store import job_key
from exercises.exercism.testing.tester import ExerciseTester
from runs.calls.journal import EntryKind
from runs.jobs import End, JobContext
from runs.modelsource import ModelSource, NotRecordedError, ReplayedModels, Turn
from runs.progress.state import JobStatus, WorkStep
from runs.slots import WaitingModel

# What the machinery of runs does with an end; `failed` has a result.
_STATUSES = {
    ExerciseStatus.SOLVED: JobStatus.DONE,
    ExerciseStatus.BUDGET: JobStatus.BUDGET,
    ExerciseStatus.INFRASTRUCTURE: JobStatus.INFRA_ERROR,
    ExerciseStatus.INTERRUPTED: JobStatus.INTERRUPTED,
}
# The conversation about an exercise is one attempt, with all its tries.
ATTEMPT = 1


@dataclass(frozen=True)
class ExerciseServices:
    config: ExercismConfig
    models: ModelSource
    tester: ExerciseTester


@dataclass(frozen=True)
class SavedExercise:
    """A result with the conversation that it is of."""

    played: Played
    result: ExerciseResult


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

    def start(self, services: ExerciseServices, context: JobContext) -> ExerciseWork:
        return ExerciseWork(self, services, context)


@dataclass
class ExerciseWork:
    """The work on an exercise; all its tries are one attempt."""

    job: ExerciseJob
    services: ExerciseServices
    context: JobContext
    _turn: Turn | None = None
    _conversation: ExerciseConversation | None = None

    def run(self) -> End[SavedExercise]:
        work = self.context.worker.work
        work.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(dir=work, prefix=f"{self.job.exercise.name}."))
        try:
            with self.context.slot:
                self._play(folder)
        except NotRecordedError:
            words = f"--replay {self.services.config.replay} has no recording of it"
            return End(JobStatus.INFRA_ERROR, words)
        finally:
            remove_tree(folder)
        played = self._played()
        status = _STATUSES.get(played.status, JobStatus.FAILED)
        if not played.status.is_result or played.not_started:
            return End(status, played.reason)
        kinds = (EntryKind.REFUSED.value, EntryKind.FAILED.value)
        entries = self.context.calls.entries(self.job.key)
        errors = sum(entry.get("kind") in kinds for entry in entries)
        saved = SavedExercise(played, played.result(errors))
        return End(status, played.reason, saved, played.status.value)

    def attempts(self, end: End[Any]) -> Sequence[AttemptRecord]:
        played = self._played()
        if end.value is None and end.status is not JobStatus.BUDGET:
            interrupted = end.status is JobStatus.INTERRUPTED
            status = ExerciseStatus.INTERRUPTED if interrupted else ExerciseStatus.INFRASTRUCTURE
            played = replace(played, status=status, reason=end.reason, error=end.reason)
        return [played.record()]

    def _play(self, folder: Path) -> None:
        job, config, slot = self.job, self.services.config, self.context.slot
        source = job.recordings or self.services.models
        gate = self.context.gate(ATTEMPT, config.max_seconds_per_attempt)
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
            log=self.context.log.info,
            testing=partial(self._step, WorkStep.TESTING),
        )
        self._conversation.run()

    def _step(self, step: WorkStep) -> None:
        tries = len(self._conversation.works) if self._conversation else 0
        self.context.step(tries + 1, "", step)

    def _played(self) -> Played:
        return played_of(self.job.exercise, self.job.column, self._turn, self._conversation)
