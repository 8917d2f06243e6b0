"""A run: its jobs are worked on by an engine, and each is saved as it ends.

Everything under ``predictions/`` and ``logs/`` is written here, by one thread of one process.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from core.errors import UserError
from core.plaintext import counted
from runs.calls.coordinator import CallCoordinator
from runs.calls.journal import last_denial
from runs.calls.ledger import tokens, total
from runs.engines import Engine
from runs.jobs import Finished, Job, JobKind
from runs.progress.display import Display
from runs.progress.statuses import InstanceStatus
from runs.progress.summary_json import RunSummary
from runs.redo import Plan
from runs.storage.manifest import differences, note_end
from runs.storage.store import RunStore
from runs.storage.timings import Timings


@dataclass
class Run:
    """Has jobs worked on and saves them."""

    store: RunStore
    coordinator: CallCoordinator
    engine: Engine
    display: Display
    timings: Timings
    kind: JobKind
    _counts: dict[InstanceStatus, int] = field(default_factory=dict)
    _over_budget: dict[str, str] = field(default_factory=dict)
    _errors: list[str] = field(default_factory=list)

    def execute(self, jobs: Sequence[Job], plan: Plan | None = None) -> RunSummary:
        """Work on ``jobs`` of a run that is open; ``plan`` names what is left alone."""

        def may_start() -> bool:
            return not self.coordinator.stopping() and not self.coordinator.budget_used

        started = time.monotonic()
        ordered = self.kind.order(jobs, self.timings.load())
        try:
            with self.display, self.kind.around(ordered, self.display.note):
                for finished in self.engine.run(ordered, may_start):
                    self._take(finished)
        finally:
            self.coordinator.ledger.sync()
            with suppress(OSError):  # a full disk must not hide what went wrong first
                note_end(self.store)
        keys = [job.key for job in jobs]
        return self._summary(keys, plan or Plan((), 0, {}, ()), time.monotonic() - started)

    def _summary(self, keys: Sequence[str], left: Plan, seconds: float) -> RunSummary:
        lines = self.coordinator.ledger.lines()
        over = {**left.over_budget, **self._over_budget}
        return RunSummary(
            run=self.store.run,
            folder=self.store.folder,
            counts=self._counts,
            dollars=total(lines),
            calls=len(lines),
            tokens=tokens(lines),
            seconds=seconds,
            unfinished=tuple(key for key in keys if not self._is_done(key) and key not in over),
            over_budget=over,
            errors=(*left.errors, *self._errors),
            broken=left.broken,
            stopped=self.coordinator.stopping() or self.coordinator.budget_used,
            interrupted=bool(self.coordinator.stopping()),
        )

    def _is_done(self, key: str) -> bool:
        return self.store.prediction(key).exists()

    def _take(self, finished: Finished[Any]) -> None:
        key, status, reason = finished.key, finished.status, finished.reason
        # Before it is saved: a finished job is not taken up again after a kill.
        with suppress(OSError):  # it only decides an order
            self.timings.note(key, finished.seconds)
        try:
            self.kind.save(finished, self.coordinator)
        except OSError as error:  # a full disk must not take what others do
            status, reason = InstanceStatus.INFRA_ERROR, f"cannot save it: {error}"
        if status is InstanceStatus.BUDGET:
            denial = last_denial(self.coordinator.entries(key))
            self._over_budget[key] = denial.scope.value if denial else "the budget"
        elif status is InstanceStatus.ERROR and self._is_done(key):
            self._errors.append(key)
        self._counts[status] = self._counts.get(status, 0) + 1
        cost = self.coordinator.ledger.spent_on(key)
        self.display.finished(key, status, self.store.redact(reason), cost)


def open_run(
    store: RunStore,
    description: Mapping[str, Any],
    selected: Iterable[str],
    given: Mapping[str, Any] | None = None,
) -> None:
    """Write ``run.json``, or compare with the one that is there; note what is selected.

    Args:
        description: of a new run; what it has under ``deciding`` must not change.
        selected: keys of jobs, added to those of earlier starts.
        given: options as they were chosen, for ``--continue``; None keeps those of before.
    """
    recorded = store.read_run()
    differ = recorded_differences(store, description["deciding"])
    if recorded is None or not store.has_results():
        kept = {key: value for key, value in (recorded or {}).items() if key == "starts"}
        recorded = {**description, "selected": [], **kept}
    elif differ:
        raise UserError(
            f"run {store.run} was started with different options: {'; '.join(differ)}; go back to "
            "what it was started with or choose another --run"
        )
    every = sorted({*recorded.get("selected", ()), *selected})
    store.save_run({**recorded, "selected": every, **({"options": dict(given)} if given else {})})


def check_remains(store: RunStore) -> None:
    """Refuse predictions or journals without a ``run.json``: they are of another run."""
    if store.read_run() is not None:
        return
    if store.has_results():
        raise UserError(
            f"{store.folder} has predictions but no run.json: they were not made by this "
            "harness; choose another --run"
        )
    if paid := sum(1 for _ in store.journals.glob("*.jsonl")):
        verb = "is" if paid == 1 else "are"
        raise UserError(
            f"{store.folder} is gone, but {counted(paid, 'journal')} of an earlier run "
            f"{store.run} {verb} left in {store.journals}: restore the folder, remove them with "
            "--clean --all, or choose another --run"
        )


def changed_address(store: RunStore, address: str | None) -> str:
    """Return in words how ``--api-base`` differs from the last start's; empty where it does not."""
    described = store.read_run() or {}
    last = (described.get("starts") or [{}])[-1].get("api_base")
    before = last if last is not None else (described.get("config") or {}).get("api_base")
    if not described.get("starts") or before == address:
        return ""
    return (
        f"--api-base was {before or 'not given'} at the last start, and is {address or 'not given'}"
    )


def recorded_differences(store: RunStore, deciding: Mapping[str, Any]) -> list[str]:
    """Return in words how a started run differs in what decides results."""
    recorded = store.read_run()
    if recorded is None or not store.has_results():
        return []
    return differences(recorded.get("deciding"), deciding)
