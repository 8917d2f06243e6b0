"""Join trajectories with the predictions and verdicts that lie beside them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from core.errors import DamagedFileError
from reports.data.jsonvalues import flag, mapping, number, text, whole
from reports.data.rundata import StepTotals, totals_of
from reports.foreign.files import RunFiles
from reports.foreign.model import AgentAttempt, AgentStep, AttemptedInstance
from reports.foreign.readers.predictions import plain_of, verdicts_beside

KEPT = "swe_retry_harness"
"""The key under which our exports keep the values that a format has no place for."""

_OF_ATTEMPT = ("attempt", "model", "exit_status", "seconds", "error")
_FURTHER = re.compile(r"\.attempt-\d{1,4}$")

ReadInstance = Callable[[str, Sequence[Path]], AttemptedInstance]


def further_name(name: str, attempt: int) -> str:
    return f"{name}.attempt-{attempt}"


def _grouped(paths: Iterable[Path], suffix: str) -> dict[str, list[Path]]:
    """Return the files of each instance by its name; ``suffix`` ends the names of files."""
    found: dict[str, dict[str, Path]] = {}
    for path in paths:
        stem = path.name.removesuffix(suffix) if path.name.endswith(suffix) else path.stem
        files = found.setdefault(_FURTHER.sub("", stem), {})
        if (other := files.setdefault(stem, path)) != path:
            raise DamagedFileError(path, f"and {other} are both about {stem}", "keep one")
    return {name: [*files.values()] for name, files in found.items()}


def joined(files: RunFiles, suffix: str, read: ReadInstance) -> Iterator[AttemptedInstance]:
    """Yield the instances of trajectories; the file of predictions decides what is predicted."""
    plain = plain_of(files) if files.root.is_dir() else {}
    resolved = verdicts_beside(files) if files.root.is_dir() else {}
    seen: set[str] = set()
    trajectories = files.paths if files.root.is_file() else files.ending(suffix)
    for key, paths in _grouped(trajectories, suffix).items():
        instance = read(key, paths)
        name = instance.instance_id
        if name in seen:
            raise DamagedFileError(paths[0], f"is a second trajectory of {name}", "keep one")
        seen.add(name)
        yield _with(instance, plain.get(name), resolved.get(name))
    for name, prediction in plain.items():
        if name not in seen:
            yield replace(prediction, resolved=resolved.get(name))


def _with(
    instance: AttemptedInstance, plain: AttemptedInstance | None, resolved: bool | None
) -> AttemptedInstance:
    if resolved is not None:
        instance = replace(instance, resolved=resolved)
    if plain is None:
        return instance
    instance = replace(instance, label=plain.label)
    chosen = instance.chosen or instance.attempts[-1]
    if plain.winner is None and len(instance.attempts) > 1:
        return replace(instance, winner=None)
    attempts = tuple(
        replace(a, patch=plain.patch) if a.attempt == chosen.attempt else a
        for a in instance.attempts
    )
    return replace(instance, winner=plain.winner and chosen.attempt, attempts=attempts)


def instance_of(
    name: str, attempts: Sequence[AgentAttempt], kept: Mapping[str, Any]
) -> AttemptedInstance:
    """Return an instance of these attempts.

    ``kept`` is from an export of ours (``kept_values``), and empty for files of others. There the
    last attempt with a patch is predicted.
    """
    ordered = tuple(sorted(attempts, key=lambda a: a.attempt))
    patched = [a.attempt for a in ordered if a.patch and a.patch.strip()]
    winner = whole(kept.get("winner")) if "winner" in kept else max(patched, default=None)
    return AttemptedInstance(
        instance_id=name,
        label=text(kept.get("model_name_or_path")) or None,
        attempts=ordered,
        winner=winner,
        resolved=flag(kept.get("resolved")),
        reason=text(kept.get("reason")),
        status=text(kept.get("status")) or None,
    )


def kept_values(instance: AttemptedInstance, attempt: AgentAttempt) -> dict[str, Any]:
    """Return the values of an attempt and its instance that other formats have no place for."""
    return {
        **kept_of_instance(instance),
        **{name: getattr(attempt, name) for name in _OF_ATTEMPT},
        "steps": None if attempt.steps is None else len(attempt.steps),
        "totals": _numbers(attempt.totals),
        "known": dict(attempt.known),
    }


def kept_of_instance(instance: AttemptedInstance) -> dict[str, Any]:
    names = ("winner", "resolved", "reason", "status")
    own = {"instance_id": instance.instance_id, "model_name_or_path": instance.label}
    return own | {name: getattr(instance, name) for name in names}


def _numbers(totals: StepTotals) -> dict[str, float | None]:
    return {**totals.counts(), "cost": None if totals.cost is None else float(totals.cost)}


def with_kept(attempt: AgentAttempt, kept: Mapping[str, Any]) -> AgentAttempt:
    """Return an attempt with the values of ``kept_values``; as it is where there are none."""
    if not kept:
        return attempt
    said = whole(kept.get("steps"))
    return replace(
        attempt,
        # A format that needs a step, or a list of them, gets one where there is none.
        steps=attempt.steps if said else None if said is None else (),
        attempt=whole(kept.get("attempt")) or attempt.attempt,
        model=text(kept.get("model")) or None,
        exit_status=text(kept.get("exit_status")) or None,
        seconds=number(kept.get("seconds")),
        error=text(kept.get("error")),
        totals=totals_of(kept.get("totals")),
        known=mapping(kept.get("known")),
    )


def kept_of_step(step: AgentStep) -> dict[str, Any]:
    """Return the numbers of a step of the model, for formats that have no place for them."""
    return {"totals": _numbers(step.totals), "seconds": step.seconds}


def step_with_kept(step: AgentStep, message: Mapping[str, Any]) -> AgentStep:
    """Return a step with the numbers of ``kept_of_step`` in its message, if there are any."""
    kept = mapping(message.get(KEPT))
    if not kept:
        return step
    numbers = totals_of(kept.get("totals"))
    return replace(step, totals=numbers, seconds=number(kept.get("seconds")))
