"""The record of an attempt, its forms in files, and what recorded predictions say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from bench.attempts.candidates import (
    NEVER_PLAUSIBLE,
    PLAUSIBLE,
    AttemptStatus,
    Candidate,
    InstanceStatus,
)
from core.money import as_number, total
from llm.chat import REPLY, TRAITS, Message, Reply, Traits
from runs.patches import submittable_patch
from runs.progress.overview import recorded_status
from runs.storage.store import RunStore

_MESSAGES = TypeAdapter(tuple[Message, ...])


@dataclass(frozen=True)
class AttemptRecord:
    """One attempt: its model, its messages and its outcomes.

    Attributes:
        try_: from 1, per model.
        temperature: that was sent; None where none was.
        traits: what the conversation knew of its model.
        model_patch: raw, as the agent left the tree, edits to tests included.
        dropped_files: files of ``model_patch`` that are not predicted.
        added_files: files that were in the conversation.
        seconds: wall-clock time; differs from run to run, so no prediction holds it.
        failing: tests that newly fail; no file holds them, but evidence their number.
        told_of: the attempts whose outcomes it was told.
    """

    candidate: Candidate
    model: str
    edit_format: str
    try_: int
    temperature: float | None
    status: AttemptStatus = AttemptStatus.EMPTY
    traits: Traits | None = None
    model_patch: str = ""
    dropped_files: tuple[str, ...] = ()
    added_files: tuple[str, ...] = ()
    edited_files: tuple[str, ...] = ()
    reflections: int = 0
    messages: tuple[Message, ...] = ()
    calls: tuple[Reply, ...] = ()
    error: str = ""
    seconds: float = 0.0
    failing: tuple[str, ...] = ()
    told_of: tuple[int, ...] = ()

    @property
    def attempt(self) -> int:
        return self.candidate.attempt

    @property
    def cost(self) -> Decimal | None:
        return total_cost([self])

    def as_prediction(
        self, instance_id: str, model_name_or_path: str
    ) -> dict[str, Any]:
        """Return the attempt in the layout of a prediction file (docs/predictions.md)."""
        return {
            "instance_id": instance_id,
            "model_name_or_path": model_name_or_path,
            "model_patch": self.model_patch,
            "model": self.model,
            "temperature": self.temperature,
            "cost": as_number(self.cost),
            "added_files": list(self.added_files),
            "edited_files": list(self.edited_files),
            "edit_outcome": self.candidate.edit,
            "lint_outcome": self.candidate.lint,
            "test_outcome": self.candidate.test,
            "edits_test_configuration": self.candidate.edits_test_configuration,
            "test_note": self.candidate.test_note,
            "try": self.try_,
            "attempt": self.attempt,
            "status": self.status.value,
            **self._dependence,
        }

    @property
    def _dependence(self) -> dict[str, Any]:
        return {"told_of": list(self.told_of)} if self.told_of else {}

    def as_trajectory(self) -> dict[str, Any]:
        """Return the attempt in the layout of a trajectory file (docs/trajectory.md)."""
        return {
            "attempt": self.attempt,
            "try": self.try_,
            "model": self.model,
            "edit_format": self.edit_format,
            "temperature": self.temperature,
            "status": self.status.value,
            "traits": TRAITS.dump_python(self.traits, mode="json"),
            "messages": _MESSAGES.dump_python(self.messages, mode="json"),
            "calls": [REPLY.dump_python(call, mode="json") for call in self.calls],
            "reflections": self.reflections,
            "seconds": round(self.seconds, 3),
            "error": self.error,
            "dropped_files": list(self.dropped_files),
            "edits_test_configuration": self.candidate.edits_test_configuration,
            "test_note": self.candidate.test_note,
            "untested": self.candidate.untested,
            **self._dependence,
            "recorded": {
                "model_patch": self.model_patch,
                "edit_outcome": self.candidate.edit,
                "lint_outcome": self.candidate.lint,
                "test_outcome": self.candidate.test,
                "added_files": list(self.added_files),
                "edited_files": list(self.edited_files),
                "cost": as_number(self.cost),
            },
        }

    @classmethod
    def of_trajectory(cls, raw: Mapping[str, Any]) -> AttemptRecord:
        """Return an attempt of a trajectory of this harness.

        Raises:
            KeyError, TypeError, ValueError: it has another layout.
        """
        said, status = raw["recorded"], AttemptStatus(raw["status"])
        fit = submittable_patch(said["model_patch"])
        candidate = Candidate(
            attempt=int(raw["attempt"]),
            submittable_patch=fit.patch,
            applies=not (
                status is AttemptStatus.ERROR and fit.patch and not raw["error"]
            ),
            edit=said["edit_outcome"],
            lint=said["lint_outcome"],
            test=said["test_outcome"],
            status=status if status in NEVER_PLAUSIBLE else None,
            edits_test_configuration=bool(raw.get("edits_test_configuration")),
            test_note=str(raw.get("test_note") or ""),
            untested=str(raw.get("untested") or ""),
        )
        return cls(
            candidate=candidate,
            model=raw["model"],
            edit_format=raw["edit_format"],
            try_=int(raw["try"]),
            temperature=raw["temperature"],
            traits=TRAITS.validate_python(raw["traits"]),
            status=status,
            model_patch=said["model_patch"],
            dropped_files=tuple(raw["dropped_files"]),
            added_files=tuple(said["added_files"]),
            edited_files=tuple(said["edited_files"]),
            reflections=int(raw["reflections"]),
            messages=_MESSAGES.validate_python(raw["messages"]),
            calls=tuple(map(REPLY.validate_python, raw["calls"])),
            error=str(raw["error"]),
            seconds=float(raw["seconds"]),
            told_of=tuple(raw.get("told_of") or ()),
        )


def total_cost(records: Sequence[AttemptRecord]) -> Decimal | None:
    """Return the dollars of all calls of ``records``, None when one of them is unknown."""
    return total(call.cost for record in records for call in record.calls)


def plausible_instances(runs: Iterable[Path]) -> frozenset[str]:
    """Return the ids of the instances that one of ``runs`` has a plausible patch for."""
    found = set()
    for folder in runs:
        store = RunStore.of_folder(folder)
        for path in store.prediction_paths():
            prediction = store.read_prediction(path)
            if is_plausible(prediction):
                found.add(str(prediction["instance_id"]))
    return frozenset(found)


def status_of(prediction: Mapping[str, Any]) -> str:
    """Return a prediction's status; files of other harnesses have none."""
    if "status" in prediction:
        return recorded_status(prediction)
    if is_plausible(prediction):
        return InstanceStatus.PLAUSIBLE.value
    patched = (prediction.get("model_patch") or "").strip()
    return InstanceStatus.FALLBACK.value if patched else InstanceStatus.EMPTY.value


def is_plausible(prediction: Mapping[str, Any]) -> bool:
    """Return whether a recorded prediction is plausible: by its status, else by its outcomes.

    Files without a status come from another harness, to which an unknown outcome was a failed one.
    """
    if "status" in prediction:
        return str(prediction["status"]) in PLAUSIBLE
    edit, lint, test = (
        prediction.get(f"{name}_outcome") is True for name in ("edit", "lint", "test")
    )
    patch = submittable_patch(prediction.get("model_patch") or "").patch
    return Candidate(1, patch, True, edit, lint, test).plausible
