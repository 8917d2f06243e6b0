"""Pure: checks of the layout of predictions and ``run.json``, which other programs write too."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from core.parsing.untrusted import Keys

RUN_FILE, RESULTS_FILE, STATS_FILE = OWN_FILES = ("run.json", "results.json", "stats.json")
"""The files of a run that lie among its predictions."""
_SAFE_KEY = re.compile(r"\w[\w.+-]*")
_LONGEST = 60
# Only reports may know them; the older layout has them in the prediction file.
_EVALUATION_KEYS = ("gold_files", "resolved")
_OBJECTS = (
    "dataset", "config", "versions", "options", "images", "prices", "models_returned", "only_valid",
)  # fmt: skip
_LISTS = ("starts", "combined")
_TEXTS_OF_DATASET = ("name", "split", "sha256", "revision")


def is_safe_name(name: object) -> bool:
    """Tell whether ``name`` may name a file or a folder."""
    return isinstance(name, str) and _SAFE_KEY.fullmatch(name) is not None


def is_safe_key(name: object) -> bool:
    """Tell whether ``name`` may be the key of a job: its files must not be those of the run."""
    return is_safe_name(name) and f"{name}.json".lower() not in OWN_FILES


def no_prediction(data: Mapping[str, Any]) -> tuple[Keys, str] | None:
    """Return where and why ``data`` is not a prediction of any layout, None where it is one."""
    results = data.get("all_results") or []
    if not isinstance(data.get("instance_id"), str):
        return ("instance_id",), "`instance_id` is not a text"
    if not are_objects(results):
        return ("all_results",), "`all_results` is not a list of attempts"
    places: list[tuple[Keys, Any]] = [((), data)]
    places += [(("all_results", number), result) for number, result in enumerate(results)]
    faults = (_wrong_attempt(result, keys) for keys, result in places)
    return next(filter(None, faults), None)


def _wrong_attempt(result: Mapping[str, Any], keys: Keys) -> tuple[Keys, str] | None:
    """Return the first wrong value that readers need; other wrong values count as missing."""
    for key in ("model_patch", "model_name_or_path"):
        value = result.get(key) or ""
        if not isinstance(value, str):
            return (*keys, key), f"`{key}` is not a text"
        try:
            value.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            return (*keys, key), f"`{key}` contains an unpaired surrogate"
    priced = isinstance(result.get("cost") or 0, (int, float))
    return None if priced else ((*keys, "cost"), "`cost` is not a number")


def shown(value: object) -> str:
    """Return a value of a broken file as one short line of ASCII."""
    return ascii(value)[:_LONGEST]


def are_objects(value: object) -> bool:
    """Tell whether ``value`` is a list of objects."""
    return isinstance(value, list) and all(isinstance(part, dict) for part in value)


def wrong_field(described: Mapping[str, Any]) -> tuple[Keys, str] | None:
    """Return the first field of ``run.json`` of a wrong type, None where all are right."""
    for key in _OBJECTS:
        if not isinstance(described.get(key, {}), dict):
            return (key,), f"`{key}` is not an object"
    for key in _LISTS:
        if not are_objects(described.get(key, [])):
            return (key,), f"`{key}` is not a list of objects"
    for key in _TEXTS_OF_DATASET:
        if not isinstance(described.get("dataset", {}).get(key), (str, type(None))):
            return ("dataset", key), f"`dataset`: `{key}` is not a text"
    returned = described.get("models_returned", {}).values()
    if not all(isinstance(n, list) and all(isinstance(x, str) for x in n) for n in returned):
        return ("models_returned",), "`models_returned` does not hold lists of names"
    selected = described.get("selected", [])
    if not isinstance(selected, list) or not all(map(is_safe_key, selected)):
        return ("selected",), "`selected` is not a list of instances"
    return None


def without_evaluation(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return a prediction without what only reports may know (the May 2024 layout has it)."""
    kept = {key: value for key, value in data.items() if key not in _EVALUATION_KEYS}
    if isinstance(kept.get("all_results"), list):
        kept["all_results"] = [
            without_evaluation(result) for result in kept["all_results"] if isinstance(result, dict)
        ]
    return kept
