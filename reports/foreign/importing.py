"""Write a run of another harness as a run in our layout, on which all reports work."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from agent.named import OUTSIDE
from bench.attempts.transcript import SeenTexts, fenced, message_block
from core.atomic import write_json_atomic, write_text_atomic
from core.errors import UserError
from core.hashing import sha256_of
from core.money import as_number, in_words
from core.plaintext import Say, counted, one_line
from reports.data.predictions import IMPORTED
from reports.foreign.files import RunFiles, as_text
from reports.foreign.model import (
    AgentAttempt,
    AgentStep,
    AttemptedInstance,
    AttemptedRun,
)
from reports.foreign.ours import OUTCOMES
from reports.foreign.recognise import read_any
from runs.description import Run
from runs.records import PLAUSIBLE
from runs.storage.runlock import run_lock
from runs.storage.store import RunStore

UNKNOWN = "unknown"
_UNSAFE = re.compile(r"[^\w.+-]+")


def import_run(path: Path, out: Path, name: str, say: Say) -> RunStore:
    """Write the run at ``path`` below ``out`` unless it is there already, and return its store."""
    path = path.expanduser().resolve()
    shown = name or _UNSAFE.sub("-", path.name.partition(".")[0] or path.name).strip(
        "-.+"
    )
    store = RunStore(out, shown or "imported")
    described: Mapping[str, Any] = {}
    if store.folder.exists():
        described = (store.read_run() or Run()).imported or {}
    print_ = fingerprint(path)
    if described.get("path") == str(path) and described.get("fingerprint") == print_:
        return store
    if (
        store.folder.exists()
        and any(store.folder.iterdir())
        and described.get("path") != str(path)
    ):
        raise UserError(
            f"{store.folder} exists and is not the import of {path}; pass --name NAME"
        )
    run = read_any(path)
    with run_lock(store.folder):
        count = _write(store, run, print_)
    say(f"imported {counted(count, 'instance')} of {run.layout.value}: {store.folder}")
    return store


def fingerprint(path: Path) -> str:
    """Return a hash of the names, sizes and times of the files below ``path``."""
    found = [
        (
            str(p.relative_to(path)) if path.is_dir() else p.name,
            p.stat().st_size,
            p.stat().st_mtime_ns,
        )
        for p in RunFiles.below(path).paths
    ]
    return sha256_of(json.dumps(found))


def _write(store: RunStore, run: AttemptedRun, print_: str) -> int:
    # Predictions are written last: until then one label for all is not known.
    origin = {"path": str(run.path), "layout": run.layout.value, "agent": run.agent}
    described = {"run": store.run, IMPORTED: origin}
    store.save_run(Run.model_validate(described))
    predictions: dict[str, dict[str, Any]] = {}
    labels: set[str] = set()
    for instance in run.instances:
        name = instance.instance_id
        if name in predictions:
            raise UserError(f"{run.path} has two results on {name}; keep one")
        if instance.label:
            labels.add(instance.label)
        why = instance.reason or f"predicted by the run of {run.layout.value}"
        instance = replace(instance, reason=why)
        predictions[name] = prediction(instance)
        _save_conversation(store, instance)
    if not predictions:
        raise UserError(f"{run.path} holds no instance")
    label = labels.pop() if len(labels) == 1 else store.run
    for path in [*store.prediction_paths()]:
        if path.stem not in predictions:
            path.unlink()
    for name, content in predictions.items():
        results = [
            {**one, "model_name_or_path": label} for one in content["all_results"]
        ]
        named = {**content, "model_name_or_path": label, "all_results": results}
        write_json_atomic(store.prediction(name), store.redact.of(named))
    models = dict.fromkeys(
        r["model"] for p in predictions.values() for r in p["all_results"]
    )
    store.save_run(
        Run.model_validate(
            {
                **described,
                "model_name_or_path": label,
                "selected": sorted(predictions),
                "config": {"models": [{"name": model} for model in models if model]},
                IMPORTED: {**origin, "fingerprint": print_},
            }
        )
    )
    return len(predictions)


def prediction(instance: AttemptedInstance) -> dict[str, Any]:
    """Return the prediction of an instance, with its attempts; the label is missing."""
    chosen = instance.chosen or instance.attempts[-1]
    known = instance.resolved
    predicted = (
        instance.patch if instance.winner is not None or instance.patch is None else ""
    )
    return {
        "instance_id": instance.instance_id,
        **_result(chosen),
        "model_patch": predicted or "",
        "patch_known": predicted is not None,
        "cost": as_number(instance.cost),
        "status": instance.status or _status(chosen),
        "reason": instance.reason,
        **({} if known is None else {"resolved": known}),
        "all_results": [_result(attempt) for attempt in instance.attempts],
    }


def _result(attempt: AgentAttempt) -> dict[str, Any]:
    known = attempt.known
    return {
        "model": attempt.model or "",
        "attempt": attempt.attempt,
        "try": known.get("try")
        if isinstance(known.get("try"), int)
        else attempt.attempt,
        "model_patch": attempt.patch or "",
        "patch_known": attempt.patch is not None,
        "cost": as_number(attempt.totals.cost),
        "status": _status(attempt),
        **{key: known.get(key) for key in OUTCOMES},
        IMPORTED: True,
        "outcomes_known": bool(known),
    }


def _status(attempt: AgentAttempt) -> str:
    """Return how an attempt ended; only our own harness knows what is plausible."""
    said = one_line(attempt.exit_status or "")[:60]
    return UNKNOWN if not said or (said in PLAUSIBLE and not attempt.known) else said


def _save_conversation(store: RunStore, instance: AttemptedInstance) -> None:
    name = instance.instance_id
    if all(attempt.steps is None for attempt in instance.attempts):
        store.trajectory(name).unlink(missing_ok=True)
        store.transcript(name).unlink(missing_ok=True)
        return
    trajectory = {
        "instance_id": name,
        "status": instance.status or UNKNOWN,
        "reason": instance.reason,
        "winner": instance.winner,
        "attempts": [_trajectory(attempt) for attempt in instance.attempts],
    }
    write_json_atomic(store.trajectory(name), store.redact.of(trajectory))
    attempts = counted(len(instance.attempts), "attempt")
    seen, lines = SeenTexts(), [f"# {name}\n", f"- choice: {instance.reason}"]
    lines.append(f"- {attempts}, cost: {in_words(instance.cost)}")
    lines += (line for attempt in instance.attempts for line in _said(attempt, seen))
    write_text_atomic(store.transcript(name), store.redact("\n".join(lines) + "\n"))


def _trajectory(attempt: AgentAttempt) -> dict[str, Any]:
    known, result = attempt.known, _result(attempt)
    return {
        **{key: result[key] for key in ("attempt", "try", "model")},
        "edit_format": known.get("edit_format") or OUTSIDE,
        "status": result["status"],
        "messages": messages_of(attempt),
        "calls": [],
        "totals": attempt.totals.counts(),
        "reflections": known.get("reflections"),
        "seconds": attempt.seconds,
        "error": attempt.error,
        "recorded": {**result, "added_files": known.get("added_files") or []},
    }


def messages_of(attempt: AgentAttempt) -> list[dict[str, Any]]:
    return [*chain.from_iterable(map(messages_of_step, attempt.steps or ()))]


def messages_of_step(step: AgentStep) -> Iterator[dict[str, Any]]:
    """Yield a step and what its actions returned as messages of our trajectories."""
    message: dict[str, Any] = {"role": step.role, "content": step.text}
    if step.reasoning:
        message["reasoning"] = step.reasoning
    if step.actions:
        message["tool_calls"] = [
            {"name": a.name, "arguments": as_text(dict(a.arguments)), "id": a.id}
            for a in step.actions
        ]
    yield message
    for seen in step.observations:
        yield {"role": "tool", "content": seen.text, "tool_call_id": seen.action_id}


def _said(attempt: AgentAttempt, seen: SeenTexts) -> Iterator[str]:
    model, number = one_line(attempt.model or UNKNOWN), attempt.attempt
    yield f"\n## Attempt {number}: {model}, {_status(attempt)}\n"
    for place, message in enumerate(messages_of(attempt), 1):
        calls = [
            f"{c['name']}({c['arguments']})" for c in message.get("tool_calls", ())
        ]
        said = "\n".join(filter(None, [message["content"], *calls]))
        yield f"### {place}. {one_line(message['role']).upper()}\n"
        yield message_block(said, f"attempt {number}, message {place}", seen)
    if attempt.error:
        yield f"### ERROR\n\n{fenced(attempt.error, 'text')}"
    patch = attempt.patch
    yield "### PATCH\n"
    yield (
        "Unknown.\n"
        if patch is None
        else fenced(patch, "diff")
        if patch.strip()
        else "None.\n"
    )
