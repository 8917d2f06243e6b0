"""Compare the files of an instance with what follows from its trajectory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import eq
from pathlib import Path
from typing import Any

from bench.attempts.records import AttemptRecord
from bench.attempts.saving import prediction
from bench.attempts.transcript import transcript
from bench.repos.patches import submittable_patch
from core.money import as_number
from reports.verification.difference import (
    Difference,
    Spot,
    all_differences,
    first_difference,
    first_line,
    nearly,
)
from reports.verification.layout import wrong_layout
from reports.verification.recorded import chosen_again, solved_of
from reports.verification.requests import wrong_request
from runs.storage.store import RunStore
from runs.storage.versions import is_current

Trajectory = Mapping[str, Any]


@dataclass(frozen=True)
class InstanceCheck:
    """Checks the files of the instances of one run.

    Attributes:
        combined: the run is a combination; its choices are made among those of other runs.
        ours: this harness wrote the run, so every prediction has a trajectory.
    """

    store: RunStore
    combined: bool
    ours: bool = False

    def differences(self, path: Path) -> Iterator[Difference]:
        """Yield what differs for the instance whose prediction is at ``path``."""
        written = self.store.read_as_written(path)
        name = written["instance_id"]
        place = self.store.trajectory(name)
        trajectory = self.store.read_trajectory(name)
        if not trajectory and self.ours:
            yield Difference(place, "is missing")
        others = "winner" not in trajectory or "versions" not in trajectory
        if not trajectory or (others and not self.ours):
            return
        if wrong := wrong_layout(trajectory):
            yield Difference.at(place, wrong[0])
            return
        records = [AttemptRecord.of_trajectory(raw) for raw in trajectory["attempts"]]
        yield from self._attempts(place, trajectory, records)
        if self._ours(trajectory):
            yield from self._files(path, written, trajectory, records)

    def _ours(self, trajectory: Trajectory) -> bool:
        """Whether the words of reasons and transcripts can be written again as they were."""
        return not self.combined and is_current(trajectory)

    def _attempts(
        self, place: Path, trajectory: Trajectory, records: Sequence[AttemptRecord]
    ) -> Iterator[Difference]:
        same = eq if is_current(trajectory) else nearly
        for number, (raw, record) in enumerate(zip(trajectory["attempts"], records, strict=True)):
            for spot in _wrong(raw, record, same):
                under, words = ("attempts", number), f"attempt {record.attempt}: "
                yield Difference.at(place, spot, under, words)

    def _files(
        self,
        path: Path,
        written: Mapping[str, Any],
        trajectory: Trajectory,
        records: Sequence[AttemptRecord],
    ) -> Iterator[Difference]:
        name = written["instance_id"]
        yield from self._choice(self.store.trajectory(name), trajectory, records)
        solved = solved_of(name, trajectory, records)
        expected = prediction(solved, str(written.get("model_name_or_path")))
        if spot := first_difference(written, expected):
            yield Difference.at(path, spot)
        yield from self._transcript(self.store.folder / f"{name}.md", transcript(solved))

    def _choice(
        self, place: Path, trajectory: Trajectory, records: Sequence[AttemptRecord]
    ) -> Iterator[Difference]:
        again = chosen_again(
            records,
            trajectory["winner"],
            require_tests=bool(trajectory["config"]["require_tests"]),
        )
        expected = {
            "winner": again.winner.attempt if again.winner else None,
            "status": again.status.value,
            "reason": again.reason,
        }
        if spot := first_difference({key: trajectory[key] for key in expected}, expected):
            yield Difference.at(place, spot, (), "the choice from the recorded outcomes: ")

    def _transcript(self, place: Path, expected: str) -> Iterator[Difference]:
        if not place.is_file():
            yield Difference(place, "is missing")
            return
        # Transcripts are written with lone surrogates as escapes.
        text = expected.encode("utf-8", "backslashreplace").decode()
        if found := first_line(place.read_bytes().decode("utf-8", "replace"), text):
            number, words = found
            yield Difference(place, words, number)


def _wrong(
    raw: Mapping[str, Any], record: AttemptRecord, same: Callable[[object, object], bool]
) -> Iterator[Spot]:
    if words := wrong_request(record):
        yield Spot(("messages",), f"do not fit the calls: {words}")
    recorded = ("recorded", "cost")
    yield from all_differences(raw["recorded"]["cost"], as_number(record.cost), recorded, same)
    dropped = submittable_patch(record.model_patch).dropped
    if spot := first_difference(raw["dropped_files"], dropped, ("dropped_files",)):
        yield spot
