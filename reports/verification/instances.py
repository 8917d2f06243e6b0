"""Does what was written of an instance follow from its trajectory?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import eq
from pathlib import Path
from typing import Any

from agent.errors import UserError
from agent.money import as_number
from bench.patches import fit_patch
from bench.records import AttemptRecord
from bench.run import prediction
from bench.store import RunStore
from bench.transcript import transcript
from bench.versions import HARNESS_VERSION
from reports.rundata import read_trajectory
from reports.verification.difference import (
    Difference,
    all_differences,
    first_difference,
    first_line,
    nearly,
)
from reports.verification.recorded import chosen_again, record_of, solved_of
from reports.verification.requests import wrong_request

Trajectory = Mapping[str, Any]


@dataclass(frozen=True)
class InstanceCheck:
    """Checks the files of the instances of one run.

    Attributes:
        combined: the run was put together from others; its choices are made among theirs.
        ours: this harness wrote the run, so that every prediction has a trajectory.
    """

    store: RunStore
    combined: bool
    ours: bool = False

    def differences(self, path: Path) -> Iterator[Difference]:
        """Yield what differs of the instance whose prediction lies at ``path``."""
        written = self.store.read_as_written(path)
        name = str(written["instance_id"])
        place = self.store.trajectory(name)
        try:
            trajectory = read_trajectory(self.store, name)
        except UserError as error:
            yield Difference(place, str(error))
            return
        if not trajectory and self.ours:
            yield Difference(place, "is missing")
        if "winner" not in trajectory or "versions" not in trajectory:
            return  # none, or of another harness
        try:
            records = [record_of(raw) for raw in trajectory["attempts"]]
            yield from self._attempts(place, trajectory, records)
            if self._ours(trajectory):
                yield from self._files(path, written, trajectory, records)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            yield Difference(place, f"is not in the layout of docs/trajectory.md: {error!r}")

    def _ours(self, trajectory: Trajectory) -> bool:
        """Whether the words of reasons and transcripts can be written again as they were."""
        return not self.combined and trajectory["versions"]["harness"] == HARNESS_VERSION

    def _attempts(
        self, place: Path, trajectory: Trajectory, records: Sequence[AttemptRecord]
    ) -> Iterator[Difference]:
        for raw, record in zip(trajectory["attempts"], records, strict=True):
            same = eq if trajectory["versions"]["harness"] == HARNESS_VERSION else nearly
            for words in _wrong(raw, record, same):
                yield Difference(place, f"attempt {record.attempt}: {words}")

    def _files(
        self,
        path: Path,
        written: Mapping[str, Any],
        trajectory: Trajectory,
        records: Sequence[AttemptRecord],
    ) -> Iterator[Difference]:
        name = str(written["instance_id"])
        yield from self._choice(self.store.trajectory(name), trajectory, records)
        solved = solved_of(name, trajectory, records)
        expected = prediction(solved, str(written["model_name_or_path"]))
        if words := first_difference(written, expected):
            yield Difference(path, words)
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
        if words := first_difference({key: trajectory[key] for key in expected}, expected):
            yield Difference(place, f"the choice from the recorded outcomes: {words}")

    def _transcript(self, place: Path, expected: str) -> Iterator[Difference]:
        if not place.is_file():
            yield Difference(place, "is missing")
            return
        # As it was written: lone surrogates as escapes.
        text = expected.encode("utf-8", "backslashreplace").decode()
        if words := first_line(place.read_bytes().decode("utf-8", "replace"), text):
            yield Difference(place, words)


def _wrong(
    raw: Mapping[str, Any], record: AttemptRecord, same: Callable[[object, object], bool]
) -> Iterator[str]:
    if words := wrong_request(record):
        yield words
    cost = raw["recorded"]["cost"]
    yield from all_differences(cost, as_number(record.cost), "cost", same)
    dropped = fit_patch(record.model_patch).dropped
    if words := first_difference(raw["dropped_files"], dropped, "dropped_files"):
        yield words
