"""Combine several runs into a new run: the best prediction of each instance, with its origin."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, NamedTuple

from bench.attempts.candidates import rank
from core.atomic import write_bytes_atomic
from core.errors import UserError
from core.money import as_number, total
from core.plaintext import Say
from reports.data.jsonvalues import mapping, objects, texts, whole
from reports.data.predictions import read_predictions
from reports.data.rundata import InstanceData, RunData, read_run, rounds
from reports.data.turns import fill_turns
from reports.data.verdicts import (
    known_verdict,
    log_name,
    read_verdict_file,
    verdict_path,
)
from runs.calls.ledger import write_ledger
from runs.description import Run
from runs.records import Attempt
from runs.storage.store import RunStore

_NAME = re.compile(r"^[A-Za-z0-9][\w.+-]*$")


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


class SourceRun(NamedTuple):
    """One of the combined runs, with a unique name."""

    name: str
    store: RunStore
    run: RunData
    shift: NumberShift


@dataclass(frozen=True)
class Offer:
    """The prediction of one run, which is the ``place``-th, for an instance."""

    source: SourceRun
    place: int
    instance: InstanceData
    content: Mapping[str, Any]

    @property
    def candidate(self) -> Attempt:
        """The predicted attempt with the position of the run, to rank the runs."""
        chosen = self.instance.chosen
        candidate = chosen.candidate if chosen else Attempt()
        return candidate.but(attempt=self.place, model_patch=self.instance.raw_patch)

    def shifted(self, attempt: Mapping[str, Any]) -> dict[str, Any]:
        return self.source.shift.of(attempt, self.source.name)

    def filled(self) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """Return the prediction and its attempts, with the numbers of the combination."""
        chosen, results = fill_turns(self.content, self.source.run.models)
        own = {
            key: value
            for key, value in chosen.items()
            if key not in ("status", "reason")
        }
        return self.shifted(chosen), [
            self.shifted(result) for result in results or (own,)
        ]


def combine(stores: Sequence[RunStore], name: str, say: Say) -> RunStore:
    """Write the combination of two or more runs next to the first of them and return it.

    For each instance it holds the first plausible prediction in the order of runs, else the least
    bad of all. Verdicts on the chosen patches are copied. An empty ``name`` joins the runs' names.
    """
    runs = [read_run(store) for store in stores]
    parts = zip(labels(stores), stores, runs, _shifts(runs), strict=True)
    sources = [SourceRun(*each) for each in parts]
    target = RunStore(stores[0].out, name or "+".join(store.run for store in stores))
    described = _described(target, sources)
    _check(target, described)
    offers: dict[str, list[Offer]] = {}
    for place, source in enumerate(sources, 1):
        written = map(source.store.raw_prediction, source.store.prediction_paths())
        contents = {content["instance_id"]: content for content in written}
        for instance in source.run.instances:
            offer = Offer(source, place, instance, contents[instance.instance_id])
            offers.setdefault(instance.instance_id, []).append(offer)
    for path in list(target.prediction_paths()) if target.folder.exists() else ():
        if path.stem not in offers:
            path.unlink()
    target.save_run(Run.model_validate(described))
    for instance_id, own in sorted(offers.items()):
        trajectories = [offer.source.store.raw_trajectory(instance_id) for offer in own]
        trajectory = _trajectory(own, trajectories) if any(trajectories) else None
        transcripts = "\n".join(filter(None, map(_transcript, own))) or None
        prediction = _prediction(own, described["model_name_or_path"])
        target.save_instance(instance_id, prediction, trajectory, transcripts)
    _write_ledger(target, sources)
    _copy_verdicts(target, offers)
    for other in chain.from_iterable(rounds(read_run(target))):
        known = known_verdict(target, other)
        if known and known.official:
            continue
        paths = (
            p
            for s in stores
            for p in (verdict_path(s, other), s.verdict(other.instance_id))
        )
        verdicts = filter(None, map(read_verdict_file, paths))
        if found := next(
            (v for v in verdicts if v.patch_sha256 == other.patch_sha256), None
        ):
            # Only verdicts on predictions list the excluded files.
            own_file = found.model_copy(update={"dropped_files": ()})
            own_file.write(verdict_path(target, other))
    say(f"combined {len(sources)} runs: {target.folder}")
    return target


def labels(stores: Sequence[RunStore]) -> tuple[str, ...]:
    """Return a name for each run: its own, or its folder if several runs have that name."""
    names = [store.run for store in stores]
    return tuple(
        store.run if names.count(store.run) == 1 else str(store.folder)
        for store in stores
    )


def _shifts(runs: Sequence[RunData]) -> Iterator[NumberShift]:
    shift = NumberShift()
    for run in runs:
        yield shift
        attempts = [
            attempt for instance in run.instances for attempt in instance.attempts
        ]
        tries: Counter[str] = Counter()
        for attempt in attempts:
            tries[attempt.model] = max(tries[attempt.model], attempt.try_)
        most = max((attempt.attempt for attempt in attempts), default=0)
        shift = NumberShift(shift.attempts + most, Counter(shift.tries) + tries)


def _described(target: RunStore, sources: Sequence[SourceRun]) -> dict[str, Any]:
    models = dict.fromkeys(model for source in sources for model in source.run.models)
    slugs = [re.sub(r"[^\w.+-]+", "-", model.rsplit("/", 1)[-1]) for model in models]
    datasets = [mapping(source.run.described.get("dataset")) for source in sources]
    datasets = [dataset for dataset in datasets if dataset]
    if len({dataset.get("sha256") for dataset in datasets}) > 1:
        named = ", ".join(str(dataset.get("name")) for dataset in datasets)
        raise UserError(
            f"the runs have different datasets ({named}); combine runs of one dataset"
        )
    combined = [
        {
            "name": name,
            "folder": str(store.folder),
            "model_name_or_path": run.model_name_or_path,
            "described": {
                key: part for key, part in run.described.items() if key != "selected"
            },
        }
        for name, store, run, _ in sources
    ]
    return {
        "run": target.run,
        "model_name_or_path": "--".join(["combined", *(slugs or [target.run])]),
        "dataset": datasets[0] if datasets else {},
        "config": {"models": [{"name": model} for model in models]},
        "combined": combined,
        "selected": sorted(
            {name for source in sources for name in source.run.selected}
        ),
    }


def _check(target: RunStore, described: Mapping[str, Any]) -> None:
    if not _NAME.match(target.run):
        raise UserError(f"--name {target.run!r}: letters, digits and ._+- only")
    if not target.folder.exists():
        return
    there = texts(
        [one.get("folder") for one in objects(target.raw_run().get("combined"))]
    )
    if there != texts([one["folder"] for one in described["combined"]]):
        raise UserError(
            f"{target.folder} exists and is not a combination of these runs; choose another --name"
        )


def pick(offers: Sequence[Offer]) -> Offer:
    """Return the first plausible prediction, of them one with its test configuration as it was."""
    plausible = [offer for offer in offers if offer.instance.plausible]
    if plausible:
        return min(plausible, key=lambda offer: offer.instance.edits_test_configuration)
    usable = [offer for offer in offers if offer.candidate.usable]
    return min(usable, key=lambda offer: rank(offer.candidate), default=offers[0])


def _prediction(offers: Sequence[Offer], label: str) -> dict[str, Any]:
    chosen = pick(offers)
    # Its evidence is of the attempts of one run, by their numbers there.
    own = {key: value for key, value in chosen.filled()[0].items() if key != "evidence"}
    return {
        **own,
        "model_name_or_path": label,
        "status": chosen.instance.status,
        "reason": _reason(chosen, offers),
        "cost": as_number(total(offer.instance.cost for offer in offers)),
        "all_results": [
            {**result, "model_name_or_path": label}
            for o in offers
            for result in o.filled()[1]
        ],
    }


def _trajectory(
    offers: Sequence[Offer], trajectories: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    chosen = pick(offers)
    winner = chosen.instance.winner
    return {
        "instance_id": chosen.instance.instance_id,
        "status": chosen.instance.status,
        "reason": _reason(chosen, offers),
        "winner": None if winner is None else chosen.source.shift.attempts + winner,
        "attempts": [
            offer.shifted(attempt)
            for offer, trajectory in zip(offers, trajectories, strict=True)
            for attempt in objects(trajectory.get("attempts"))
        ],
        "origin": {"run": chosen.source.name, "attempt": winner},
    }


def _reason(chosen: Offer, offers: Sequence[Offer]) -> str:
    name = chosen.source.name
    if chosen.instance.plausible:
        why = f"{name} is the first run with a plausible prediction"
        if any(
            offer.instance.plausible and offer.place < chosen.place for offer in offers
        ):
            why += " that leaves test configuration alone"
    elif chosen.candidate.usable:
        why = f"no run of {len(offers)} has a plausible prediction; that of {name} is the least bad"
    else:
        why = f"no run of {len(offers)} has a patch that can be predicted"
    return f"{why}; there: {chosen.instance.reason}" if chosen.instance.reason else why


def _transcript(offer: Offer) -> str:
    path = offer.source.store.transcript(offer.instance.instance_id)
    if not path.exists():
        return ""
    text = path.read_text(encoding="utf-8", errors="replace")
    return f"# From the run {offer.source.name}\n\n{text}"


def _write_ledger(target: RunStore, sources: Sequence[SourceRun]) -> None:
    """Write the lines of all ledgers, but only if each run has one: else sums would be too low."""
    if not all(source.run.ledger for source in sources):
        target.ledger.unlink(missing_ok=True)
        return
    lines = [
        replace(
            line,
            call=f"{s.name}:{line.call}",
            # Numbers below 1 are of models that wrote scripts, not of attempts.
            attempt=line.attempt + (s.shift.attempts if line.attempt > 0 else 0),
        )
        for s in sources
        for line in s.run.ledger
    ]
    write_ledger(target.ledger, lines)


def _copy_verdicts(target: RunStore, offers: Mapping[str, Sequence[Offer]]) -> None:
    """Copy verdicts on the chosen patches, unless the combination has an official one."""
    for prediction in read_predictions(target):
        name = prediction.instance_id
        origin = pick(offers[name])
        store = origin.source.store
        saved, own = (
            read_verdict_file(store.verdict(name)),
            known_verdict(target, prediction),
        )
        if saved is None or saved.patch_sha256 != prediction.patch_sha256:
            continue
        if own and own.official:
            continue
        saved.write(target.verdict(name))
        before = str(origin.content.get("model_name_or_path") or store.run)
        log, report = log_name(name, before), f"{name}.report.json"
        copies = {log: log_name(name, prediction.model_name_or_path), report: report}
        for old, new in copies.items():
            if (store.logs / old).exists():
                write_bytes_atomic(target.logs / new, (store.logs / old).read_bytes())
