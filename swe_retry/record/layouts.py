"""Pure: files of earlier versions, and of May 2024, with the keys of today's.

They are read in place, by ``harness.py`` as well, so they are no foreign runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, Field

from swe_retry.core.jsontypes import JsonMapping
from swe_retry.llm.chat import AnyText
from swe_retry.record.patches import submittable_patch
from swe_retry.record.records import AttemptStatus, Patch, Position, Values


class _ResultShape(BaseModel):
    model_patch: Patch = ""


class _PredictionShape(BaseModel):
    """What must hold before the attempts of a prediction can be numbered."""

    all_results: Annotated[
        list[_ResultShape], BeforeValidator(lambda value: value or [])
    ] = Field(default_factory=list)


class _AttemptShape(BaseModel):
    attempt: Position
    model: AnyText


class TrajectoryShape(BaseModel):
    """What must hold before the attempts of a trajectory can be read."""

    attempts: list[_AttemptShape]


def flat_trajectory(raw: JsonMapping) -> Values:
    """Return the JSON of a trajectory of any version with the keys of today's."""
    values = dict(raw)
    for name in ("attempts", "writers"):
        if isinstance(values.get(name), list):
            values[name] = list(map(_flat, values[name]))
    return values


def _flat(raw: object) -> object:
    """Return an attempt of a trajectory; versions before 0.13 nest what predictions have too."""
    if not isinstance(raw, dict) or not isinstance(raw.get("recorded"), dict):
        return raw
    flat = {**raw["recorded"], **raw}
    del flat["recorded"]
    # They did not say whether the patch applies: without other words of an error it does not.
    if raw.get("status") == AttemptStatus.ERROR and not raw.get("error"):
        patch = flat.get("model_patch")
        if isinstance(patch, str) and submittable_patch(patch).patch:
            flat["applies"] = False
    return flat


def number_attempts(
    raw: JsonMapping, models: Sequence[str]
) -> tuple[Values, list[Values]]:
    """Return a prediction and its results, each with the number, try and model of its attempt.

    Files of May 2024 have ``try``, which counts per model, and no ``attempt``; some lack
    ``model`` or ``all_results``. Then ``models`` in the order of their turns tell.

    Raises:
        ValidationError: it has another layout.
    """
    _PredictionShape.model_validate(raw)
    turns: Counter[int | None] = Counter()
    results: list[Values] = []
    for result in raw.get("all_results") or ():
        try_ = _whole(result.get("try"))
        number = len(results) + 1
        results.append(_filled(result, models, turns[try_], number))
        turns[try_] += 1
    top = dict(raw)
    top.pop("all_results", None)
    first = 1
    if top.get("model") in models:
        first = models.index(top["model"]) + 1
    top = _filled(top, models, 0, first)
    numbers = []
    for result in results:
        if result.get("model_patch") == raw.get("model_patch"):
            numbers.append(result["attempt"])
    # In some, model and try name another attempt than the one whose patch is predicted.
    if numbers and "attempt" not in raw and top["attempt"] not in numbers:
        top["attempt"] = numbers[0]
    return top, results


def _filled(
    result: JsonMapping,
    models: Sequence[str],
    turn: int,
    position: int,
) -> Values:
    # ``turn`` earlier attempts have the same try; ``position`` stands for an unknown number.
    model = result.get("model")
    if not model or not isinstance(model, str):
        model = ""
        if turn < len(models):
            model = models[turn]
    try_ = _whole(result.get("try"))
    attempt = _whole(result.get("attempt"))
    if attempt is None:
        attempt = position
        if try_ and model in models:
            attempt = (try_ - 1) * len(models) + models.index(model) + 1
    return {**result, "model": model, "try": try_ or 1, "attempt": attempt}


def _whole(value: object) -> int | None:
    if type(value) is int and 0 <= value <= 2**53:
        return value
    return None
