"""Recorded runs as the lab replays them: what policies may see and, apart from it, verdicts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from bench.attempts.stopping import History, Tried
from core.money import total
from reports.data.jsonvalues import mapping, objects, text, whole
from reports.data.rundata import AttemptData, InstanceData, RunData
from reports.statistics.collect import UNFINISHED


@dataclass(frozen=True)
class Turn:
    """An attempt that can be asked for: a model, and the number of its try from 1."""

    model: str
    try_: int


@dataclass(frozen=True)
class MadeAttempt:
    """A recorded attempt; None where the recording does not say."""

    tried: Tried
    seconds: float | None
    calls: int | None


@dataclass(frozen=True)
class LabInstance:
    """A selected instance of the runs.

    Attributes:
        made: its attempts; a turn that is missing was never made.
        resolved: the verdicts on them, which no policy receives; None without a verdict.
        own: the turns of the first run.
        own_resolved: whether the first run's prediction resolved it.
        valid_scripts: None if the run has no evidence.
        past: what its attempts, in turn, would tell about others.
    """

    instance_id: str
    made: Mapping[Turn, MadeAttempt]
    resolved: Mapping[Turn, bool | None]
    own: tuple[Turn, ...]
    own_resolved: bool | None
    valid_scripts: frozenset[str] | None
    past: History


@dataclass(frozen=True)
class LabData:
    """The runs together: attempts of later runs follow those of the first."""

    name: str
    instances: tuple[LabInstance, ...]
    turns: tuple[Turn, ...]  # of any instance, in the order of their attempts
    history: History
    require_tests: bool

    @property
    def attempts(self) -> int:
        return sum(len(instance.made) for instance in self.instances)

    @property
    def without_verdict(self) -> int:
        return sum([*i.resolved.values()].count(None) for i in self.instances)

    @property
    def has_scripts(self) -> bool:
        return any(instance.valid_scripts is not None for instance in self.instances)

    @property
    def mean_cost(self) -> Decimal | None:
        """Dollars of an attempt on average; None if one of them is unknown."""
        every = total(m.tried.cost for i in self.instances for m in i.made.values())
        return every / self.attempts if every is not None and self.attempts else None


def lab_data(runs: Sequence[RunData]) -> LabData:
    """Return the runs for the lab; the first one is that with which policies are compared."""
    ids = sorted({name for run in runs for name in run.selected})
    found = defaultdict[str, list[_Part]](list)
    first: dict[Turn, tuple[int, int]] = {}
    for place, run in enumerate(runs):
        for instance in run.instances:
            parts = found[instance.instance_id]
            before: dict[str, int] = defaultdict(int)
            for turn in (turn for part in parts for turn in part.attempts):
                before[turn.model] = max(before[turn.model], turn.try_)
            parts.append(_Part(place == 0, instance, dict(_turns(instance, before))))
            for turn, attempt in parts[-1].attempts.items():
                here = place, attempt.attempt
                first[turn] = min(here, first.get(turn, here))
    turns = tuple(sorted(first, key=lambda turn: first[turn]))
    # Classes of evidence are those of one run.
    instances = [_instance(name, found[name], turns, alone=len(runs) == 1) for name in ids]
    history = History()
    for each in instances:
        history = history.plus(each.past)
    tested = mapping(runs[0].described.get("config")).get("require_tests") is True
    name = " + ".join(run.name for run in runs)
    return LabData(name, tuple(instances), turns, history, tested)


@dataclass(frozen=True)
class _Part:
    """An instance in one of the runs."""

    own: bool
    instance: InstanceData
    attempts: Mapping[Turn, AttemptData]


def _turns(instance: InstanceData, before: Mapping[str, int]) -> Iterator[tuple[Turn, AttemptData]]:
    taken = set[Turn]()
    for attempt in instance.attempts:
        if attempt.status in UNFINISHED:
            continue  # it says nothing, as if it had never been made
        turn = Turn(attempt.model, before.get(attempt.model, 0) + attempt.try_)
        while turn in taken:  # files of others may give all attempts one number
            turn = Turn(turn.model, turn.try_ + 1)
        taken.add(turn)
        yield turn, attempt


def _instance(
    name: str, parts: Iterable[_Part], turns: Sequence[Turn], *, alone: bool
) -> LabInstance:
    made: dict[Turn, MadeAttempt] = {}
    resolved: dict[Turn, bool | None] = {}
    own: tuple[Turn, ...] = ()
    own_resolved, scripts, texts = None, None, dict[str, str]()
    for part in parts:
        evidence = Evidence.read(part.instance.evidence) if alone else None
        scripts = evidence.valid if evidence else None
        if part.own:
            own, own_resolved = tuple(part.attempts), part.instance.resolved
        for turn, attempt in part.attempts.items():
            key, passed = _class_of(attempt.submittable_patch, texts), None
            if evidence and key:
                key = evidence.classes.get(attempt.attempt, f"text {key}")
                passed = evidence.passed.get(key, frozenset())
            candidate = replace(attempt.candidate, attempt=turns.index(turn) + 1)
            tried = Tried(candidate, attempt.model, attempt.cost, key, passed)
            made[turn] = MadeAttempt(tried, attempt.seconds, attempt.sums.calls)
            resolved[turn] = part.instance.resolved_by(attempt)
    in_turn = (made[turn].tried for turn in turns if turn in made)
    past = History.of((one.candidate.plausible, one.cost) for one in in_turn)
    return LabInstance(name, made, resolved, own, own_resolved, scripts, past)


def _class_of(patch: str, known: dict[str, str]) -> str:
    """Return the key of the class of patches with the same lines; empty without a patch."""
    lines = (
        "@@" if line.startswith("@@ ") else line
        for line in patch.splitlines()
        if not line.startswith("index ")
    )
    return known.setdefault("\n".join(lines), str(len(known) + 1)) if patch.strip() else ""


@dataclass(frozen=True)
class Evidence:
    """What the scripts of an instance said.

    Attributes:
        classes: the class of equal patches by attempt.
        passed: the valid scripts that a class passes.
    """

    classes: Mapping[int, str]
    valid: frozenset[str]
    passed: Mapping[str, frozenset[str]]

    @classmethod
    def read(cls, raw: Mapping[str, Any]) -> Evidence | None:
        """Read the key ``evidence`` of a prediction; what is not understood is left out."""
        if not raw:
            return None
        classes = {
            number: text(each.get("id"))
            for each in objects(raw.get("classes"))
            for number in map(whole, each.get("attempts") or ())
            if number and text(each.get("id"))
        }
        scripts = objects(raw.get("scripts"))
        valid = frozenset(text(s.get("id")) for s in scripts if s.get("valid") is True)
        outcomes = mapping(raw.get("outcomes"))
        passed = {
            name: frozenset(s for s in valid if whole(mapping(outcomes.get(s)).get(name)) == 0)
            for name in {*classes.values()}
        }
        return cls(classes, valid, passed)
