"""Read the data of a run from its files, of any version."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from pydantic import BaseModel

from swe_retry.core.errors import UserError
from swe_retry.core.untrusted import damage_at
from swe_retry.instances.adapters.adapter import Row
from swe_retry.instances.instance import derived_image
from swe_retry.instances.split import instance_id_of, split_row
from swe_retry.record.description import Run
from swe_retry.record.patches import patch_paths
from swe_retry.record.records import Word
from swe_retry.record.result import InstanceResult
from swe_retry.record.store import RunStore, read_as
from swe_retry.results.predictions import Prediction
from swe_retry.results.rundata import (
    InstanceData,
    RunData,
    continue_command,
    repository_of,
)
from swe_retry.results.verdicts import known_verdict, presumed_verdict, read_verdict
from swe_retry.runner.calls.ledger import by_instance, read_ledger
from swe_retry.runner.progress.overview import overview


def read_instances(store: RunStore) -> tuple[tuple[str, ...], tuple[InstanceData, ...]]:
    """Return the models in the order of their turns, and the predicted instances by id.

    Verdicts and what datasets say are missing.
    """
    predictions = {}
    labels = {}
    for path in store.prediction_paths():
        prediction = read_as(InstanceData, path, store.raw_prediction(path))
        if not prediction.has("model_patch"):
            problem = "is not a prediction: it lacks `model_patch`"
            fix = "fix it, or delete it and redo the instance"
            raise damage_at(path, (), problem, fix)
        predictions[path] = prediction
        labels[prediction.model_name_or_path or store.run] = path.name
    if not predictions:
        fix = "run harness.py first"
        if store.read_run().is_ours:
            fix = f"go on with {continue_command(store.folder)}"
        raise UserError(f"{store.folder} has no predictions; {fix}")
    if len(labels) > 1:
        which = ", ".join(f"{name} ({labels[name]})" for name in sorted(labels))
        raise UserError(f"{store.folder} has predictions of several models: {which}")
    (label,) = labels
    described = store.read_run()
    models = turn_order(described, (label, store.run), predictions.values())
    instances = []
    for path in predictions:
        instance = read_instance(store, path, models)
        attempts = tuple(attempt.without_texts() for attempt in instance.attempts)
        instance = instance.but(model_name_or_path=label, attempts=attempts)
        instances.append(instance)
    return models, tuple(instances)


def read_instance(store: RunStore, path: Path, models: Sequence[str]) -> InstanceData:
    """Return the instance whose prediction is at ``path``, with its conversations."""
    trajectory = store.read_trajectory(path.stem)
    raw = store.raw_prediction(path)
    instance = read_as(InstanceData, path, raw, trajectory, models)
    return instance.but(map_files=map_files(trajectory))


def read_predictions(store: RunStore) -> tuple[Prediction, ...]:
    """Return all predictions of a run, sorted by id."""
    instances = read_instances(store)[1]
    return tuple(instance.to_evaluate() for instance in instances)


def read_run(store: RunStore, rows: Iterable[Row] = ()) -> RunData:
    """Read a run; rows of its dataset add repositories, years and gold files."""
    models, predicted = read_instances(store)
    described = store.read_run()
    ledger = read_ledger(store.ledger)
    spent = by_instance(ledger.values)
    by_id = {instance_id_of(row): row for row in rows}
    instances = []
    for instance in predicted:
        name = instance.instance_id
        instance = _with_verdicts(store, instance, by_id.get(name, {}))
        if name in spent:
            instance = instance.but(cost=spent[name])
        instances.append(instance)
    labels = dict.fromkeys(model.label for model in described.configuration.models)
    if labels.keys() - set(models):
        models = tuple(labels)
    names = {instance.instance_id for instance in instances}
    names.update(described.selected or ())
    run = RunData(
        name=store.run,
        folder=store.folder,
        model_name_or_path=instances[0].model_name_or_path,
        described=described,
        instances=tuple(instances),
        selected=tuple(sorted(names)),
        models=models,
        unfinished=overview(store, spent).unfinished,
        ledger=ledger.values,
        damaged=ledger.damaged,
    )
    if not run.is_evaluated:
        # Empty predictions alone would be a score of 0 %.
        for position, instance in enumerate(instances):
            if not instance.may_resolve:
                instances[position] = instance.but(verdict=None)
    return replace(run, instances=tuple(instances))


class _RowFacts(BaseModel):
    repo: Word = ""
    created_at: Word = ""
    image: Word = ""
    patch: Word = ""


def _with_verdicts(store: RunStore, instance: InstanceData, row: Row) -> InstanceData:
    """Return the instance with its verdicts, and what they and its row say of it."""
    name = instance.instance_id
    prediction = instance.to_evaluate()
    verdict = known_verdict(store, prediction)
    if verdict is None and not instance.may_resolve:
        verdict = presumed_verdict(prediction)
    verdicts = {}
    for attempt in instance.attempts:
        if attempt.patch.strip() and attempt.patch != instance.patch:
            label = instance.model_name_or_path
            prediction_of_attempt = Prediction(name, label, attempt.patch, chosen=False)
            other = known_verdict(store, prediction_of_attempt)
            if other:
                verdicts[attempt.attempt] = other
    saved = read_verdict(store.verdict(name)) or presumed_verdict(prediction)
    facts = _RowFacts.model_validate(dict(row))
    # The image of the dataset, of the verdict or of swebench.
    image = facts.image or saved.image.partition("@")[0]
    if row and not image:
        with suppress(UserError):
            image = split_row(row)[0].shown_image
    year = re.match(r"\d{4}", facts.created_at or saved.created_at)
    gold_files = saved.gold_files or instance.gold_files
    if facts.patch:
        gold_files = patch_paths(facts.patch)
    return instance.but(
        repo=facts.repo or saved.repo or repository_of(name),
        year=year and int(year[0]),
        image=image or derived_image(name),
        gold_files=gold_files,
        verdict=verdict,
        verdicts=verdicts,
    )


def map_files(trajectory: InstanceResult | None) -> tuple[str, ...] | None:
    """Return the files of all repository maps that models were shown; None if unknown.

    The first user message holds the map before the issue. Each file begins a line and ends with a
    colon (``swe_retry.agent.repomap.build``).
    """
    if trajectory is None:
        return None
    openings = []
    for attempt in trajectory.attempts:
        for message in attempt.messages or ():
            if message.role == "user":
                openings.append(message.content)
                break
    if not openings:
        return None
    files: dict[str, None] = {}
    for opening in openings:
        before_issue = opening.partition("\n<issue>\n")[0]
        for line in before_issue.splitlines():
            if line.endswith(":") and not line.startswith(" "):
                files[line.removesuffix(":")] = None
    return tuple(files)


def turn_order(
    described: Run,
    names: Sequence[str],
    predictions: Iterable[InstanceData],
) -> tuple[str, ...]:
    """Return the models of a run in the order of their turns.

    The configuration in ``run.json`` comes first, then ``names``: each may be the name of the
    harness and those of the models, joined by ``--``, as in the run of May 2024:
    ``aider--gpt-4o--openrouter-anthropic-claude-3-opus``.
    """
    configured = [model.name_of_turn for model in described.configuration.models]
    if configured and all(configured):
        return tuple(configured)
    seen: dict[str, None] = {}
    # Those with most attempts have all models in turn.
    for prediction in sorted(predictions, key=lambda p: -len(p.attempts)):
        for attempt in prediction.attempts:
            if attempt.model:
                seen[attempt.model] = None
    for name in names:
        order = _joined_models(name, tuple(seen))
        if order:
            return order
    return tuple(seen)


def _joined_models(name: str, seen: tuple[str, ...]) -> tuple[str, ...]:
    """Return the models that ``name`` joins; none if a seen model is not among them."""
    by_slug = {}
    for model in seen:
        by_slug[_slug(model)] = model
        by_slug[_slug(model.rsplit("/", 1)[-1])] = model
    first, *parts = name.split("--")
    if _slug(first) in by_slug:
        parts = [first, *parts]
    models = tuple(by_slug.get(_slug(part), part) for part in parts)
    if set(seen) <= set(models):
        return models
    return ()


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower())
