"""``report.py RUN --export LAYOUT DIR``: write a run in the layout of another harness."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from core.atomic import write_json_atomic
from core.errors import UserError
from core.plaintext import counted
from core.redaction import Redactor
from reports.cli.options import ExportLayout
from reports.foreign.export.atif import atif_files
from reports.foreign.export.mini import mini_files
from reports.foreign.export.sweagent import sweagent_files
from reports.foreign.model import AttemptedInstance
from reports.foreign.readers.predictions import PREDS
from reports.foreign.recognise import read_any

Files = Iterator[tuple[str, Mapping[str, Any]]]
"""Names of JSON files below the folder of a run, and their contents."""

_WRITERS: Mapping[ExportLayout, Callable[[AttemptedInstance, str], Files]] = {
    ExportLayout.ATIF: atif_files,
    ExportLayout.MINI: mini_files,
    ExportLayout.SWE_AGENT: sweagent_files,
}


def export_command(
    path: Path, layout: ExportLayout, folder: Path, say: Callable[[str], None]
) -> int:
    """Write the run at ``path`` into the new folder ``folder`` and return the exit code.

    The predictions of mini-swe-agent and SWE-agent are in ``preds.json``; ATIF has none, and keeps
    patches in ``extra``.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"--export {layout.value} {folder}: it exists; delete it or name another")
    run = read_any(path)
    redact = Redactor.of_environment(os.environ)
    predictions: dict[str, dict[str, Any]] = {}
    for instance in run.instances:
        name = instance.instance_id
        for file, content in _WRITERS[layout](instance, run.agent):
            write_json_atomic(folder / file, redact.of(content))
        if instance.patch is not None:
            predictions[name] = {
                "model_name_or_path": instance.label or run.name,
                "instance_id": name,
                "model_patch": instance.patch if instance.winner is not None else "",
            }
    if layout is not ExportLayout.ATIF:
        write_json_atomic(folder / PREDS, redact.of(predictions))
    say(f"exported {counted(len(predictions), 'instance')} as {layout.value}: {folder}")
    return 0
