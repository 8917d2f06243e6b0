"""What a run writes about an instance: prediction, trajectory and transcript."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from bench.attempts.records import AttemptRecord, total_cost
from bench.attempts.solving import InstanceWork, Solved
from bench.attempts.transcript import title_of, transcript
from bench.config import RunConfig
from core.money import as_number
from runs.calls.coordinator import CallCoordinator
from runs.calls.ledger import replayed_lines
from runs.jobs import Finished
from runs.storage.manifest import all_versions, note_returned
from runs.storage.store import RunStore


@dataclass(frozen=True)
class Saver:
    """Saves the results of one start of a run."""

    store: RunStore
    config: RunConfig
    say: Callable[[str], None]
    _returned: set[tuple[str, str]] = field(default_factory=set)

    def __call__(self, finished: Finished[InstanceWork], coordinator: CallCoordinator) -> None:
        work = finished.value or InstanceWork((), None)
        try:
            if work.solved is None:
                self._keep_unfinished(finished, work.records)
            else:
                self._save(work.solved, coordinator)
        finally:
            self._note_returned(work.records)

    def _save(self, solved: Solved, coordinator: CallCoordinator) -> None:
        name = solved.instance.instance_id
        if self.config.replay is not None:
            for record in solved.attempts:
                for line in replayed_lines(name, record.attempt, record.model, record.calls):
                    coordinator.ledger.add(line)
        coordinator.ledger.sync()
        label = self.config.model_name_or_path
        trajectory = self._trajectory(name, solved)
        self.store.save_instance(name, prediction(solved, label), trajectory, transcript(solved))

    def _trajectory(self, name: str, solved: Solved) -> dict[str, Any]:
        winner = solved.winner
        return {
            "instance_id": name,
            "title": title_of(solved.instance.problem_statement),
            "status": solved.choice.status.value,
            "reason": solved.choice.reason,
            "winner": winner.attempt if winner else None,
            "attempts": [record.as_trajectory() for record in solved.attempts],
            "config": self.config.as_json(),
            "versions": all_versions(),
        }

    def _keep_unfinished(
        self, finished: Finished[InstanceWork], records: Sequence[AttemptRecord]
    ) -> None:
        content = {
            "instance_id": finished.key,
            "status": finished.status.value,
            "reason": finished.reason,
            "attempts": [record.as_trajectory() for record in records],
        }
        try:
            self.store.save_unfinished(finished.key, content)
        except OSError as error:  # a full disk must not hide what went wrong first
            self.say(f"{finished.key}: cannot save what was done: {error}")

    def _note_returned(self, records: Sequence[AttemptRecord]) -> None:
        """Note the names of models in replies at once, because the run may be killed."""
        named = {(r.model, c.reply.model) for r in records for c in r.calls if c.reply.model}
        if new := named - self._returned:
            self._returned.update(new)
            with suppress(OSError):  # a full disk must not take what others do
                note_returned(self.store, new)


def prediction(solved: Solved, model_name_or_path: str) -> dict[str, Any]:
    """Return an instance's prediction in the layout of docs/predictions.md."""
    name = solved.instance.instance_id
    results = [record.as_prediction(name, model_name_or_path) for record in solved.attempts]
    winner = solved.winner
    nothing = {"model_patch": "", "edited_files": [], "edits_test_configuration": False}
    return {
        **(winner.as_prediction(name, model_name_or_path) if winner else results[0] | nothing),
        "tries": max(record.try_ for record in solved.attempts),
        "status": solved.choice.status.value,
        "reason": solved.choice.reason,
        "cost": as_number(total_cost(solved.attempts)),
        "all_results": results,
    }
