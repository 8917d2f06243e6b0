"""Combine several runs into a new run: the best prediction of each instance, with its origin."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from bench.attempts import rank
from core.atomic import write_bytes_atomic
from core.errors import UserError
from core.money import total
from core.plaintext import Say
from reports.data.rundata import (
    InstanceData,
    RunData,
    read_instance,
    read_predictions,
    read_run,
    rounds,
)
from reports.data.verdicts import (
    known_verdict,
    log_name,
    read_verdict,
    verdict_path,
)
from runs.calls.ledger import write_ledger
from runs.description import CombinedRun, DatasetFacts, Run
from runs.records import Attempt, Origin
from runs.storage.store import RunStore

_NAME = re.compile(r"^[A-Za-z0-9][\w.+-]*$")


@dataclass(frozen=True)
class SourceRun:
    """One of the combined runs, with a unique name.

    Attributes:
        attempts: the sum over earlier runs of their largest number of an attempt; its numbers
            begin after it.
        tries: the same of the tries of each model.
    """

    name: str
    store: RunStore
    run: RunData
    attempts: int
    tries: Mapping[str, int]

    def renumber(self, attempt: Attempt) -> Attempt:
        return attempt.but(
            attempt=self.attempts + attempt.attempt,
            try_=self.tries.get(attempt.label, 0) + attempt.try_,
            origin=Origin(run=self.name, attempt=attempt.attempt),
        )


@dataclass(frozen=True)
class Offer:
    """The prediction of one run, which is the ``place``-th, for an instance."""

    source: SourceRun
    place: int
    instance: InstanceData

    @property
    def candidate(self) -> Attempt:
        """The predicted attempt with the position of the run, to rank the runs."""
        chosen = self.instance.chosen or Attempt()
        return chosen.but(attempt=self.place, model_patch=self.instance.model_patch)

    def attempts(self) -> list[Attempt]:
        """Return the attempts with their conversations and the numbers of the combination."""
        source = self.source
        path = source.store.prediction(self.instance.instance_id)
        instance = read_instance(source.store, path, source.run.models)
        return list(map(source.renumber, instance.attempts))


def combine(stores: Sequence[RunStore], name: str, say: Say) -> RunStore:
    """Write the combination of two or more runs next to the first of them and return it.

    For each instance it holds the first plausible prediction in the order of runs, else the least
    bad of all. Verdicts on the chosen patches are copied. An empty ``name`` joins the runs' names.
    """
    sources = _sources(stores)
    target = RunStore(stores[0].out, name or "+".join(store.run for store in stores))
    described = _described(target, sources)
    _check(target, described)
    offers: dict[str, list[Offer]] = {}
    for place, source in enumerate(sources, 1):
        for instance in source.run.instances:
            offer = Offer(source, place, instance)
            offers.setdefault(instance.instance_id, []).append(offer)
    for path in list(target.prediction_paths()) if target.folder.exists() else ():
        if path.stem not in offers:
            path.unlink()
    target.save_run(described)
    for instance_id, own in sorted(offers.items()):
        result = _combined(own, described.model_name_or_path)
        talked = any(attempt.edit_format for attempt in result.attempts)
        target.save_instance(
            instance_id,
            result.prediction(),
            result.trajectory() if talked else None,
            "\n".join(filter(None, map(_transcript, own))) or None,
        )
    _write_ledger(target, sources)
    _copy_verdicts(target, offers)
    for other in chain.from_iterable(rounds(read_run(target))):
        known = known_verdict(target, other)
        if known and known.official:
            continue
        paths = []
        for store in stores:
            paths += [verdict_path(store, other), store.verdict(other.instance_id)]
        for verdict in filter(None, map(read_verdict, paths)):
            if verdict.patch_sha256 == other.patch_sha256:
                # Only verdicts on predictions list the excluded files.
                verdict.but(dropped_files=()).write(verdict_path(target, other))
                break
    say(f"combined {len(sources)} runs: {target.folder}")
    return target


def labels(stores: Sequence[RunStore]) -> tuple[str, ...]:
    """Return a name for each run: its own, or its folder if several runs have that name."""
    names = [store.run for store in stores]
    return tuple(
        store.run if names.count(store.run) == 1 else str(store.folder)
        for store in stores
    )


def _sources(stores: Sequence[RunStore]) -> list[SourceRun]:
    sources = []
    attempts = 0
    tries: Counter[str] = Counter()
    for name, store in zip(labels(stores), stores, strict=True):
        run = read_run(store)
        sources.append(SourceRun(name, store, run, attempts, tries))
        most: Counter[str] = Counter()
        for attempt in run.attempts:
            most[attempt.label] = max(most[attempt.label], attempt.try_)
        attempts += max((attempt.attempt for attempt in run.attempts), default=0)
        tries = tries + most
    return sources


def _described(target: RunStore, sources: Sequence[SourceRun]) -> Run:
    models = dict.fromkeys(model for source in sources for model in source.run.models)
    slugs = [re.sub(r"[^\w.+-]+", "-", model.rsplit("/", 1)[-1]) for model in models]
    datasets = [source.run.described.dataset for source in sources]
    datasets = [dataset for dataset in datasets if dataset.model_fields_set]
    if len({dataset.sha256 for dataset in datasets}) > 1:
        named = ", ".join(str(dataset.name) for dataset in datasets)
        raise UserError(
            f"the runs have different datasets ({named}); combine runs of one dataset"
        )
    combined = []
    selected: set[str] = set()
    for source in sources:
        described = source.run.described.as_json()
        described.pop("selected", None)
        part = CombinedRun(
            name=source.name,
            folder=str(source.store.folder),
            model_name_or_path=source.run.model_name_or_path,
            described=Run.model_validate(described),
        )
        combined.append(part)
        selected |= set(source.run.selected)
    return Run(
        run=target.run,
        model_name_or_path="--".join(["combined", *(slugs or [target.run])]),
        dataset=datasets[0] if datasets else DatasetFacts(),
        config={"models": [{"name": model} for model in models]},
        combined=combined,
        selected=sorted(selected),
    )


def _check(target: RunStore, described: Run) -> None:
    if not _NAME.match(target.run):
        raise UserError(f"--name {target.run!r}: letters, digits and ._+- only")
    if not target.folder.exists():
        return
    there = target.read_run() or Run()
    if [one.folder for one in there.combined] != [
        one.folder for one in described.combined
    ]:
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


def _combined(offers: Sequence[Offer], label: str) -> InstanceData:
    """Return the instance with the attempts of all runs; its evidence is of one run's alone."""
    chosen = pick(offers)
    instance = chosen.instance
    attempts = [attempt for offer in offers for attempt in offer.attempts()]
    tries = instance.tries
    if tries is None:
        tries = max(attempt.try_ for attempt in instance.attempts)
    return InstanceData(
        instance_id=instance.instance_id,
        model_name_or_path=label,
        model_patch=instance.model_patch,
        status=instance.status,
        reason=_reason(chosen, offers),
        attempt=chosen.source.attempts + instance.attempt,
        tries=tries,
        cost=total(offer.instance.cost for offer in offers),
        attempts=tuple(attempts),
        resolved_said=instance.resolved_said,
        gold_files=instance.gold_files,
    )


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
            attempt=line.attempt + (s.attempts if line.attempt > 0 else 0),
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
        saved = read_verdict(store.verdict(name))
        own = known_verdict(target, prediction)
        if saved is None or saved.patch_sha256 != prediction.patch_sha256:
            continue
        if own and own.official:
            continue
        saved.write(target.verdict(name))
        before = origin.instance.model_name_or_path
        log, report = log_name(name, before), f"{name}.report.json"
        copies = {log: log_name(name, prediction.model_name_or_path), report: report}
        for old, new in copies.items():
            if (store.logs / old).exists():
                write_bytes_atomic(target.logs / new, (store.logs / old).read_bytes())
