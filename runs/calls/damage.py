"""Damaged lines of the files that a run continues from: its ledger and the open journals."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from runs.calls.journal import JOURNAL
from runs.calls.ledger import LEDGER
from runs.storage.jsonlines import DAMAGED, DamagedLine, LineFormat, read_lines, set_aside
from runs.storage.store import RunStore


def damaged_lines(store: RunStore) -> Iterator[DamagedLine]:
    """Yield the damaged lines of a run that no kill explains."""
    for path, kind in _files(store):
        yield from read_lines(path, kind).broken


def set_damage_aside(store: RunStore) -> Iterator[str]:
    """Move damaged lines to other files and say so; the caller holds the run's lock."""
    for path, kind in _files(store):
        for damage in set_aside(path, kind):
            yield f"{damage}; moved to {path.name}{DAMAGED}, the rest is used"


def ledger_was_damaged(store: RunStore) -> bool:
    """Tell whether the ledger ever lost a line; journals have the same calls."""
    return store.ledger.with_name(store.ledger.name + DAMAGED).exists()


def owner_of(store: RunStore, journal: Path) -> str:
    """Return the id of a journal, ``<id>.jsonl`` or, retired, ``<id>.<number>.jsonl``."""
    name, _, number = journal.stem.rpartition(".")
    known = store.prediction(name).exists() or journal.with_name(f"{name}.jsonl").exists()
    return name if number.isdigit() and known else journal.stem


def _files(store: RunStore) -> Iterator[tuple[Path, LineFormat[Any]]]:
    yield store.ledger, LEDGER
    for path in sorted(store.journals.glob("*.jsonl")):
        if not store.prediction(path.stem).exists():
            yield path, JOURNAL
