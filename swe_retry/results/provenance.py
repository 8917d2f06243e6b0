"""Pure: the provenance of a run and its verdicts, in groups of names and values.

A value that is needed to repeat a run is shown even if it was not recorded. Other missing values
are left out.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from swe_retry.core.jsontypes import JsonMapping, JsonObject, object_at
from swe_retry.core.plaintext import quantity
from swe_retry.record.description import Run
from swe_retry.results.rundata import InstanceData, RunData, verdicts_on_patches

NamedValues = tuple[tuple[str, str], ...]
Groups = Mapping[str, NamedValues]
Facts = Iterable[tuple[str, str]]

UNKNOWN = "not recorded"
_NEEDED_VERSIONS = ("harness", "harness_commit", "litellm", "swebench")
_NEEDED_DATASET = ("name", "revision", "sha256")
_NO_IMAGES = ("local", "none")


def provenance(run: RunData, instance: InstanceData | None = None) -> Groups:
    """Return the provenance of ``run``, or of one ``instance`` in it.

    The groups are ``run``, ``versions``, ``dataset``, ``prices``, ``images``, ``parameters``,
    ``models``, ``evaluation`` and ``evaluation images``. In a combined run the groups of its source
    runs follow, named ``GROUP of the run NAME``, with ``times`` instead of ``run``.
    """
    groups = {}
    for name, facts in _groups(run, instance):
        values = tuple(facts)
        if values:
            groups[name] = values
    return groups


def _groups(run: RunData, instance: InstanceData | None) -> Iterator[tuple[str, Facts]]:
    instances = run.instances
    if instance is not None:
        instances = (instance,)
    yield "run", _run_facts(run)
    yield from _described_groups(run.described, instance)
    yield "models", _models(run, instances)
    verdicts = evaluation(instances)
    yield "evaluation", _evaluation_facts(verdicts)
    if verdicts["evaluators"]:
        yield "evaluation images", _facts(verdicts["images"] or {"images": "none"})
    for source in run.described.combined:
        yield f"times of the run {source.name}", _times(source.described)
        for name, facts in _described_groups(source.described, instance):
            yield f"{name} of the run {source.name}", facts


def _run_facts(run: RunData) -> Facts:
    yield "name", run.name
    yield "model_name_or_path", run.model_name_or_path
    yield from _times(run.described)


def _models(run: RunData, instances: Sequence[InstanceData]) -> Facts:
    """Yield the models, as they were configured and as the provider named them."""
    replies: Counter[str] = Counter()
    for instance in instances:
        for attempt in instance.attempts:
            for call in attempt.calls or ():
                replies[call.model or "no name"] += 1
    names = []
    for model, number in sorted(replies.items()):
        names.append(f"{model} ({quantity(number, 'reply', 'replies')})")
    yield "models", ", ".join(run.models) or UNKNOWN
    yield "as returned", ", ".join(names) or UNKNOWN


def _evaluation_facts(verdicts: JsonMapping) -> Facts:
    evaluators = []
    for evaluator, number in verdicts["evaluators"].items():
        evaluators.append(f"{evaluator} ({quantity(number, 'verdict')})")
    yield "evaluator", ", ".join(evaluators) or "none"
    if evaluators:
        times = verdicts["first"]
        if verdicts["last"] != times:
            times += f" to {verdicts['last']}"
        yield "evaluated", times or UNKNOWN


def evaluation(instances: Sequence[InstanceData]) -> JsonObject:
    """Return how ``instances`` were evaluated, as ``run.json`` records it.

    The keys are ``evaluators`` (verdicts by evaluator and its version), ``first`` and ``last``
    (times; empty if unknown) and ``images`` (digests by name).
    """
    evaluators: Counter[str] = Counter()
    times = []
    images = []
    for verdict in verdicts_on_patches(instances):
        evaluator = verdict.evaluator
        if verdict.tool:
            evaluator += f", {verdict.tool}"
        elif verdict.swebench:
            evaluator += f", swebench {verdict.swebench}"
        evaluators[evaluator] += 1
        if verdict.evaluated:
            times.append(verdict.evaluated)
        if verdict.image:
            images.append(verdict.image.partition("@"))
    return {
        "evaluators": dict(sorted(evaluators.items())),
        "first": min(times, default=""),
        "last": max(times, default=""),
        "images": {name: digest for name, _, digest in sorted(images)},
    }


def _described_groups(
    run: Run, instance: InstanceData | None
) -> Iterator[tuple[str, Facts]]:
    dataset = run.dataset.model_dump(exclude_unset=True)
    for name in _NEEDED_DATASET:
        dataset[name] = dataset.get(name) or UNKNOWN
    # A combined run has no versions or parameters of its own, only those of its source runs.
    if run.is_combined:
        yield "dataset", flat(dataset)
        return
    needed = {name: run.versions.get(name) or UNKNOWN for name in _NEEDED_VERSIONS}
    hashes = {}
    for name, value in (run.deciding or {}).items():
        if name.endswith("_sha256") and name != "dataset_sha256":
            hashes[name] = value
    yield "imported", flat(run.imported or {})
    yield "versions", flat({**needed, **run.versions})
    yield "dataset", flat(dataset)
    yield "prices", _prices(run)
    yield "images", _images(run, instance)
    yield "parameters", chain(flat(run.config), flat(hashes))


def _times(run: Run) -> Facts:
    if run.is_combined:
        return
    yield "started", run.started or UNKNOWN
    if not run.starts:
        yield "ended", UNKNOWN
        return
    yield "ended", run.starts[-1].ended or f"{UNKNOWN}: still working, or killed"
    if len(run.starts) > 1:
        unended = sum(not start.ended for start in run.starts)
        yield "starts", f"{len(run.starts)}, of which {unended} have no end"
        # A start records versions and prices only if they differ from those of the first start.
        starts = [start.model_dump(exclude_unset=True) for start in run.starts]
        yield from flat({"start": starts})


def _prices(run: Run) -> Facts:
    if not run.has("prices"):
        yield "prices", UNKNOWN
    elif not run.prices:
        yield "prices", "none needed: no model was called"
    for model, price in run.prices.items():
        amounts = dict(object_at(price))
        source = amounts.pop("source", None) or ""
        texts = [f"{name} {amount}" for name, amount in amounts.items()]
        if texts:
            yield model, f"{', '.join(texts)} (from {source})"
        else:
            yield model, "unknown"


def _images(run: Run, instance: InstanceData | None) -> Facts:
    images = run.images
    if not images and run.configuration.environment in _NO_IMAGES:
        images = {"images": "none: attempts were not tested in images"}
    elif not images:
        images = {"images": UNKNOWN}
    elif instance is not None:
        images = {instance.image: images.get(instance.image)}
    return _facts(images)


def _facts(values: JsonMapping) -> Facts:
    for name, value in sorted(values.items()):
        yield name, value or UNKNOWN


def flat(value: JsonMapping, prefix: str = "") -> Facts:
    """Yield the dotted name and the text of each value in ``value`` that is not empty."""
    for key, part in value.items():
        name = f"{prefix}{key}"
        if isinstance(part, list) and any(isinstance(item, dict) for item in part):
            part = {str(number): item for number, item in enumerate(part, 1)}
        if isinstance(part, Mapping):
            yield from flat(part, f"{name}.")
        elif part is not None and part not in ("", []):
            yield name, _text(part)


def _text(value: Any) -> str:  # noqa: ANN401 - any JSON value
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return ", ".join(map(_text, value))
    return json.dumps(value)
