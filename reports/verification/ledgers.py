"""Does the ledger hold every call that the trajectories show, and each line once?"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path

from agent.money import as_text
from bench.ledger import Line
from bench.plaintext import counted
from reports.rundata import RunData
from reports.verification.difference import Difference

Costs = Counter[Decimal | None]
_REPLIED = ("answered", "replayed")


def ledger_differences(path: Path, run: RunData) -> Iterator[Difference]:
    """Yield what is wrong with the ledger at ``path``; nothing for runs without one."""
    if not path.is_file():
        calls = sum(len(a.calls) for i in run.instances for a in i.attempts)
        if calls and "versions" in run.described and "combined" not in run.described:
            shown = counted(calls, "call")
            yield Difference(path, f"is missing, and the trajectories show {shown}")
        return
    lines = list(_lines(path))
    for number, line in enumerate(lines, 1):
        if isinstance(line, str):
            yield Difference(path, f"line {number} cannot be read: {line}")
    whole = [line for line in lines if isinstance(line, Line)]
    for call, count in Counter(line.call for line in whole).items():
        if count > 1:
            yield Difference(path, f"the call {call} stands there {count} times")
    yield from (Difference(path, words) for words in _missing(whole, run))


def _lines(path: Path) -> Iterator[Line | str]:
    for raw in path.read_bytes().removesuffix(b"\n").split(b"\n"):
        try:
            yield Line.of_json(json.loads(raw))
        except (KeyError, TypeError, ValueError, ArithmeticError, RecursionError) as error:
            yield repr(error)


def _missing(lines: Sequence[Line], run: RunData) -> Iterator[str]:
    """Yield what the trajectories show and the ledger lacks; redone attempts may add lines."""
    paid = _paid(lines)
    for instance in run.instances:
        for attempt in instance.attempts:
            shown: Costs = Counter(call.cost for call in attempt.calls)
            lacking = shown - paid.get((instance.instance_id, attempt.attempt), Counter())
            for cost, count in sorted(lacking.items(), key=str):
                words = "an unknown cost" if cost is None else f"${as_text(cost)}"
                yield (
                    f"lacks {counted(count, 'call')} at {words} of {instance.instance_id}, "
                    f"attempt {attempt.attempt}"
                )


def _paid(lines: Sequence[Line]) -> Mapping[tuple[str, int], Costs]:
    paid: dict[tuple[str, int], Costs] = {}
    for line in lines:
        if line.kind in _REPLIED:
            key = (line.instance_id, line.attempt)
            paid.setdefault(key, Counter())[line.cost] += 1
    return paid
