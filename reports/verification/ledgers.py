"""Compare the ledger and the journals with each other and with the calls of the trajectories."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from core.plaintext import counted
from llm.chat import Call
from llm.replay import reply_of_json
from reports.data.jsonvalues import mapping, objects
from reports.data.rundata import RunData
from reports.verification.difference import Difference, first_difference
from reports.verification.requests import OUTSIDE
from runs.calls.journal import Journal, asked_and_ended, journals_of, reply_of
from runs.calls.ledger import REPLAYED, LedgerLine, replayed_lines
from runs.storage.store import RunStore

_REPLIED = ("answered", REPLAYED)


def ledger_differences(store: RunStore, run: RunData) -> Iterator[Difference]:
    """Yield the faults of the ledger and the journals of ``run``."""
    path, ours = store.ledger, "versions" in run.described
    if not path.is_file():
        calls = sum(len(a.calls) for i in run.instances for a in i.attempts)
        if calls and ours:
            shown = counted(calls, "call")
            yield Difference(path, f"is missing, but the trajectories show {shown}")
        return
    for damage in run.damaged:
        yield Difference(path, damage.problem, damage.number)
    yield from (Difference(path, words) for words in _missing(run.ledger, run))
    for name in sorted({line.instance_id for line in run.ledger}.difference(run.selected)):
        yield Difference(path, f"has calls of {name!a}, which is not an instance of this run")
    if not ours:
        return
    replayed = mapping(run.described.get("config")).get("replay") is not None
    by_call = {line.call: (number, line) for number, line in enumerate(run.ledger, 1)}
    for instance in run.instances:
        name = instance.instance_id
        attempts = objects(store.read_trajectory(name).get("attempts"))
        if replayed:
            expected = [line for raw in attempts for line in _replayed(name, raw)]
        else:
            expected = [*_journaled(store, name)]
            yield from _unasked(store, name, attempts)
        for line in expected:
            if line.call not in by_call:
                yield Difference(path, f"lacks the call {line.call} of {name}")
                continue
            number, found = by_call[line.call]
            if spot := first_difference(found.as_json(), line.as_json()):
                yield Difference(path, str(spot), number)


def _replayed(name: str, raw: Mapping[str, Any]) -> Iterator[LedgerLine]:
    calls = [Call("", reply_of_json(call)) for call in raw["calls"]]
    return replayed_lines(name, raw["attempt"], raw["model"], calls)


def _journaled(store: RunStore, name: str) -> Iterator[LedgerLine]:
    """Yield the lines of the calls in the journals of an instance."""
    for path in journals_of(store.journals, name):
        for asked, ended in asked_and_ended(Journal(path).entries()):
            line = LedgerLine.of_call(name, asked, ended) if ended else None
            if line is not None:
                yield line


def _unasked(
    store: RunStore, name: str, attempts: Sequence[Mapping[str, Any]]
) -> Iterator[Difference]:
    """Yield the calls of a trajectory that are not in its journals, if these are still there."""
    known = []
    paths = journals_of(store.journals, name)
    for asked, ended in (p for path in paths for p in asked_and_ended(Journal(path).entries())):
        if ended and ended["kind"] == "answered":
            call = Call(asked["request_sha256"], reply_of(asked, ended))
            plain = json.loads(json.dumps(call.as_json()))
            known.append((asked["attempt"], asked["model"], plain))
    if not known:
        return
    for attempt in attempts:
        for number, call in enumerate(attempt["calls"], 1):
            key = (attempt["attempt"], attempt["model"], call)
            if key not in known and attempt["edit_format"] != OUTSIDE:
                words = f"call {number} of attempt {key[0]} is not that of its journal"
                yield Difference(store.trajectory(name), words)


def _missing(lines: Sequence[LedgerLine], run: RunData) -> Iterator[str]:
    """Yield calls that the ledger lacks; it may contain more calls, of redone attempts."""
    paid: Counter[tuple[Any, ...]] = Counter(
        (line.instance_id, line.attempt, line.model, line.usage, line.cost)
        for line in lines
        if line.kind in _REPLIED
    )
    for instance in run.instances:
        name = instance.instance_id
        for attempt in instance.attempts:
            number, model = attempt.attempt, attempt.model
            shown = Counter((name, number, model, c.usage, c.cost) for c in attempt.calls)
            if lacking := shown - paid:
                count = counted(lacking.total(), "call")
                yield f"lacks {count} of {name}, attempt {number}, as its trajectory has them"
