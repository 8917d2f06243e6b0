"""A run: the instances that are still to do, worked on by an engine, each saved as it ends.

Everything under ``predictions/`` and ``logs/`` is written here, by one thread of one process.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any

from bench.attempts.attempts import Solved
from bench.attempts.records import AttemptRecord, total_cost
from bench.attempts.solving import Finished
from bench.attempts.transcript import title_of, transcript
from bench.cli.config import RunConfig
from bench.instances.dataset import DatasetIdentity
from bench.instances.instances import Instance
from core.address import recorded_address
from core.errors import UserError
from core.money import as_number
from core.plaintext import counted
from llm.chat import Call
from llm.pricing import Price
from runs.calls.hub import Hub
from runs.calls.journal import last_denial
from runs.calls.ledger import REPLAYED, Line, tokens, total
from runs.engines import Engine
from runs.ordering import longest_first
from runs.progress.display import Display
from runs.progress.statuses import InstanceStatus
from runs.progress.summary_json import RunSummary
from runs.redo import Plan
from runs.storage.starts import (
    all_versions,
    differences,
    note_end,
    note_returned,
    note_start,
    prices_used,
    timestamp,
)
from runs.storage.store import RunStore
from runs.storage.timings import Timings


@dataclass
class Run:
    """Has instances worked on and saves them.

    Attributes:
        say: prints a line for the user, and keeps it in the run's log.
        prices: the user's, by litellm's name of the model.
    """

    store: RunStore
    config: RunConfig
    hub: Hub
    engine: Engine
    display: Display
    timings: Timings
    say: Callable[[str], None]
    prices: Mapping[str, Price] = field(default_factory=dict)
    _counts: dict[InstanceStatus, int] = field(default_factory=dict)
    _returned: set[tuple[str, str]] = field(default_factory=set)
    _over_budget: dict[str, str] = field(default_factory=dict)
    _errors: list[str] = field(default_factory=list)

    def execute(self, instances: Sequence[Instance], plan: Plan | None = None) -> RunSummary:
        """Solve ``instances`` of a run that is open, and return the summary.

        Args:
            instances: what is still to do.
            plan: names what is left alone although it did not end well.

        Raises:
            UserError: the run cannot go on; finished work is kept.
        """
        address = recorded_address(self.config.api_base)
        called = self.config.models if self.config.calls_models else ()
        prices = prices_used((model.name for model in called), self.prices)
        note_start(self.store, prices, address)
        started = time.monotonic()
        ordered = longest_first(instances, self.timings.load())
        try:
            with self.display:
                for finished in self.engine.run(ordered, self._may_start):
                    self._take(finished)
        finally:
            self.hub.ledger.sync()
            with suppress(OSError):  # a full disk must not hide what went wrong first
                note_end(self.store)
        lines = self.hub.ledger.lines()
        names = [instance.instance_id for instance in instances]
        left = plan or Plan((), 0, {}, ())
        over = {**left.over_budget, **self._over_budget}
        return RunSummary(
            run=self.store.run,
            folder=self.store.folder,
            counts=self._counts,
            dollars=total(lines),
            calls=len(lines),
            tokens=tokens(lines),
            seconds=time.monotonic() - started,
            unfinished=tuple(
                n for n in names if not self.store.prediction(n).exists() and n not in over
            ),
            over_budget=over,
            errors=(*left.errors, *self._errors),
            broken=left.broken,
            stopped=self.hub.stopping() or self.hub.budget_used,
            interrupted=bool(self.hub.stopping()),
        )

    def _may_start(self) -> bool:
        return not self.hub.stopping() and not self.hub.budget_used

    def _take(self, finished: Finished) -> None:
        """Save an instance that has ended, and say so."""
        name, status, reason = finished.instance_id, finished.status, finished.reason
        # Before it is saved: a finished instance is not taken up again after a kill.
        with suppress(OSError):  # it only decides an order
            self.timings.note(name, finished.seconds)
        if finished.solved is None:
            self._keep_unfinished(finished)
        else:
            try:
                self._save(finished.solved)
            except OSError as error:  # a full disk must not take what others do
                status, reason = InstanceStatus.INFRA_ERROR, f"cannot save it: {error}"
        self._note_returned(finished.records)
        if status is InstanceStatus.BUDGET:
            denial = last_denial(self.hub.entries(name))
            self._over_budget[name] = denial.scope.value if denial else "the budget"
        elif status is InstanceStatus.ERROR and finished.solved is not None:
            self._errors.append(name)
        self._counts[status] = self._counts.get(status, 0) + 1
        cost = self.hub.ledger.spent_on(name)
        self.display.finished(name, status, self.store.redact(reason), cost)

    def _note_returned(self, records: Sequence[AttemptRecord]) -> None:
        """Note names of providers that were not seen before: at once, for the run may be killed."""
        named = {(r.model, c.reply.model) for r in records for c in r.calls if c.reply.model}
        if new := named - self._returned:
            self._returned |= new
            with suppress(OSError):  # a full disk must not take what others do
                note_returned(self.store, new)

    def _save(self, solved: Solved) -> None:
        name = solved.instance.instance_id
        if not self.config.calls_models and not self.config.outside_agent:
            for line in _replayed(name, solved.attempts):
                self.hub.ledger.add(line)
        self.hub.ledger.sync()
        label = self.config.model_name_or_path
        trajectory = self._trajectory(name, solved)
        self.store.save_instance(name, prediction(solved, label), trajectory, transcript(solved))

    def _trajectory(self, name: str, solved: Solved) -> dict[str, Any]:
        winner = solved.winner
        return {
            "instance_id": name,
            "title": title_of(solved.instance.problem_statement),
            "status": solved.choice.status.value,
            "reason": solved.choice.reason,
            "winner": winner.attempt if winner else None,
            "attempts": [record.as_trajectory() for record in solved.attempts],
            "config": self.config.as_json(),
            "versions": all_versions(),
        }

    def _keep_unfinished(self, finished: Finished) -> None:
        name = finished.instance_id
        content = {
            "instance_id": name,
            "status": finished.status.value,
            "reason": finished.reason,
            "attempts": [record.as_trajectory() for record in finished.records],
        }
        try:
            self.store.save_unfinished(name, content)
        except OSError as error:  # a full disk must not hide what went wrong first
            self.say(f"{name}: cannot save what was done: {error}")


def _replayed(name: str, records: Sequence[AttemptRecord]) -> Iterable[Line]:
    """Yield the ledger's lines of replayed replies: what they once cost."""
    for record in records:
        for number, call in enumerate(record.calls, 1):
            yield _replayed_line(f"{name}:{record.attempt}:{number}", name, record, call)


def _replayed_line(key: str, name: str, record: AttemptRecord, call: Call) -> Line:
    return Line(
        call=key,
        kind=REPLAYED,
        instance_id=name,
        attempt=record.attempt,
        model=record.model,
        cost=call.reply.cost,
        usage=call.reply.usage,
    )


def open_run(
    store: RunStore,
    config: RunConfig,
    dataset: DatasetIdentity,
    selected: Iterable[str],
    given: Mapping[str, Any] | None = None,
) -> None:
    """Write ``run.json``, or compare with the one that is there; note what is selected.

    Args:
        store: the run's files.
        config: as it is wanted now.
        dataset: likewise.
        selected: ids, added to those of earlier starts.
        given: options as they were chosen, for ``--continue``; None keeps those of before.

    Raises:
        UserError: the recorded run differs.
    """
    deciding = config.deciding(dataset.sha256)
    recorded = store.read_run()
    differ = recorded_differences(store, config, dataset)
    begun = store.begun()
    if recorded is None or not begun:
        kept = {key: value for key, value in (recorded or {}).items() if key == "starts"}
        recorded = {**describe_run(config, dataset, deciding), "selected": [], **kept}
    elif differ:
        raise UserError(
            f"run {store.run} was started with different options: {'; '.join(differ)}; repeat its "
            "options or choose another --run"
        )
    every = sorted({*recorded.get("selected", ()), *selected})
    store.save_run({**recorded, "selected": every, **({"options": dict(given)} if given else {})})


def check_remains(store: RunStore) -> None:
    """Refuse to mix a new run with what another one left.

    Raises:
        UserError: there are predictions or journals, and no ``run.json``.
    """
    if store.read_run() is not None:
        return
    if store.begun():
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


def changed_address(store: RunStore, config: RunConfig) -> str:
    """Return in words how ``--api-base`` differs from the last start's; empty where it does not."""
    described = store.read_run() or {}
    last = (described.get("starts") or [{}])[-1].get("api_base")
    before = last if last is not None else (described.get("config") or {}).get("api_base")
    now = recorded_address(config.api_base)
    if not described.get("starts") or before == now:
        return ""
    return f"--api-base was {before or 'not given'} at the last start, and is {now or 'not given'}"


def recorded_differences(store: RunStore, config: RunConfig, dataset: DatasetIdentity) -> list[str]:
    """Return in words how a begun run differs from ``config`` in what decides results."""
    recorded = store.read_run()
    if recorded is None or not store.begun():
        return []
    return differences(recorded.get("deciding"), config.deciding(dataset.sha256))


def prediction(solved: Solved, model_name_or_path: str) -> dict[str, Any]:
    """Return an instance's prediction in the layout of docs/predictions.md."""
    name = solved.instance.instance_id
    results = [record.as_prediction(name, model_name_or_path) for record in solved.attempts]
    winner = solved.winner
    chosen = winner.as_prediction(name, model_name_or_path) if winner else _nothing(results[0])
    return {
        **chosen,
        "tries": max(record.try_ for record in solved.attempts),
        "status": solved.choice.status.value,
        "reason": solved.choice.reason,
        "cost": as_number(total_cost(solved.attempts)),
        "all_results": results,
    }


def _nothing(result: dict[str, Any]) -> dict[str, Any]:
    """Return a prediction of an instance without a usable patch."""
    nothing = {"model_patch": "", "edited_files": [], "edits_test_configuration": False}
    return {**result, **nothing}


def describe_run(
    config: RunConfig, dataset: DatasetIdentity, deciding: dict[str, Any]
) -> dict[str, Any]:
    """Return what ``run.json`` says of a new run."""
    return {
        "run": config.run_name,
        "model_name_or_path": config.model_name_or_path,
        "dataset": asdict(dataset),
        "config": config.as_json(),
        "deciding": deciding,
        "versions": all_versions(),
        "started": timestamp(),
    }
