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

    Args:
        described: ``run.json``; the models in its configuration come first. Empty if there is none.
        names: the predictions' model name, then the folder's: each may be the name of the harness
            and those of the models, joined by ``--``.
        predictions: all predictions of the run.
    """
    configured = [
        text(m.get("name")) for m in objects(mapping(described.get("config")).get("models"))
    ]
    if configured and all(configured):
        return tuple(configured)
    seen = _appearing(predictions)
    return next((order for name in names if (order := _of_name(name, seen))), seen)


def _appearing(predictions: Iterable[Content]) -> tuple[str, ...]:
    lists = [[*objects(p.get("all_results")), p] for p in predictions]
    ordered = sorted(lists, key=len, reverse=True)
    return tuple(dict.fromkeys(m for some in ordered for r in some if (m := text(r.get("model")))))


def _of_name(name: str, seen: Sequence[str]) -> tuple[str, ...]:
    """Return the models that ``name`` joins; none if a seen model is not among them."""
    by_slug = {_slug(whole_name): model for model in seen for whole_name in (model, _last(model))}
    first, *others = name.split("--")
    parts = [first, *others] if _slug(first) in by_slug else others
    models = tuple(by_slug.get(_slug(part), part) for part in parts)
    return models if models and set(seen) <= set(models) else ()


def _last(model: str) -> str:
    return model.rsplit("/", 1)[-1]


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower())


def fill_turns(
    prediction: Content, models: Sequence[str]
) -> tuple[dict[str, Any], tuple[dict[str, Any], ...]]:
    """Return a prediction and its ``all_results``, each with attempt, try and model.

    Args:
        prediction: the content of its file.
        models: of the run, in turn order; empty if unknown.
    """
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
    """Return ``result`` with attempt, try and model.

    Args:
        result: an attempt.
        models: of the run.
        turn: the number of earlier attempts with the same try; it selects an unknown model.
        position: the attempt's number if it cannot be computed.
    """
    model = text(result.get("model")) or (models[turn] if turn < len(models) else "")
    try_ = whole(result.get("try"))
    attempt = whole(result.get("attempt"))
    if attempt is None and try_ and model in models:
        attempt = (try_ - 1) * len(models) + models.index(model) + 1
    return {**result, "model": model, "try": try_ or 1, "attempt": attempt or position}
