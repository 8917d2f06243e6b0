"""Write runs of other harnesses in our layout, on which all reports work, and runs in theirs."""

from __future__ import annotations

import json
from pathlib import Path

from swe_retry.attempts.transcript import transcript
from swe_retry.core.atomic import write_json_atomic, write_text_atomic
from swe_retry.core.errors import UserError
from swe_retry.core.hashing import sha256_of
from swe_retry.core.plaintext import Say, one_line, quantity
from swe_retry.core.redaction import Redactor
from swe_retry.foreign.atif import atif_files
from swe_retry.foreign.attempts import predicted_patch
from swe_retry.foreign.files import files_below
from swe_retry.foreign.mini import mini_files
from swe_retry.foreign.predictions import PREDS
from swe_retry.foreign.recognise import AnyRun, read_any
from swe_retry.record.description import Run
from swe_retry.record.records import PLAUSIBLE
from swe_retry.record.runlock import run_lock
from swe_retry.record.store import RunStore
from swe_retry.results.rundata import InstanceData
from swe_retry.runner.config import name_slug

_UNKNOWN = "unknown"
_MAX_STATUS = 60


def import_run(path: Path, out: Path, say: Say) -> RunStore:
    """Write the run at ``path`` below ``out`` unless it is there already, and return its store."""
    path = path.expanduser().resolve()
    stem = path.name.partition(".")[0] or path.name
    name = name_slug(stem).strip("-.+")
    redact = Redactor.of_environment()
    store = RunStore(out, name or "imported", redact)
    described = store.read_run()
    recorded = described.imported or {}
    fingerprint = _fingerprint(path)
    if recorded.get("path") == str(path):
        if recorded.get("fingerprint") == fingerprint:
            return store
    elif store.folder.exists() and any(store.folder.iterdir()):
        raise UserError(
            f"{store.folder} exists and is not the import of {path}; rename one of them"
        )
    run = read_any(path)
    with run_lock(store.folder):
        count = _write(store, path, run, fingerprint)
    say(f"imported {quantity(count, 'instance')} of {run.layout.value}: {store.folder}")
    return store


def _fingerprint(path: Path) -> str:
    """Return a hash of the names, sizes and times of the files below ``path``."""
    files = []
    for file in files_below(path):
        name = file.name
        if path.is_dir():
            name = str(file.relative_to(path))
        status = file.stat()
        values = (name, status.st_size, status.st_mtime_ns)
        files.append(values)
    return sha256_of(json.dumps(files))


def _write(store: RunStore, path: Path, run: AnyRun, fingerprint: str) -> int:
    """Write all files of a run, and return the number of its instances."""
    origin = {
        "path": str(path),
        "layout": run.layout.value,
        "agent": run.agent,
    }
    described = Run(run=store.run, imported=origin)
    store.save_run(described)
    # Predictions are written last: until then one label for all is not known.
    results = {}
    for instance in run.instances:
        result = _result(instance, f"predicted by the run of {run.layout.value}")
        _write_conversation(store, result)
        attempts = [attempt.without_texts() for attempt in result.attempts]
        results[result.instance_id] = result.but(attempts=tuple(attempts))
    if not results:
        raise UserError(f"{path} holds no instance")
    labels = {result.model_name_or_path for result in results.values()}
    labels.discard("")
    label = store.run
    if len(labels) == 1:
        label = labels.pop()
    for prediction in list(store.prediction_paths()):
        if prediction.stem not in results:
            prediction.unlink()
    models: dict[str, None] = {}
    for name, result in results.items():
        content = result.but(model_name_or_path=label).prediction()
        write_json_atomic(store.prediction(name), store.redact.of(content))
        for attempt in result.attempts:
            models[attempt.model] = None
    models.pop("", None)
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
        status = one_line(attempt.status)[:_MAX_STATUS] or _UNKNOWN
        # Only our own harness knows what is plausible.
        if status in PLAUSIBLE and not attempt.outcomes_known:
            status = _UNKNOWN
        attempt = attempt.but(status=status, calls=None)
        attempts.append(attempt)
    result = instance.but(
        attempts=tuple(attempts),
        reason=instance.reason or reason,
    )
    if result.status or result.chosen is None:
        return result
    return result.but(status=result.chosen.status)


def _write_conversation(store: RunStore, result: InstanceData) -> None:
    trajectory = store.trajectory(result.instance_id)
    page = store.transcript(result.instance_id)
    if all(attempt.messages is None for attempt in result.attempts):
        trajectory.unlink(missing_ok=True)
        page.unlink(missing_ok=True)
        return
    content = store.redact.of(result.trajectory())
    write_json_atomic(trajectory, content)
    write_text_atomic(page, store.redact(transcript(result)))


_WRITERS = {
    "atif": atif_files,
    "mini": mini_files,
}


def export_command(path: Path, layout: str, folder: Path, say: Say) -> int:
    """Write the run at ``path`` into the new folder ``folder`` and return the exit code.

    The predictions of mini-swe-agent are in ``preds.json``; ATIF has none, and keeps patches in
    ``extra``.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder} exists; delete it or name another")
    run = read_any(path)
    redact = Redactor.of_environment()
    predictions = {}
    for instance in run.instances:
        name = instance.instance_id
        files = _WRITERS[layout](instance, run.agent)
        for file, content in files.items():
            write_json_atomic(folder / file, redact.of(content))
        if predicted_patch(instance) is not None:
            predictions[name] = instance.to_evaluate(run.name).as_json(name)
    if layout == "mini":
        write_json_atomic(folder / PREDS, redact.of(predictions))
    say(f"exported {quantity(len(predictions), 'instance')} as {layout}: {folder}")
    return 0
