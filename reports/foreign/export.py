"""``report.py convert RUN LAYOUT FOLDER``: write a run in the layout of another harness."""

from __future__ import annotations

from pathlib import Path

from core.atomic import write_json_atomic
from core.errors import UserError
from core.plaintext import Say, quantity
from core.redaction import Redactor
from reports.foreign.atif import atif_files
from reports.foreign.attempts import predicted_patch
from reports.foreign.mini import mini_files
from reports.foreign.predictions import PREDS
from reports.foreign.recognise import read_any

_WRITERS = {
    "atif": atif_files,
    "mini": mini_files,
}


def export_command(
    path: Path,
    layout: str,
    folder: Path,
    say: Say,
) -> int:
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
