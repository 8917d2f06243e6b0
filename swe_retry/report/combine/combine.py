"""Combine several runs into a new run: the best prediction of each instance, with its origin."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from operator import attrgetter

from swe_retry.attempts.choose import rank
from swe_retry.core.atomic import write_bytes_atomic
from swe_retry.core.errors import UserError
from swe_retry.core.hashing import fitting_name
from swe_retry.core.money import total
from swe_retry.core.plaintext import Say
from swe_retry.record.description import CombinedRun, DatasetFacts, Run
from swe_retry.record.records import Attempt, Origin
from swe_retry.record.store import RunStore
from swe_retry.results.predictions import Prediction
from swe_retry.results.read import read_instance, read_predictions, read_run
from swe_retry.results.rundata import InstanceData, RunData, rounds
from swe_retry.results.verdicts import (
    eval_log,
    eval_report,
    known_verdict,
    read_verdict,
    verdict_path,
)
from swe_retry.runner.calls.ledger import write_ledger
from swe_retry.runner.config import name_slug

_NAME = re.compile(r"^[A-Za-z0-9][\w.+-]*$")


@dataclass(frozen=True)
class SourceRun:
    """One of the combined runs, with a unique name.

    Attributes:
        attempts: the largest number of an attempt in earlier runs that share an instance with it;
            its numbers begin after it.
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
    """The prediction of one run, which is the ``position``-th, for an instance."""

    source: SourceRun
    position: int
    instance: InstanceData

    @property
    def candidate(self) -> Attempt:
        """The predicted attempt with the position of the run, to rank the runs."""
        chosen = self.instance.chosen or Attempt()
        return chosen.but(
            attempt=self.position,
            model_patch=self.instance.model_patch,
        )

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
    names = [store.run for store in stores]
    target = RunStore(stores[0].out, name or "+".join(names))
    described = _describe_run(target, sources)
    _check(target, described)
    offers = defaultdict(list)
    for position, source in enumerate(sources, 1):
        for instance in source.run.instances:
            offer = Offer(source, position, instance)
            offers[instance.instance_id].append(offer)
    for path in list(target.prediction_paths()):
        if path.stem not in offers:
            path.unlink()
    target.save_run(described)
    for instance_id, instance_offers in sorted(offers.items()):
        result = _combine_instance(instance_offers, described.model_name_or_path)
        trajectory = None
        if any(attempt.edit_format for attempt in result.attempts):
            trajectory = result.trajectory()
        transcripts = filter(None, map(_transcript, instance_offers))
        target.save_instance(
            instance_id,
            result.prediction(),
            trajectory,
            "\n".join(transcripts) or None,
        )
    _write_ledger(target, sources)
    _copy_verdicts(target, offers)
    for prediction in chain.from_iterable(rounds(read_run(target))):
        _copy_other_verdict(target, stores, prediction)
    say(f"combined {len(sources)} runs: {target.folder}")
    return target


def _copy_other_verdict(
    target: RunStore,
    stores: Sequence[RunStore],
    prediction: Prediction,
) -> None:
    """Copy the first verdict on the patch of an attempt, unless there is an official one."""
    if _has_official_verdict(target, prediction):
        return
    for store in stores:
        for path in (
            verdict_path(store, prediction),
            store.verdict(prediction.instance_id),
        ):
            verdict = read_verdict(path)
            if verdict and verdict.patch_sha256 == prediction.patch_sha256:
                # Only verdicts on predictions list the excluded files.
                copy = verdict.but(dropped_files=())
                copy.write(verdict_path(target, prediction))
                return


def _has_official_verdict(target: RunStore, prediction: Prediction) -> bool:
    verdict = known_verdict(target, prediction)
    return verdict is not None and verdict.official


def labels(stores: Sequence[RunStore]) -> tuple[str, ...]:
    """Return a name for each run: its own, or its folder if several runs have that name."""
    counts = Counter(store.run for store in stores)
    names = []
    for store in stores:
        name = store.run
        if counts[name] > 1:
            name = str(store.folder)
        names.append(name)
    return tuple(names)


def _sources(stores: Sequence[RunStore]) -> list[SourceRun]:
    sources = []
    numbers: list[tuple[set[str], int, Counter[str]]] = []
    for name, store in zip(labels(stores), stores, strict=True):
        run = read_run(store)
        ids = set(map(attrgetter("instance_id"), run.instances))
        attempts = 0
        tries: Counter[str] = Counter()
        # Slices of a data set share no instance, and keep their numbers.
        for earlier_ids, last_attempt, last_tries in numbers:
            if not ids.isdisjoint(earlier_ids):
                attempts = max(attempts, last_attempt)
                tries |= last_tries
        source = SourceRun(name, store, run, attempts, tries)
        sources.append(source)
        last_attempt = attempts
        last_tries = Counter(tries)
        for attempt in run.attempts:
            renumbered = source.renumber(attempt)
            last_tries |= Counter({attempt.label: renumbered.try_})
            last_attempt = max(last_attempt, renumbered.attempt)
        numbers.append((ids, last_attempt, last_tries))
    return sources


def _describe_run(target: RunStore, sources: Sequence[SourceRun]) -> Run:
    datasets = []
    models = {}
    combined = []
    selected: set[str] = set()
    for source in sources:
        run = source.run
        if run.described.dataset.model_fields_set:
            datasets.append(run.described.dataset)
        models.update(dict.fromkeys(run.models))
        described = run.described.as_json()
        described.pop("selected", None)
        part = CombinedRun(
            name=source.name,
            folder=str(source.store.folder),
            model_name_or_path=run.model_name_or_path,
            described=Run.model_validate(described),
        )
        combined.append(part)
        selected.update(run.selected)
    if len({dataset.sha256 for dataset in datasets}) > 1:
        names = ", ".join(str(dataset.name) for dataset in datasets)
        raise UserError(
            f"the runs have different datasets ({names}); combine runs of one dataset"
        )
    slugs = []
    for model in models:
        base = model.rsplit("/", 1)[-1]
        slugs.append(name_slug(base))
    label = fitting_name("--".join(["combined", *(slugs or [target.run])]))
    return Run(
        run=target.run,
        model_name_or_path=label,
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
    existing = target.read_run()
    folders = [part.folder for part in described.combined]
    if [part.folder for part in existing.combined] != folders:
        raise UserError(
            f"{target.folder} exists and is not a combination of these runs; choose another --name"
        )


def pick(offers: Sequence[Offer]) -> Offer:
    """Return the first plausible prediction, of them one that does not rank low."""
    plausible = _plausible(offers)
    if plausible:
        return min(plausible, key=lambda offer: offer.candidate.ranks_low)
    usable = [offer for offer in offers if offer.candidate.usable]
    return min(usable, key=lambda offer: rank(offer.candidate), default=offers[0])


def _plausible(offers: Sequence[Offer]) -> list[Offer]:
    return [offer for offer in offers if offer.instance.plausible]


def _combine_instance(offers: Sequence[Offer], label: str) -> InstanceData:
    """Return the instance with the attempts of all runs; its evidence is of one run's alone."""
    chosen = pick(offers)
    instance = chosen.instance
    attempts = []
    for offer in offers:
        attempts += offer.attempts()
    return InstanceData(
        instance_id=instance.instance_id,
        model_name_or_path=label,
        model_patch=instance.model_patch,
        status=instance.status,
        reason=_reason(chosen, offers),
        attempt=chosen.source.attempts + instance.attempt,
        tries=instance.try_count,
        cost=total(offer.instance.cost for offer in offers),
        attempts=tuple(attempts),
        resolved_said=instance.resolved_said,
        gold_files=instance.gold_files,
    )


def _reason(chosen: Offer, offers: Sequence[Offer]) -> str:
    name = chosen.source.name
    plausible = _plausible(offers)
    if plausible:
        reason = f"{name} is the first run with a plausible prediction"
        if chosen is not plausible[0]:
            reason += " that leaves tests as they are"
    elif chosen.candidate.usable:
        reason = (
            f"no run of {len(offers)} has a plausible prediction; "
            f"that of {name} is the least bad"
        )
    else:
        reason = f"no run of {len(offers)} has a patch that can be predicted"
    if chosen.instance.reason:
        reason += f"; there: {chosen.instance.reason}"
    return reason


def _transcript(offer: Offer) -> str:
    path = offer.source.store.transcript(offer.instance.instance_id)
    if not path.exists():
        return ""
    text = path.read_text("utf-8", "replace")
    return f"# From the run {offer.source.name}\n\n{text}"


def _write_ledger(target: RunStore, sources: Sequence[SourceRun]) -> None:
    """Write the lines of all ledgers, but only if each run has one: else sums would be too low."""
    if not all(source.run.ledger for source in sources):
        target.ledger.unlink(missing_ok=True)
        return
    lines = []
    for source in sources:
        for line in source.run.ledger:
            attempt = line.attempt
            # Numbers below 1 are of models that wrote scripts, not of attempts.
            if attempt > 0:
                attempt += source.attempts
            call = f"{source.name}:{line.call}"
            lines.append(replace(line, call=call, attempt=attempt))
    write_ledger(target.ledger, lines)


def _copy_verdicts(target: RunStore, offers: Mapping[str, Sequence[Offer]]) -> None:
    """Copy verdicts on the chosen patches, unless the combination has an official one."""
    for prediction in read_predictions(target):
        name = prediction.instance_id
        origin = pick(offers[name])
        store = origin.source.store
        verdict = read_verdict(store.verdict(name))
        if verdict is None or verdict.patch_sha256 != prediction.patch_sha256:
            continue
        if _has_official_verdict(target, prediction):
            continue
        verdict.write(target.verdict(name))
        of_origin = origin.instance.to_evaluate()
        for path_of in (eval_report, eval_log):
            path = path_of(store, of_origin)
            if path.exists():
                copy = path_of(target, prediction)
                write_bytes_atomic(copy, path.read_bytes())
