"""Pure: attempts as a trajectory has them, put back into what the harness worked with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from bench.attempts.candidates import Choice, choose
from bench.attempts.records import AttemptRecord
from bench.attempts.solving import Solved, explained
from bench.instances.instances import Instance
from runs.progress.statuses import InstanceStatus


def chosen_again(
    records: Sequence[AttemptRecord], winner: int | None, *, require_tests: bool
) -> Choice:
    """Return the choice among ``records``, whose trajectory says that ``winner`` won.

    Whether a patch applied to the base commit is not recorded of attempts with failed edits; such
    a candidate is passed over where that explains the winner.
    """
    candidates = [record.candidate for record in records]
    while True:
        choice = choose(candidates, require_tests=require_tests)
        best = choice.winner
        if best is None or best.attempt == winner or best.edit is not False:
            return explained(choice, records)
        candidates = [replace(c, applies=False) if c == best else c for c in candidates]


def solved_of(name: str, trajectory: Mapping[str, Any], records: Sequence[AttemptRecord]) -> Solved:
    """Return an instance as it was when its files were written, the choice as it is recorded.

    Raises:
        KeyError, TypeError, ValueError: the trajectory is of another layout.
    """
    number = trajectory["winner"]
    winner = next((r.candidate for r in records if r.attempt == number), None)
    choice = Choice(winner, InstanceStatus(trajectory["status"]), trajectory["reason"])
    # What is written of an instance holds its name and its title, and nothing else of it.
    instance = Instance(name, "", "", str(trajectory.get("title", "")), "", "")
    return Solved(instance, tuple(records), choice)
