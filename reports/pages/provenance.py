"""Pure: how a run came about, in the words of its ``run.json``; what is missing is left out."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from reports.rundata import RunData

# Lists of instances, and what the other keys say already.
_LEFT_OUT = frozenset({"selected", "deciding", "run", "model_name_or_path"})

Facts = tuple[tuple[str, str], ...]


def provenance(run: RunData) -> dict[str, Facts]:
    """Return pairs of name and value, by group (``run``, ``versions``, ``dataset``, ``config``)."""
    top: dict[str, Any] = {"name": run.name, "model_name_or_path": run.model_name_or_path}
    groups: dict[str, Facts] = {}
    for key, value in run.described.items():
        if key in _LEFT_OUT or _is_empty(value):
            continue
        if isinstance(value, Mapping):
            groups[key] = tuple(_flat(value, ""))
        else:
            top[key] = value
    if returned := _returned_models(run):
        top["models as returned"] = ", ".join(returned)
    return {"run": tuple(_flat(top, "")), **groups}


def _flat(value: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, str]]:
    for key, part in value.items():
        name = f"{prefix}{key}"
        if _is_empty(part):
            continue
        if isinstance(part, Mapping):
            yield from _flat(part, f"{name}.")
        elif isinstance(part, list) and any(isinstance(one, Mapping) for one in part):
            numbered = {str(number): one for number, one in enumerate(part, 1)}
            yield from _flat(numbered, f"{name}.")
        else:
            yield name, _words(part)


def _words(value: Any) -> str:  # noqa: ANN401 - whatever json has
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return ", ".join(map(_words, value))
    return json.dumps(value)


def _is_empty(value: Any) -> bool:  # noqa: ANN401 - whatever json has
    return value is None or value in ("", [], {})


def _returned_models(run: RunData) -> tuple[str, ...]:
    calls = (
        call
        for instance in run.instances
        for attempt in instance.attempts
        for call in attempt.calls
    )
    return tuple(sorted({call.model for call in calls if call.model}))
