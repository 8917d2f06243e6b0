"""Pure: the model and number of attempts, if a run's files do not record them.

The files of the run of May 2024 have ``try``, which counts per model, and no ``attempt``. Some lack
``model`` (the prediction is then the first model's) or ``all_results``. In this case only the name
of the run gives the order of models: ``aider--gpt-4o--openrouter-anthropic-claude-3-opus``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from reports.data.jsonvalues import mapping, objects, text, whole

Content = Mapping[str, Any]
"""A prediction file."""


def turn_order(
    described: Mapping[str, Any], names: Sequence[str], predictions: Iterable[Content]
) -> tuple[str, ...]:
    """Return the models of a run in the order of their turns.

    The configuration in ``run.json`` comes first, then ``names``: each may be the name of the
    harness and those of the models, joined by ``--``.
    """
    configured = [
        text(m.get("name"))
        for m in objects(mapping(described.get("config")).get("models"))
    ]
    if configured and all(configured):
        return tuple(configured)
    lists = [[*objects(p.get("all_results")), p] for p in predictions]
    ordered = sorted(lists, key=len, reverse=True)
    seen = tuple(
        dict.fromkeys(
            m for some in ordered for r in some if (m := text(r.get("model")))
        )
    )
    return next((order for name in names if (order := _of_name(name, seen))), seen)


def _of_name(name: str, seen: Sequence[str]) -> tuple[str, ...]:
    """Return the models that ``name`` joins; none if a seen model is not among them."""
    by_slug = {
        _slug(name): model
        for model in seen
        for name in (model, model.rsplit("/", 1)[-1])
    }
    first, *others = name.split("--")
    parts = [first, *others] if _slug(first) in by_slug else others
    models = tuple(by_slug.get(_slug(part), part) for part in parts)
    return models if models and set(seen) <= set(models) else ()


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower())


def fill_turns(
    prediction: Content, models: Sequence[str]
) -> tuple[dict[str, Any], tuple[dict[str, Any], ...]]:
    """Return a prediction and its ``all_results``, each with attempt, try and model."""
    turns: Counter[int | None] = Counter()
    results: list[dict[str, Any]] = []
    for result in objects(prediction.get("all_results")):
        try_ = whole(result.get("try"))
        results.append(_filled(result, models, turns[try_], len(results) + 1))
        turns[try_] += 1
    chosen = {key: value for key, value in prediction.items() if key != "all_results"}
    model = text(chosen.get("model"))
    first = models.index(model) + 1 if model in models else 1
    return _filled(chosen, models, 0, first), tuple(results)


def _filled(
    result: Mapping[str, Any], models: Sequence[str], turn: int, position: int
) -> dict[str, Any]:
    # ``turn`` earlier attempts have the same try; ``position`` stands for an unknown number.
    model = text(result.get("model")) or (models[turn] if turn < len(models) else "")
    try_ = whole(result.get("try"))
    attempt = whole(result.get("attempt"))
    if attempt is None and try_ and model in models:
        attempt = (try_ - 1) * len(models) + models.index(model) + 1
    return {**result, "model": model, "try": try_ or 1, "attempt": attempt or position}
