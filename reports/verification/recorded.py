"""Pure: convert the attempts of a trajectory back to the types of the harness."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from bench.attempts.candidates import CandidateChoice, choose
from bench.attempts.records import AttemptRecord
from bench.attempts.solving import Solved, explained
from bench.instances.instance import Instance
from runs.progress.statuses import InstanceStatus


def chosen_again(
    records: Sequence[AttemptRecord], winner: int | None, *, require_tests: bool
) -> CandidateChoice:
    """Return the choice among ``records``, given the trajectory's ``winner``.

    For attempts with failed edits the trajectory does not record whether the patch applied; such a
    candidate is excluded if that explains the winner.
    """
    candidates = [record.candidate for record in records]
    while True:
        choice = choose(candidates, require_tests=require_tests)
        best = choice.winner
        if best is None or best.attempt == winner or best.edit is not False:
            return explained(choice, records)
        candidates = [replace(c, applies=False) if c == best else c for c in candidates]


def solved_of(name: str, trajectory: Mapping[str, Any], records: Sequence[AttemptRecord]) -> Solved:
    """Return an instance with its recorded choice, from which its files are written.

    Raises:
        KeyError, TypeError, ValueError: the trajectory has another layout.
    """
    number = trajectory["winner"]
    winner = next((r.candidate for r in records if r.attempt == number), None)
    choice = CandidateChoice(winner, InstanceStatus(trajectory["status"]), trajectory["reason"])
    # The files contain only the name and the title of an instance.
    instance = Instance(name, "", "", str(trajectory.get("title", "")), "", "")
    return Solved(instance, tuple(records), choice)
