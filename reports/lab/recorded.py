"""Recorded runs as the lab replays them: what policies may see and, apart from it, verdicts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from core.money import total
from llm.chat import Reply
from reports.data.rundata import InstanceData, RunData
from reports.statistics.collect import UNFINISHED
from runs.records import Attempt


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
        failing: the number of tests that newly fail, where that is recorded.
    """

    attempt: Attempt
    equals: str = ""
    passed: frozenset[str] | None = None
    failing: int | None = None


@dataclass(frozen=True)
class LabInstance:
    """A selected instance of the runs.

    Attributes:
        made: its attempts; a turn that is missing was never made.
        resolved: by turn, by the verdict on its patch; policies do not see it.
        own: the turns of the first run.
        own_resolved: whether the first run's prediction resolved it.
        valid_scripts: None if the run has no evidence.
        writers: calls for scripts, with their dollars and seconds.
    """

    instance_id: str
    made: Mapping[ModelTurn, Tried]
    resolved: Mapping[ModelTurn, bool | None]
    own: tuple[ModelTurn, ...]
    own_resolved: bool | None
    valid_scripts: frozenset[str] | None
    writers: tuple[Reply, ...] = ()


@dataclass(frozen=True)
class LabData:
    """The runs together: attempts of later runs follow those of the first."""

    name: str
    instances: tuple[LabInstance, ...]
    turns: tuple[ModelTurn, ...]  # of any instance, in the order of their attempts
    require_tests: bool

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        return tuple(
            tried.attempt
            for instance in self.instances
            for tried in instance.made.values()
        )

    @property
    def mean_cost(self) -> Decimal | None:
        """Dollars of an attempt on average; None if one of them is unknown."""
        costs = total(attempt.cost for attempt in self.attempts)
        return (
            costs / len(self.attempts) if costs is not None and self.attempts else None
        )


_Known = dict[ModelTurn, tuple[InstanceData, Attempt]]


def lab_data(runs: Sequence[RunData]) -> LabData:
    """Return the runs for the lab; the first one is that with which policies are compared."""
    found: dict[str, _Known] = {
        name: {} for name in sorted(n for r in runs for n in r.selected)
    }
    first: dict[ModelTurn, tuple[int, int]] = {}
    for place, run in enumerate(runs):
        for instance in run.instances:
            known = found[instance.instance_id]
            for turn, attempt in _turns(instance, known):
                known[turn] = instance, attempt
                here = place, attempt.attempt
                first[turn] = min(here, first.get(turn, here))
    turns = tuple(sorted(first, key=lambda turn: first[turn]))
    own = {instance.instance_id: instance for instance in runs[0].instances}
    instances = (
        _instance(name, known, turns, own.get(name)) for name, known in found.items()
    )
    tested = runs[0].described.configuration.require_tests
    return LabData(
        " + ".join(run.name for run in runs), tuple(instances), turns, tested
    )


def _turns(
    instance: InstanceData, known: _Known
) -> Iterator[tuple[ModelTurn, Attempt]]:
    taken = {*known}
    for attempt in instance.attempts:
        if attempt.status in UNFINISHED:
            continue  # it says nothing, as if it had never been made
        turn = ModelTurn(attempt.label, attempt.try_)
        while (
            turn in taken
        ):  # by an earlier run, or in files that give all attempts one number
            turn = ModelTurn(turn.model, turn.try_ + 1)
        taken.add(turn)
        yield turn, attempt


def _instance(
    name: str, known: _Known, turns: Sequence[ModelTurn], own: InstanceData | None
) -> LabInstance:
    # Classes of evidence are those of one run.
    alone = own and all(instance is own for instance, _ in known.values())
    evidence = own.evidence if own and alone else None
    made: dict[ModelTurn, Tried] = {}
    resolved: dict[ModelTurn, bool | None] = {}
    texts: dict[str, str] = {}
    for turn, (instance, attempt) in known.items():
        key, passed, failing = _class_of(attempt.patch, texts), None, None
        if evidence:
            failing = evidence.failing.get(attempt.attempt)
        if evidence and key:
            same = evidence.class_of(attempt.attempt)
            key = same.id if same else f"text {key}"
            passed = evidence.passed(key)
        placed = attempt.at(turns.index(turn) + 1)
        made[turn] = Tried(placed, key, passed, failing)
        resolved[turn] = instance.resolved_by(attempt)
    first = tuple(turn for turn, (instance, _) in known.items() if instance is own)
    scripts = frozenset(evidence.valid) if evidence else None
    return LabInstance(
        instance_id=name,
        made=made,
        resolved=resolved,
        own=first,
        own_resolved=own.resolved if own else None,
        valid_scripts=scripts,
        writers=own.script_calls if own else (),
    )


def _class_of(patch: str, known: dict[str, str]) -> str:
    """Return the key of the class of patches with the same lines; empty without a patch."""
    lines = (
        "@@" if line.startswith("@@ ") else line
        for line in patch.splitlines()
        if not line.startswith("index ")
    )
    return (
        known.setdefault("\n".join(lines), str(len(known) + 1)) if patch.strip() else ""
    )
