"""Pure: convert the attempts of a trajectory back to the types of the harness."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from bench.attempts.attempts import Solved, explained
from bench.attempts.candidates import NEVER_PLAUSIBLE, Candidate, Choice, choose
from bench.attempts.records import AttemptRecord
from bench.instances.instances import Instance
from bench.repos.patches import fit_patch
from llm.chat import Call, Message, ToolCall
from llm.replay import reply_of_json
from runs.progress.statuses import AttemptStatus, InstanceStatus


def record_of(raw: Mapping[str, Any]) -> AttemptRecord:
    """Return an attempt of a trajectory of this harness.

    Raises:
        KeyError, TypeError, ValueError: it has another layout.
    """
    said = raw["recorded"]
    status = AttemptStatus(raw["status"])
    fit = fit_patch(said["model_patch"])
    candidate = Candidate(
        attempt=int(raw["attempt"]),
        fit_patch=fit.patch,
        applies=not (status is AttemptStatus.ERROR and fit.patch and not raw["error"]),
        edit=said["edit_outcome"],
        lint=said["lint_outcome"],
        test=said["test_outcome"],
        status=status if status in NEVER_PLAUSIBLE else None,
        edits_test_configuration=bool(raw.get("edits_test_configuration")),
    )
    return AttemptRecord(
        candidate=candidate,
        model=raw["model"],
        edit_format=raw["edit_format"],
        try_=int(raw["try"]),
        temperature=raw["temperature"],
        status=status,
        model_patch=said["model_patch"],
        dropped_files=tuple(raw["dropped_files"]),
        added_files=tuple(said["added_files"]),
        edited_files=tuple(said["edited_files"]),
        reflections=int(raw["reflections"]),
        messages=tuple(map(message_of, raw["messages"])),
        calls=tuple(Call(str(c["request_sha256"]), reply_of_json(c)) for c in raw["calls"]),
        error=str(raw["error"]),
        seconds=float(raw["seconds"]),
    )


def message_of(raw: Mapping[str, Any]) -> Message:
    """Return a message of a trajectory."""
    calls = tuple(ToolCall(**call) for call in raw.get("tool_calls") or ())
    return Message(raw["role"], raw["content"], calls, raw.get("tool_call_id") or "")


def chosen_again(
    records: Sequence[AttemptRecord], winner: int | None, *, require_tests: bool
) -> Choice:
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
    choice = Choice(winner, InstanceStatus(trajectory["status"]), trajectory["reason"])
    # The files contain only the name and the title of an instance.
    instance = Instance(name, "", "", str(trajectory.get("title", "")), "", "")
    return Solved(instance, tuple(records), choice)
