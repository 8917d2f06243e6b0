"""Recorded runs as the lab replays them: what policies may see and, apart from it, verdicts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from swe_retry.core.errors import UserError
from swe_retry.record.evidence import CandidateClass, Evidence
from swe_retry.record.records import Attempt
from swe_retry.report.statistics.attempts import UNFINISHED
from swe_retry.results.rundata import InstanceData, RunData


@dataclass(frozen=True)
class ModelTurn:
    """An attempt that can be asked for: a model, and the number of its try from 1."""

    model: str
    try_: int


@dataclass(frozen=True)
class Tried:
    """An attempt as policies see it.

    Attributes:
        attempt: its number is its place among those that were tried.
        equals: the key of its class of equal patches; empty without a patch.
        passed: ids of the valid scripts that it passes; None if none were run.
    """

    attempt: Attempt
    equals: str = ""
    passed: frozenset[str] | None = None


@dataclass(frozen=True)
class LabInstance:
    """A selected instance of the runs.

    Attributes:
        recorded: what the first run has of it.
        tried: its attempts; a turn that is missing was never made.
        outcomes: of all turns, whether their patch resolves it; policies do not see them.
        evidence: what is recorded of ``tried``, by the numbers there; without it classes alone.
    """

    recorded: InstanceData
    tried: Mapping[ModelTurn, Tried]
    outcomes: Mapping[ModelTurn, bool | None]
    evidence: Evidence


@dataclass(frozen=True)
class LabData:
    """The runs together.

    Attributes:
        turns: those of any instance, in the order of their attempts.
        samples: how many random orders are drawn.
    """

    name: str
    instances: Sequence[LabInstance]
    turns: tuple[ModelTurn, ...]
    require_tests: bool
    samples: int

    @property
    def has_scripts(self) -> bool:
        """Whether scripts tell attempts apart on any instance."""
        return any(instance.evidence.valid for instance in self.instances)

    @cached_property
    def is_told(self) -> bool:
        """Whether any attempt was told of earlier ones, so that its place in the order matters."""
        return any(attempt.told_of for attempt in self.attempts)

    @property
    def attempts(self) -> list[Attempt]:
        attempts = []
        for instance in self.instances:
            for tried in instance.tried.values():
                attempts.append(tried.attempt)
        return attempts


Sources = dict[ModelTurn, tuple[InstanceData, Attempt]]
"""The attempts on an instance, each with the record that it comes from."""


def lab_data(runs: Sequence[RunData], samples: int) -> LabData:
    """Return the runs for the lab: attempts of later runs follow those of the first.

    Raises:
        UserError: there is no attempt.
    """
    sources: dict[str, Sources] = {}
    positions: dict[ModelTurn, tuple[int, int]] = {}
    for number, run in enumerate(runs):
        for name in run.selected:
            sources.setdefault(name, {})
        for instance in run.instances:
            by_turn = sources[instance.instance_id]
            for attempt in finished_attempts(instance):
                turn = ModelTurn(attempt.label, attempt.try_)
                # An earlier run has it, or a file gives all attempts one number.
                while turn in by_turn:
                    turn = ModelTurn(turn.model, turn.try_ + 1)
                by_turn[turn] = (instance, attempt)
                position = (number, attempt.attempt)
                positions[turn] = min(position, positions.get(turn, position))
    if not positions:
        folder = runs[0].folder
        raise UserError(f"{folder} records no attempt, so no policy can be replayed")
    turns = sorted(positions, key=lambda turn: positions[turn])
    recorded = {name: InstanceData(instance_id=name) for name in sources}
    for instance in runs[0].instances:
        recorded[instance.instance_id] = instance
    instances = []
    for name in sorted(sources):
        lab_instance = _lab_instance(recorded[name], sources[name], turns)
        instances.append(lab_instance)
    return LabData(
        name=" + ".join(run.name for run in runs),
        instances=instances,
        turns=tuple(turns),
        require_tests=runs[0].described.configuration.require_tests,
        samples=samples,
    )


def finished_attempts(instance: InstanceData) -> list[Attempt]:
    """Return the attempts that say something of their models; others count as never made."""
    attempts = []
    for attempt in instance.attempts:
        if attempt.status not in UNFINISHED:
            attempts.append(attempt)
    return attempts


def _lab_instance(
    recorded: InstanceData,
    sources: Sources,
    turns: Sequence[ModelTurn],
) -> LabInstance:
    evidence = recorded.evidence
    for source, _ in sources.values():
        if source is not recorded:
            evidence = None  # classes are those of one run
    tried = {}
    numbers = {}
    classes = defaultdict(list)
    outcomes = dict.fromkeys(turns)
    keys: dict[str, str] = {}
    for turn, (source, attempt) in sources.items():
        outcomes[turn] = source.resolved_by(attempt)
        number = turns.index(turn) + 1
        numbers[attempt.attempt] = number
        key = ""
        passed = None
        if attempt.patch.strip():
            text = _comparable_text(attempt.patch)
            key = keys.setdefault(text, str(len(keys) + 1))
        if evidence and key:
            candidates = evidence.class_of(attempt.attempt)
            key = f"text {key}"
            if candidates:
                key = candidates.id
            passed = evidence.scripts_passed_by(key)
        if key:
            classes[key].append(number)
        tried[turn] = Tried(attempt.at(number), key, passed)
    if evidence:
        evidence = evidence.among(numbers)
    else:
        equals = [
            CandidateClass(id=key, attempts=tuple(members), models=())
            for key, members in classes.items()
        ]
        evidence = Evidence(classes=tuple(equals))
    return LabInstance(recorded, tried, outcomes, evidence)


def _comparable_text(patch: str) -> str:
    """Return the lines of a patch without ``index`` lines and line numbers."""
    lines = []
    for line in patch.splitlines():
        if line.startswith("@@ "):
            line = "@@"
        if not line.startswith("index "):
            lines.append(line)
    return "\n".join(lines)
