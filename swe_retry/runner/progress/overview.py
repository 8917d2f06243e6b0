"""Read the status of a run from its files, without starting it: ``harness.py status``."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any, TypeVar

from pydantic import TypeAdapter

from swe_retry.core.errors import UserError
from swe_retry.core.jsontypes import JsonObject
from swe_retry.core.money import Dollars, column, total
from swe_retry.core.plaintext import abbreviate, one_line, quantity, table
from swe_retry.record.evidence import Belief
from swe_retry.record.jsonlines import DamagedLine
from swe_retry.record.result import InstanceResult
from swe_retry.record.runlock import is_locked, last_owner
from swe_retry.record.store import RunStore
from swe_retry.runner.progress.state import COMMON_WORDS

NOT_STARTED = "not_begun"
IN_WORK = "in_work"
KILLED = "killed"
BROKEN = "broken"
_LAST = (*COMMON_WORDS, IN_WORK, KILLED, BROKEN, NOT_STARTED)
_HEADINGS = ("status", "instances", "attempts", "dollars")
_LONGEST_REASON = 100
# Of what JSON does not have whole.
_SHOWN = {
    "unfinished": {"__all__": {"instance_id", "status", "reason"}},
    "beliefs": {"__all__": {"weight", "none"}},
}


@dataclass(frozen=True)
class StatusTotals:
    """All instances of one status; ``dollars`` is None when the cost of one is unknown."""

    instances: int
    attempts: int
    dollars: Dollars | None


@dataclass(frozen=True)
class RunStatus:
    """The status of a run.

    Attributes:
        statuses: by status, in the order of the table.
        unfinished: instances that were started and have no prediction, by id.
        broken: the problems of files of the run, in words.
        beliefs: how sure the choices are that follow from evidence, by id.
        process: the process that works on the run, or was killed during it; empty for neither.
    """

    run: str
    folder: Path
    statuses: Mapping[str, StatusTotals]
    total: StatusTotals
    unfinished: tuple[InstanceResult, ...]
    broken: tuple[str, ...]
    beliefs: Mapping[str, Belief]
    process: str

    def as_json(self) -> JsonObject:
        """Return the status as JSON (docs/run.md); dollars are a string, exact."""
        parts = dict.fromkeys(RunStatus.__dataclass_fields__, True)
        content = TypeAdapter(RunStatus).dump_python(
            self,
            mode="json",
            include={**parts, **_SHOWN},
        )
        return dict(content)


def _sum_up(
    results: Collection[InstanceResult],
    dollars: Mapping[str, Decimal | None],
) -> StatusTotals:
    attempts = sum(len(result.attempts) for result in results)
    costs = [dollars[result.instance_id] for result in results]
    return StatusTotals(len(results), attempts, total(costs))


def lines(run_status: RunStatus) -> Iterator[str]:
    """Yield the table, then unfinished instances and broken files, without control characters."""
    yield one_line(f"{run_status.run}: {run_status.folder}")
    if run_status.process:
        yield one_line(run_status.process)
    rows = {**run_status.statuses, "total": run_status.total}
    dollars = column([row.dollars for row in rows.values()])
    cells = []
    for (status, row), cost in zip(rows.items(), dollars, strict=True):
        cells.append((status, row.instances, row.attempts, cost))
    yield from table(_HEADINGS, cells, numbers=(1, 2, 3))
    beliefs = run_status.beliefs.values()
    if beliefs:
        weight = mean(belief.weight for belief in beliefs)
        none = mean(belief.none for belief in beliefs)
        yield (
            f"chosen by evidence: {quantity(len(beliefs), 'instance')}; on average the "
            f"winner is right with the weight {weight:.2f}, and no candidate is with {none:.2f}"
        )
    if run_status.unfinished:
        yield f"unfinished: {len(run_status.unfinished)}"
    for entry in run_status.unfinished:
        reason = abbreviate(entry.reason, _LONGEST_REASON)
        text = "; ".join(filter(None, (entry.status, reason)))
        yield f"  {one_line(f'{entry.instance_id}: {text}')}"
    if run_status.broken:
        yield f"broken files: {len(run_status.broken)}"
    for problem in run_status.broken:
        yield f"  {one_line(problem)}"


_SUFFIX = ".unfinished.json"
_LONGEST_STATUS = 30
_T = TypeVar("_T")


def overview(
    store: RunStore,
    dollars: Mapping[str, Decimal | None],
    damaged: Iterable[DamagedLine] = (),
    statuses: Sequence[str] = (),
) -> RunStatus:
    """Return the status of a run, with the names of its broken files.

    For an instance that ``dollars`` lacks, the cost in its file counts. ``statuses`` are the
    benchmark's statuses in order.

    Raises:
        UserError: there is no such run.
    """
    if not store.folder.is_dir():
        raise store.missing()
    reading = _Reading(store)
    owner = last_owner(store.folder)
    working = is_locked(store.folder)
    process = ""
    if owner:
        process = f"{owner} did not end this run by itself"
    if working:
        process = f"in work by {owner or 'another process'}"
    finished = reading.predictions()
    results = {**reading.selected(working=working), **reading.unfinished(), **finished}
    by_status: dict[str, list[InstanceResult]] = {}
    for status in (*statuses, *_LAST):
        by_status[status] = []
    costs = {}
    unfinished = []
    beliefs = {}
    for name, result in sorted(results.items()):
        by_status.setdefault(result.status, []).append(result)
        costs[name] = result.cost
        if name not in finished and result.status not in (NOT_STARTED, BROKEN):
            unfinished.append(result)
        if result.belief:
            beliefs[name] = result.belief
    costs.update(dollars)
    rows = {}
    for status, group in by_status.items():
        if group:
            rows[status] = _sum_up(group, costs)
    run_total = _sum_up(results.values(), costs)
    return RunStatus(
        run=store.run,
        folder=store.folder,
        statuses=rows,
        total=replace(run_total, dollars=total(costs.values())),
        unfinished=tuple(unfinished),
        broken=(*reading.broken, *map(str, damaged)),
        beliefs=beliefs,
        process=process,
    )


@dataclass
class _Reading:
    """Reads the files of a run and collects which are broken."""

    store: RunStore
    broken: list[str] = field(default_factory=list)

    def selected(self, *, working: bool) -> dict[str, InstanceResult]:
        """Return the instances by id, as if none had a file of its own."""
        store = self.store
        run = self._read(store.run_file, store.read_run)
        results = {}
        names = run.selected if run else None
        for name in names or ():
            status = NOT_STARTED
            if (store.logs / f"{name}.log").exists():
                status = IN_WORK if working else KILLED
            results[name] = InstanceResult(
                instance_id=name,
                status=status,
                cost=Decimal(),
            )
        return results

    def unfinished(self) -> dict[str, InstanceResult]:
        """Return those that have to be redone; only the ledger says what they cost."""
        results = {}
        for path in sorted(self.store.logs.glob(f"*{_SUFFIX}")):
            name = path.name.removesuffix(_SUFFIX)
            # Of an instance that was redone, only the prediction counts.
            if not self.store.prediction(name).exists():
                read = partial(self.store.read_unfinished, name)
                results[name] = self._result(name, path, read, cost=Decimal())
        return results

    def predictions(self) -> dict[str, InstanceResult]:
        results = {}
        for path in self.store.prediction_paths():
            name = self.store.name_of(path)
            read = partial(self.store.read_prediction, path)
            results[name] = self._result(name, path, read)
        return results

    def _result(
        self,
        name: str,
        path: Path,
        read: Callable[[], InstanceResult],
        **changes: Any,  # noqa: ANN401 - fields
    ) -> InstanceResult:
        result = self._read(path, read)
        if result is None:
            return InstanceResult(instance_id=name, status=BROKEN)
        status = abbreviate(result.status or "unknown", _LONGEST_STATUS)
        return result.but(instance_id=name, status=status, **changes)

    def _read(self, path: Path, read: Callable[[], _T]) -> _T | None:
        try:
            return read()
        except UserError as error:
            self.broken.append(str(error))
        except OSError as error:
            self.broken.append(f"{path} cannot be read ({error})")
        return None
