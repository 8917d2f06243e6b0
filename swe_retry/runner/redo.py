"""Choose what to work on: what is not done yet, or exactly what is to be redone."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from pydantic import TypeAdapter, ValidationError

from swe_retry.core.atomic import write_json_atomic
from swe_retry.core.errors import DamagedFileError, UserError
from swe_retry.core.plaintext import did_you_mean
from swe_retry.core.untrusted import read_object
from swe_retry.record.records import AttemptStatus
from swe_retry.record.result import InstanceResult, InstanceStatus
from swe_retry.record.store import RunStore
from swe_retry.runner.calls.budget import BudgetLimits
from swe_retry.runner.calls.coordinator import CallCoordinator
from swe_retry.runner.calls.journal import AnsweredEntry, Journal, last_denial
from swe_retry.runner.progress.state import COMMON_WORDS

# These continue from their journals: nothing that was paid for is bought again.
_GO_ON = frozenset(
    {InstanceStatus.BUDGET, InstanceStatus.INFRA_ERROR, InstanceStatus.INTERRUPTED}
)
_ERROR = InstanceStatus.ERROR


@dataclass(frozen=True)
class Redo:
    """What ``--redo`` names: statuses, and keys of jobs; ``good`` is the status of success."""

    words: tuple[str, ...]
    ids: tuple[str, ...]
    good: str

    @classmethod
    def parse(cls, text: str, ids: Collection[str], statuses: Sequence[str]) -> Redo:
        """Read a comma list of ``ids`` and of statuses; ``statuses`` are the benchmark's own."""
        alternatives = (f"not_{statuses[0]}", *statuses, *COMMON_WORDS)
        stripped = map(str.strip, text.split(","))
        parts = set(filter(None, stripped))
        unknown = sorted(parts - {*alternatives, *ids})
        if unknown:
            raise UserError(
                f"--redo {unknown[0]!r}: give {', '.join(alternatives)}, or ids of the selected "
                "instances" + did_you_mean(unknown[0], [*alternatives, *ids])
            )
        return cls(
            tuple(sorted(parts & {*alternatives})),
            tuple(sorted(parts & {*ids})),
            statuses[0],
        )

    def takes(self, result: InstanceResult, *, finished: bool) -> bool:
        """Return whether to redo an instance with this prediction or unfinished trajectory."""
        status = str(result.status)
        if result.instance_id in self.ids or status in self.words:
            return True
        if status == self.good:
            return False
        failed = any(
            attempt.status == AttemptStatus.ERROR for attempt in result.attempts
        )
        return (f"not_{self.good}" in self.words and finished) or (
            _ERROR in self.words and failed
        )


@dataclass(frozen=True)
class Plan:
    """The ids that a start works on, and those left alone although they did not end well.

    Attributes:
        done: the statuses of the predictions that are kept, by id.
        over_budget: ids that a limit stopped, not raised since, with the option that sets it.
        errors: ids whose attempts all broke; ``--redo error`` repeats them.
        broken: the faults of unreadable predictions, by id.
    """

    todo: tuple[str, ...]
    done: Mapping[str, str]
    over_budget: Mapping[str, str]
    errors: tuple[str, ...]
    broken: Mapping[str, str]

    def without(self, keys: Collection[str]) -> Plan:
        """Return the plan without the jobs ``keys``, which another run has done."""
        return replace(
            self,
            todo=tuple(key for key in self.todo if key not in keys),
            over_budget={
                key: why for key, why in self.over_budget.items() if key not in keys
            },
            errors=tuple(key for key in self.errors if key not in keys),
        )


def plan(store: RunStore, limits: BudgetLimits, ids: Sequence[str]) -> Plan:
    """Return what the plain command does with the instances ``ids``."""
    todo = []
    over = {}
    errors = []
    broken = {}
    done = {}
    for name in ids:
        path = store.prediction(name)
        try:
            status = None
            if path.exists():
                status = store.read_prediction(path).status
        except DamagedFileError as error:
            broken[name] = str(error)
            continue
        open_ = status in (None, InstanceStatus.BUDGET)
        if open_ and (
            option := _stopped_by(store, name, limits, predicted=status is not None)
        ):
            over[name] = option
        elif open_:
            todo.append(name)
        elif status == _ERROR:
            errors.append(name)
        if not open_:
            done[name] = str(status)
    return Plan(tuple(todo), done, over, tuple(errors), broken)


def _stopped_by(
    store: RunStore,
    name: str,
    limits: BudgetLimits,
    *,
    predicted: bool,
) -> str:
    """Return the option of the limit that keeps an instance from its next call; empty for none.

    What was paid for and has no prediction, after a kill, is worked on all the same: the journal
    gives the prediction again.
    """
    entries = Journal(store.journals / f"{name}.jsonl").entries()
    denial = last_denial(entries)
    paid = any(isinstance(entry, AnsweredEntry) for entry in entries)
    if denial is None or not denial.stands(limits) or (paid and not predicted):
        return ""
    return denial.limit.value


def select_redo(store: RunStore, redo: Redo, ids: Sequence[str]) -> list[str]:
    """Return the ids of what is to be redone, in the order of ``ids``.

    The same redo, when it was cut short, goes on: what it has redone is not redone again.
    """
    to_redo = set()
    for name in ids:
        result = store.result(name)
        if result is None:
            continue
        if redo.takes(result, finished=store.prediction(name).exists()):
            to_redo.add(name)
    last = _LastRedo.unfinished(store, redo)
    if last:
        for name in list(to_redo):
            if store.prediction(name).exists():
                to_redo.remove(name)
        to_redo |= last.remaining(store)
    return [name for name in ids if name in to_redo]


def put_aside_redone(
    store: RunStore,
    coordinator: CallCoordinator,
    redo: Redo,
    chosen: Sequence[str],
) -> None:
    """Put aside what ``select_redo`` chose, unless the redo that goes on has done so."""
    last = _LastRedo.unfinished(store, redo)
    if last and last.put_aside:
        return
    now = _LastRedo(redo.words, redo.ids, redo.good, tuple(chosen), put_aside=False)
    write_json_atomic(store.redo, asdict(now))
    for name in chosen:
        _put_aside(store, coordinator, redo, name)
    write_json_atomic(store.redo, asdict(replace(now, put_aside=True)))


def _put_aside(
    store: RunStore,
    coordinator: CallCoordinator,
    redo: Redo,
    name: str,
) -> None:
    result = store.result(name)
    if result is None:  # it was put aside before a kill
        return
    if result.status not in _GO_ON or name in redo.ids:
        coordinator.recover(name)
        coordinator.journal(name).retire()
    store.put_aside(name)


@dataclass(frozen=True)
class _LastRedo(Redo):
    chosen: tuple[str, ...]
    put_aside: bool  # the old files are out of the way, and work has started

    def remaining(self, store: RunStore) -> set[str]:
        return {
            n
            for n in self.chosen
            if not (self.put_aside and store.prediction(n).exists())
        }

    @classmethod
    def unfinished(cls, store: RunStore, redo: Redo) -> _LastRedo | None:
        """Return the last redo if it was the same one and was cut short."""
        try:
            data = read_object(store.redo, "delete it")
            last = TypeAdapter(cls).validate_python(data)
        except (OSError, UserError, ValidationError):
            return None
        repeats = (last.words, last.ids, last.good) == (redo.words, redo.ids, redo.good)
        if repeats and last.remaining(store):
            return last
        return None
