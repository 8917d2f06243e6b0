"""Write a run of another harness as a run in our layout, on which all reports work."""

from __future__ import annotations

import json
import re
from pathlib import Path

from bench.attempts import transcript
from core.atomic import write_json_atomic, write_text_atomic
from core.errors import UserError
from core.hashing import sha256_of
from core.plaintext import Say, counted, one_line
from reports.data.rundata import InstanceData
from reports.foreign.files import RunFiles
from reports.foreign.model import AnyRun
from reports.foreign.recognise import read_any
from runs.description import Run
from runs.records import PLAUSIBLE, Attempt
from runs.storage.runlock import run_lock
from runs.storage.store import RunStore

UNKNOWN = "unknown"
_UNSAFE = re.compile(r"[^\w.+-]+")


def import_run(
    path: Path,
    out: Path,
    say: Say,
) -> RunStore:
    """Write the run at ``path`` below ``out`` unless it is there already, and return its store."""
    path = path.expanduser().resolve()
    stem = path.name.partition(".")[0] or path.name
    safe_name = _UNSAFE.sub("-", stem).strip("-.+")
    store = RunStore(out, safe_name or "imported")
    described = store.read_run() or Run()
    recorded = described.imported or {}
    same_path = recorded.get("path") == str(path)
    current = fingerprint(path)
    if same_path and recorded.get("fingerprint") == current:
        return store
    if store.folder.exists() and any(store.folder.iterdir()) and not same_path:
        raise UserError(
            f"{store.folder} exists and is not the import of {path}; rename one of them"
        )
    run = read_any(path)
    with run_lock(store.folder):
        count = _write(store, run, current)
    say(f"imported {counted(count, 'instance')} of {run.layout.value}: {store.folder}")
    return store


def fingerprint(path: Path) -> str:
    """Return a hash of the names, sizes and times of the files below ``path``."""
    files = []
    for file in RunFiles.below(path).paths:
        name = file.name
        if path.is_dir():
            name = str(file.relative_to(path))
        status = file.stat()
        values = (name, status.st_size, status.st_mtime_ns)
        files.append(values)
    return sha256_of(json.dumps(files))


def _write(
    store: RunStore,
    run: AnyRun,
    fingerprint: str,
) -> int:
    # Predictions are written last: until then one label for all is not known.
    origin = {
        "path": str(run.path),
        "layout": run.layout.value,
        "agent": run.agent,
    }
    described = Run(run=store.run, imported=origin)
    store.save_run(described)
    results: dict[str, InstanceData] = {}
    labels = set()
    for instance in run.instances:
        name = instance.instance_id
        if name in results:
            raise UserError(f"{run.path} has two results on {name}; keep one")
        if instance.model_name_or_path:
            labels.add(instance.model_name_or_path)
        result = _result(instance, f"predicted by the run of {run.layout.value}")
        _save_conversation(store, result)
        attempts = tuple(attempt.without_texts() for attempt in result.attempts)
        results[name] = result.but(attempts=attempts)
    if not results:
        raise UserError(f"{run.path} holds no instance")
    label = store.run
    if len(labels) == 1:
        label = labels.pop()
    for path in list(store.prediction_paths()):
        if path.stem not in results:
            path.unlink()
    models: dict[str, None] = {}
    for name, result in results.items():
        labelled = result.but(model_name_or_path=label)
        content = store.redact.of(labelled.prediction())
        write_json_atomic(store.prediction(name), content)
        for attempt in result.attempts:
            if attempt.model:
                models[attempt.model] = None
    described = described.but(
        model_name_or_path=label,
        selected=sorted(results),
        config={"models": [{"name": model} for model in models]},
        imported={**origin, "fingerprint": fingerprint},
    )
    store.save_run(described)
    return len(results)


def _result(instance: InstanceData, reason: str) -> InstanceData:
    """Return an instance as it is written; of the calls only the totals are."""
    attempts = []
    for attempt in instance.attempts:
        attempt = attempt.but(status=_status(attempt), calls=None)
        attempts.append(attempt)
    result = instance.but(
        attempts=tuple(attempts),
        reason=instance.reason or reason,
    )
    if instance.status or result.chosen is None:
        return result
    return result.but(status=result.chosen.status)


def _status(attempt: Attempt) -> str:
    """Return how an attempt ended; only our own harness knows what is plausible."""
    status = one_line(attempt.status)[:60]
    if status in PLAUSIBLE and not attempt.outcomes_known:
        return UNKNOWN
    return status or UNKNOWN


def _save_conversation(store: RunStore, result: InstanceData) -> None:
    trajectory_path = store.trajectory(result.instance_id)
    page = store.transcript(result.instance_id)
    if all(attempt.messages is None for attempt in result.attempts):
        trajectory_path.unlink(missing_ok=True)
        page.unlink(missing_ok=True)
        return
    trajectory = store.redact.of(result.trajectory())
    write_json_atomic(trajectory_path, trajectory)
    write_text_atomic(page, store.redact(transcript(result)))
