"""Pure: merge the predictions of several runs on one instance, with their origin."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from bench.attempts.candidates import Candidate, rank
from core.money import as_number, total
from reports.data.jsonvalues import objects, whole
from reports.data.rundata import InstanceData, RunData
from reports.data.turns import fill_turns
from runs.storage.store import RunStore


@dataclass(frozen=True)
class NumberShift:
    """What is added to a run's attempt numbers, and to the tries of each model.

    It is the sum over earlier runs of their largest number on an instance.
    """

    attempts: int = 0
    tries: Mapping[str, int] = field(default_factory=dict)

    def of(self, attempt: Mapping[str, Any], source: str) -> dict[str, Any]:
        model = attempt.get("model")
        tries = self.tries.get(model, 0) if isinstance(model, str) else 0
        return {
            **attempt,
            "attempt": self.attempts + (whole(attempt.get("attempt")) or 1),
            "try": tries + (whole(attempt.get("try")) or 1),
            "origin": {"run": source, "attempt": attempt.get("attempt")},
        }


@dataclass(frozen=True)
class Offer:
    """The prediction of one run, which is the ``place``-th, for an instance."""

    source: str
    place: int
    shift: NumberShift
    instance: InstanceData
    content: Mapping[str, Any]
    models: Sequence[str]

    @property
    def candidate(self) -> Candidate:
        """The predicted attempt with the position of the run, to rank the runs."""
        chosen = self.instance.chosen
        candidate = chosen.candidate if chosen else Candidate(1)
        return replace(candidate, attempt=self.place, submittable_patch=self.instance.patch)

    def results(self) -> list[dict[str, Any]]:
        chosen, results = fill_turns(self.content, self.models)
        own = {key: value for key, value in chosen.items() if key not in ("status", "reason")}
        return [self.shift.of(result, self.source) for result in results or (own,)]

    def prediction(self) -> dict[str, Any]:
        chosen, _ = fill_turns(self.content, self.models)
        return self.shift.of(chosen, self.source)


def labels(stores: Sequence[RunStore]) -> tuple[str, ...]:
    """Return a name for each run: its own, or its folder if several runs have that name."""
    names = [store.run for store in stores]
    return tuple(
        store.run if names.count(store.run) == 1 else str(store.folder) for store in stores
    )


def shifts(runs: Sequence[RunData]) -> Iterator[NumberShift]:
    shift = NumberShift()
    for run in runs:
        yield shift
        attempts = [attempt for instance in run.instances for attempt in instance.attempts]
        tries: Counter[str] = Counter()
        for attempt in attempts:
            tries[attempt.model] = max(tries[attempt.model], attempt.try_)
        most = max((attempt.attempt for attempt in attempts), default=0)
        shift = NumberShift(shift.attempts + most, Counter(shift.tries) + tries)


def pick(offers: Sequence[Offer]) -> Offer:
    """Return the first plausible prediction in the order of runs, else the least bad of all.

    Plausible predictions that edit test configuration come after those that do not. The least bad
    is chosen as among attempts (``bench.attempts.candidates.rank``).
    """
    plausible = [offer for offer in offers if offer.instance.plausible]
    if plausible:
        return min(plausible, key=lambda offer: offer.instance.edits_test_configuration)
    usable = [offer for offer in offers if offer.candidate.usable]
    return min(usable, key=lambda offer: rank(offer.candidate), default=offers[0])


def combined_prediction(offers: Sequence[Offer], label: str) -> dict[str, Any]:
    """Return the prediction of an instance, with all attempts of all runs."""
    chosen = pick(offers)
    return {
        **chosen.prediction(),
        "model_name_or_path": label,
        "status": chosen.instance.status,
        "reason": _reason(chosen, offers),
        "cost": as_number(total(offer.instance.cost for offer in offers)),
        "all_results": [
            {**result, "model_name_or_path": label} for o in offers for result in o.results()
        ],
    }


def combined_trajectory(
    offers: Sequence[Offer], trajectories: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return the attempts of all runs on an instance, with the choice."""
    chosen = pick(offers)
    winner = chosen.instance.winner
    return {
        "instance_id": chosen.instance.instance_id,
        "status": chosen.instance.status,
        "reason": _reason(chosen, offers),
        "winner": None if winner is None else chosen.shift.attempts + winner,
        "attempts": [
            offer.shift.of(attempt, offer.source)
            for offer, trajectory in zip(offers, trajectories, strict=True)
            for attempt in objects(trajectory.get("attempts"))
        ],
        "origin": {"run": chosen.source, "attempt": winner},
    }


def _reason(chosen: Offer, offers: Sequence[Offer]) -> str:
    if chosen.instance.plausible:
        why = f"{chosen.source} is the first run with a plausible prediction"
        if any(offer.instance.plausible and offer.place < chosen.place for offer in offers):
            why += " that leaves test configuration alone"
    elif chosen.candidate.usable:
        why = f"no run of {len(offers)} has a plausible prediction; that of {chosen.source} is "
        why += "the least bad"
    else:
        why = f"no run of {len(offers)} has a patch that can be predicted"
    return f"{why}; there: {chosen.instance.reason}" if chosen.instance.reason else why
