"""Write the combination of several runs as a new run."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, NamedTuple

from core.atomic import write_bytes_atomic
from core.errors import UserError
from reports.cli.options import Say
from reports.combine.merge import (
    NumberShift,
    Offer,
    combined_prediction,
    combined_trajectory,
    labels,
    pick,
    shifts,
)
from reports.data.jsonvalues import mapping, objects, texts
from reports.data.otherpatches import rounds
from reports.data.predictions import Prediction, read_predictions
from reports.data.rundata import RunData, read_run
from reports.data.verdicts import (
    known_verdict,
    log_name,
    read_verdict_file,
    verdict_path,
    write_verdict_file,
)
from runs.calls.ledger import write_ledger
from runs.storage.store import RunStore

_NAME = re.compile(r"^[A-Za-z0-9][\w.+-]*$")


class SourceRun(NamedTuple):
    """One of the combined runs, with a unique name."""

    name: str
    store: RunStore
    run: RunData
    shift: NumberShift


def combine(stores: Sequence[RunStore], name: str, say: Say) -> RunStore:
    """Write the combination of runs next to the first of them and return it.

    For each instance it holds the first plausible prediction in the order of runs, else the least
    bad of all. Verdicts on the chosen patches are copied.

    Args:
        stores: two or more runs.
        name: of the new run; empty to join the names of the runs.
        say: prints the folder of the new run.
    """
    runs = [read_run(store) for store in stores]
    parts = zip(labels(stores), stores, runs, shifts(runs), strict=True)
    sources = [SourceRun(*each) for each in parts]
    target = RunStore(stores[0].out, name or "+".join(store.run for store in stores))
    described = _described(target, sources)
    _check(target, described)
    offers = _offers(sources)
    for path in list(target.prediction_paths()) if target.folder.exists() else ():
        if path.stem not in offers:
            path.unlink()
    target.save_run(described)
    by_name = {source.name: source.store for source in sources}
    for instance_id, own in offers.items():
        trajectories = [by_name[offer.source].read_trajectory(instance_id) for offer in own]
        trajectory = combined_trajectory(own, trajectories) if any(trajectories) else None
        transcripts = filter(None, (_transcript(by_name[offer.source], offer) for offer in own))
        prediction = combined_prediction(own, described["model_name_or_path"])
        target.save_instance(instance_id, prediction, trajectory, "\n".join(transcripts) or None)
    _write_ledger(target, sources)
    _copy_verdicts(target, offers, by_name)
    for other in chain.from_iterable(rounds(read_run(target))):
        known = known_verdict(target, other)
        found = next(filter(None, (_verdict_of(store, other) for store in stores)), None)
        if found and not (known and known.official):
            write_verdict_file(verdict_path(target, other), found)
    say(f"combined {len(sources)} runs: {target.folder}")
    return target


def _offers(sources: Sequence[SourceRun]) -> dict[str, list[Offer]]:
    offers: dict[str, list[Offer]] = {}
    for place, (name, store, run, shift) in enumerate(sources, 1):
        contents = {
            c["instance_id"]: c for c in map(store.read_as_written, store.prediction_paths())
        }
        for instance in run.instances:
            content = contents[instance.instance_id]
            offer = Offer(name, place, shift, instance, content, run.models)
            offers.setdefault(instance.instance_id, []).append(offer)
    return dict(sorted(offers.items()))


def _described(target: RunStore, sources: Sequence[SourceRun]) -> dict[str, Any]:
    models = dict.fromkeys(model for source in sources for model in source.run.models)
    slugs = [re.sub(r"[^\w.+-]+", "-", model.rsplit("/", 1)[-1]) for model in models]
    datasets = [mapping(source.run.described.get("dataset")) for source in sources]
    combined = [
        {
            "name": name,
            "folder": str(store.folder),
            "model_name_or_path": run.model_name_or_path,
            "described": {key: part for key, part in run.described.items() if key != "selected"},
        }
        for name, store, run, _ in sources
    ]
    return {
        "run": target.run,
        "model_name_or_path": "--".join(["combined", *(slugs or [target.run])]),
        "dataset": _common([dataset for dataset in datasets if dataset]),
        "config": {"models": [{"name": model} for model in models]},
        "combined": combined,
        "selected": sorted({name for source in sources for name in source.run.selected}),
    }


def _common(datasets: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    hashes = {dataset.get("sha256") for dataset in datasets}
    if len(hashes) > 1:
        named = ", ".join(str(dataset.get("name")) for dataset in datasets)
        raise UserError(f"the runs have different datasets ({named}); combine runs of one dataset")
    return datasets[0] if datasets else {}


def _check(target: RunStore, described: Mapping[str, Any]) -> None:
    if not _NAME.match(target.run):
        raise UserError(f"--name {target.run!r}: letters, digits and ._+- only")
    if not target.folder.exists():
        return
    there = texts([one.get("folder") for one in objects((target.read_run() or {}).get("combined"))])
    if there != texts([one["folder"] for one in described["combined"]]):
        raise UserError(
            f"{target.folder} exists and is not a combination of these runs; choose another --name"
        )


def _transcript(store: RunStore, offer: Offer) -> str:
    path = store.folder / f"{offer.instance.instance_id}.md"
    if not path.exists():
        return ""
    text = path.read_text(encoding="utf-8", errors="replace")
    return f"# From the run {offer.source}\n\n{text}"


def _write_ledger(target: RunStore, sources: Sequence[SourceRun]) -> None:
    """Write the lines of all ledgers, but only if each run has one: else sums would be too low."""
    if not all(source.run.ledger for source in sources):
        target.ledger.unlink(missing_ok=True)
        return
    lines = [
        replace(line, call=f"{s.name}:{line.call}", attempt=s.shift.attempts + line.attempt)
        for s in sources
        for line in s.run.ledger
    ]
    write_ledger(target.ledger, lines)


def _copy_verdicts(
    target: RunStore, offers: Mapping[str, Sequence[Offer]], stores: Mapping[str, RunStore]
) -> None:
    """Copy verdicts on the chosen patches, unless the combination has an official one."""
    for prediction in read_predictions(target):
        name = prediction.instance_id
        origin = pick(offers[name])
        store = stores[origin.source]
        kept = read_verdict_file(store.verdict(name))
        own = known_verdict(target, prediction)
        if (
            not kept
            or kept.get("patch_sha256") != prediction.patch_sha256
            or (own and own.official)
        ):
            continue
        write_verdict_file(target.verdict(name), kept)
        before = str(origin.content.get("model_name_or_path") or store.run)
        _copy(store, log_name(name, before), target, log_name(name, prediction.model_name_or_path))
        _copy(store, f"{name}.report.json", target, f"{name}.report.json")


def _verdict_of(store: RunStore, prediction: Prediction) -> Mapping[str, Any] | None:
    for path in (verdict_path(store, prediction), store.verdict(prediction.instance_id)):
        kept = read_verdict_file(path)
        if kept and kept.get("patch_sha256") == prediction.patch_sha256:
            # Only verdicts on predictions list the excluded files.
            return {**kept, "dropped_files": []}
    return None


def _copy(source: RunStore, name: str, target: RunStore, new_name: str) -> None:
    if (source.logs / name).exists():
        write_bytes_atomic(target.logs / new_name, (source.logs / name).read_bytes())
