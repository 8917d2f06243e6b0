"""What a run writes about an exercise: result, trajectory and transcript."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from exercises.exercism.results import ExerciseStatus
from exercises.exercism.running.job import ATTEMPT, ExerciseWork
from exercises.exercism.running.outcome import Played
from exercises.exercism.running.progress import RunProgress
from exercises.exercism.running.store import ExerciseStore
from exercises.exercism.running.transcript import transcript
from runs.calls.coordinator import CallCoordinator
from runs.calls.journal import EntryKind
from runs.calls.ledger import replayed_lines
from runs.jobs import Finished
from runs.storage.manifest import note_returned

# A provider that refuses so many first calls refuses all of them.
_MOST_REFUSED = 5


@dataclass
class ResultSaver:
    """Saves the results of one start of a run.

    Results of calls that the provider refused wait for the first call that it answers: five of
    them end the run, and then nothing is kept of them.

    Attributes:
        described: what each trajectory says of the whole run.
        replayed: no model is called.
        progress: is told of each result.
        say: prints a line for the user.
        gave_up: the provider's words, where it refused the first calls.
    """

    store: ExerciseStore
    described: Mapping[str, Any]
    replayed: bool
    progress: RunProgress
    say: Callable[[str], None]
    gave_up: str = ""
    _answered: bool = False
    _refused: list[Finished[ExerciseWork]] = field(default_factory=list)
    _returned: set[tuple[str, str]] = field(default_factory=set)

    def __call__(self, finished: Finished[ExerciseWork], coordinator: CallCoordinator) -> None:
        """Save what was done on an exercise.

        Raises:
            OSError: it cannot be written.
        """
        work = finished.value
        if work is None:
            return
        self._note_returned(work.played)
        self._answered = self._answered or bool(work.played.calls) or self._before(coordinator)
        if work.result is None:
            self._keep_unfinished(finished, work.played)
        elif self._answered or work.result.status is not ExerciseStatus.REFUSED:
            self._save(finished, coordinator)
        else:
            self._refused.append(finished)
            self._keep_unfinished(finished, work.played)
        if self._answered:
            while self._refused:
                self._save(self._refused.pop(0), coordinator)
        elif self.gave_up or len(self._refused) == _MOST_REFUSED:
            self._give_up(coordinator)

    def _before(self, coordinator: CallCoordinator) -> bool:
        """Whether a call was answered in an earlier start."""
        answered = EntryKind.ANSWERED.value
        return self.replayed or any(line.kind == answered for line in coordinator.ledger.lines())

    def _give_up(self, coordinator: CallCoordinator) -> None:
        for finished in self._refused:
            self.gave_up = self.gave_up or finished.reason
            # The same command asks again: what was wrong may be corrected by then.
            coordinator.journal(finished.key).retire()
        self._refused.clear()
        coordinator.stop.request(self.gave_up)

    def _save(self, finished: Finished[ExerciseWork], coordinator: CallCoordinator) -> None:
        assert finished.value is not None and finished.value.result is not None
        played, result = finished.value.played, finished.value.result
        if self.replayed:
            model = result.model
            for line in replayed_lines(finished.key, ATTEMPT, model, played.calls):
                coordinator.ledger.add(line)
        coordinator.ledger.sync()
        trajectory = self._trajectory(finished.key, played)
        self.store.save_instance(finished.key, result.as_json(), trajectory, transcript(played))
        self.progress.add(result)

    def _trajectory(self, key: str, played: Played) -> dict[str, Any]:
        return {
            "instance_id": key,
            "title": f"{played.exercise.key}: {played.column.name.label}",
            "status": played.status.value,
            "reason": played.reason,
            "winner": ATTEMPT,
            "attempts": [played.record().as_trajectory()],
            **self.described,
        }

    def _keep_unfinished(self, finished: Finished[ExerciseWork], played: Played) -> None:
        content = {
            "instance_id": finished.key,
            "status": played.status.value,
            "reason": finished.reason,
            "attempts": [played.record().as_trajectory()],
        }
        try:
            self.store.save_unfinished(finished.key, content)
        except OSError as error:  # a full disk must not hide what went wrong first
            self.say(f"{finished.key}: cannot save what was done: {error}")

    def _note_returned(self, played: Played) -> None:
        """Note the names of models in replies at once, because the run may be killed."""
        name = played.column.name.model
        named = {(name, call.reply.model) for call in played.calls if call.reply.model}
        if new := named - self._returned:
            self._returned.update(new)
            with suppress(OSError):  # a full disk must not take what others do
                note_returned(self.store, new)
