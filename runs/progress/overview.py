"""Read the status of a run from its files, without starting it: ``--status``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar

from core.errors import UserError
from core.money import dollars_or_none
from core.plaintext import shortened
from runs.progress.run_status import (
    BROKEN,
    IN_WORK,
    KILLED,
    NOT_STARTED,
    InstanceEntry,
    RunStatus,
    summed,
)
from runs.storage.jsonlines import DamagedLine
from runs.storage.runlock import is_locked, last_owner
from runs.storage.store import RunStore

_SUFFIX = ".unfinished.json"
_LONGEST_STATUS = 30
_T = TypeVar("_T")
StatusOf = Callable[[Mapping[str, Any]], str]


def recorded_status(data: Mapping[str, Any]) -> str:
    """Return the status in the file of a finished or unfinished instance."""
    return shortened(str(data.get("status", "unknown")), _LONGEST_STATUS)


def overview(
    store: RunStore,
    dollars: Mapping[str, Decimal],
    damaged: Iterable[DamagedLine] = (),
    status_of: StatusOf = recorded_status,
    words: Sequence[str] = (),
) -> RunStatus:
    """Return the status of a run, with the names of its broken files.

    For an instance that ``dollars`` lacks, the cost in its file counts. ``status_of`` gives the
    status of a finished job from its file, and ``words`` are the benchmark's statuses in order.

    Raises:
        UserError: there is no such run.
    """
    if not store.folder.is_dir():
        raise UserError(f"there is no run {store.folder}; give the name of one with --run")
    reading = _Reading(store, status_of)
    owner, working = last_owner(store.folder), is_locked(store.folder)
    process = f"{owner} did not end this run by itself" if owner else ""
    if working:
        process = f"in work by {owner or 'another process'}"
    entries = {}
    for name in reading.selected():
        started = (store.logs / f"{name}.log").exists()
        status = (IN_WORK if working else KILLED) if started else NOT_STARTED
        entries[name] = InstanceEntry(name, status, cost=Decimal(0))
    for path in sorted(store.logs.glob(f"*{_SUFFIX}")):
        name = path.name.removesuffix(_SUFFIX)
        # Of an instance that was redone, only the prediction counts.
        if not store.prediction(name).exists():
            entries[name] = reading.entry(name, path, reading.unfinished)
    for path in store.prediction_paths():
        name = store.name_of(path)
        entries[name] = reading.entry(name, path, reading.prediction)
    broken = [*reading.broken, *map(str, damaged)]
    return summed(store.run, store.folder, entries.values(), dollars, broken, process, words)


@dataclass
class _Reading:
    """Reads the files of a run and collects which are broken."""

    store: RunStore
    status_of: StatusOf
    broken: list[str] = field(default_factory=list)

    def selected(self) -> list[str]:
        run = self._read(self.store.run_file, self.store.read_run) or {}
        return list(run.get("selected", []))

    def entry(
        self, name: str, path: Path, read: Callable[[str, Path], InstanceEntry]
    ) -> InstanceEntry:
        return self._read(path, lambda: read(name, path)) or InstanceEntry(name, BROKEN)

    def prediction(self, name: str, path: Path) -> InstanceEntry:
        data = self.store.read_prediction(path)
        return InstanceEntry(
            instance_id=name,
            status=shortened(self.status_of(data), _LONGEST_STATUS),
            finished=True,
            attempts=len(data.get("all_results") or ()),
            reason=str(data.get("reason") or ""),
            cost=_cost(data.get("cost")),
        )

    def unfinished(self, name: str, path: Path) -> InstanceEntry:
        """Return an instance that has to be redone; the store knows its path."""
        data = self.store.read_unfinished(name)
        return InstanceEntry(
            instance_id=name,
            status=recorded_status(data),
            attempts=len(data.get("attempts", ())),
            reason=str(data.get("reason") or ""),
        )

    def _read(self, path: Path, read: Callable[[], _T]) -> _T | None:
        try:
            return read()
        except UserError as error:
            self.broken.append(str(error))
        except OSError as error:
            self.broken.append(f"{path} cannot be read ({error})")
        return None


def _cost(value: float | None) -> Decimal | None:
    try:
        return dollars_or_none(value)
    except ValueError:  # a wrong value counts as unknown
        return None
