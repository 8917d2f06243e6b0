"""Choose what to work on: what is not done yet, or exactly what is to be redone."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from core.atomic import write_json_atomic
from core.errors import DamagedFileError, UserError
from core.parsing.untrusted import read_object
from runs.calls.budget import BudgetLimits
from runs.calls.coordinator import CallCoordinator
from runs.calls.journal import EntryKind, Journal, last_denial
from runs.progress.statuses import InstanceStatus
from runs.storage.store import RunStore

NOT_PLAUSIBLE = "not_plausible"
# These continue from their journals: nothing that was paid for is bought again.
_GO_ON = frozenset({InstanceStatus.BUDGET, InstanceStatus.INFRA_ERROR, InstanceStatus.INTERRUPTED})
WORDS = (NOT_PLAUSIBLE, *(status.value for status in InstanceStatus))


@dataclass(frozen=True)
class Redo:
    """What ``--redo`` names: statuses, and ids of instances."""

    words: frozenset[str]
    ids: frozenset[str]

    @classmethod
    def parse(cls, text: str, ids: Collection[str]) -> Redo:
        """Read a comma list of statuses and of ``ids``."""
        words = {word.strip() for word in text.split(",") if word.strip()}
        if unknown := sorted(words - {*WORDS, *ids}):
            raise UserError(
                f"--redo {unknown[0]!r}: give {', '.join(WORDS)}, or ids of the selected instances"
            )
        return cls(frozenset(words & {*WORDS}), frozenset(words & {*ids}))

    def takes(self, instance_id: str, result: Mapping[str, Any]) -> bool:
        """Return whether to redo an instance with this prediction or unfinished trajectory."""
        status = str(result.get("status", ""))
        if instance_id in self.ids or status in self.words:
            return True
        if status == InstanceStatus.PLAUSIBLE.value:
            return False
        attempts = result.get("all_results") or result.get("attempts") or []
        failed = any(a.get("status") == InstanceStatus.ERROR.value for a in attempts)
        finished = "all_results" in result
        return (NOT_PLAUSIBLE in self.words and finished) or (
            InstanceStatus.ERROR.value in self.words and failed
        )


@dataclass(frozen=True)
class Plan:
    """The ids that a start works on, and those left alone although they did not end well.

    Attributes:
        done: number of ids with a prediction that is kept.
        over_budget: ids that a limit stopped which is no higher now, with the option that sets it.
        errors: ids whose attempts all broke; ``--redo error`` repeats them.
        broken: the faults of unreadable predictions, by id.
    """

    todo: tuple[str, ...]
    done: int
    over_budget: Mapping[str, str]
    errors: tuple[str, ...]
    broken: Mapping[str, str] = field(default_factory=dict)


def plan(store: RunStore, limits: BudgetLimits, ids: Sequence[str]) -> Plan:
    """Return what the plain command does with the instances ``ids``."""
    todo, over, errors, broken, done = [], {}, [], {}, 0
    for name in ids:
        path = store.prediction(name)
        try:
            status = str(store.read_prediction(path).get("status", "")) if path.exists() else None
        except DamagedFileError as error:
            broken[name] = str(error)
            continue
        open_ = status in (None, InstanceStatus.BUDGET.value)
        if open_ and (option := _stopped_by(store, name, limits, predicted=status is not None)):
            over[name] = option
        elif open_:
            todo.append(name)
        elif status == InstanceStatus.ERROR.value:
            errors.append(name)
        done += not open_
    return Plan(tuple(todo), done, over, tuple(errors), broken)


def _stopped_by(store: RunStore, name: str, limits: BudgetLimits, *, predicted: bool) -> str:
    """Return the option of the limit that keeps an instance from its next call; empty for none.

    What was paid for and has no prediction, after a kill, is worked on all the same: the journal
    gives the prediction again.
    """
    entries = Journal(store.journals / f"{name}.jsonl").entries()
    denial = last_denial(entries)
    paid = any(entry.get("kind") == EntryKind.ANSWERED.value for entry in entries)
    if denial is None or not denial.stands(limits) or (paid and not predicted):
        return ""
    return denial.scope.value


def prepare(
    store: RunStore, coordinator: CallCoordinator, redo: Redo, ids: Sequence[str]
) -> list[str]:
    """Put aside what is to be redone and return the ids, in the order of ``ids``.

    The same redo, when it was cut short, goes on: what it has redone is not redone again.
    """
    wanted = {
        name
        for name in ids
        if (result := store.result(name)) is not None and redo.takes(name, result)
    }
    last = _LastRedo.read(store)
    if last is not None and last.redo == redo and (left := last.left(store)):
        open_ = {name for name in wanted if not store.prediction(name).exists()}
        wanted = {name for name in ids if name in left or name in open_}
        if last.put_aside:
            return [name for name in ids if name in wanted]
    chosen = [name for name in ids if name in wanted]
    _LastRedo(redo, tuple(chosen), put_aside=False).write(store)
    for name in chosen:
        _put_aside(store, coordinator, redo, name)
    _LastRedo(redo, tuple(chosen), put_aside=True).write(store)
    return chosen


def _put_aside(store: RunStore, coordinator: CallCoordinator, redo: Redo, name: str) -> None:
    result = store.result(name)
    if result is None:  # it was put aside before a kill
        return
    if result.get("status") not in {status.value for status in _GO_ON} or name in redo.ids:
        coordinator.recover(name)
        coordinator.journal(name).retire()
    store.put_aside(name)


@dataclass(frozen=True)
class _LastRedo:
    """The redo that was started last, on disk."""

    redo: Redo
    chosen: tuple[str, ...]
    put_aside: bool  # the old files are out of the way, and work has started

    def left(self, store: RunStore) -> set[str]:
        return {n for n in self.chosen if not (self.put_aside and store.prediction(n).exists())}

    def write(self, store: RunStore) -> None:
        content = {"words": sorted(self.redo.words), "ids": sorted(self.redo.ids)}
        plain = {**content, "chosen": self.chosen, "put_aside": self.put_aside}
        write_json_atomic(store.redo, plain)

    @classmethod
    def read(cls, store: RunStore) -> _LastRedo | None:
        try:
            raw = read_object(store.redo, "delete it")
            redo = Redo(frozenset(raw["words"]), frozenset(raw["ids"]))
            return cls(redo, tuple(raw["chosen"]), bool(raw["put_aside"]))
        except (OSError, UserError, KeyError, TypeError):
            return None
