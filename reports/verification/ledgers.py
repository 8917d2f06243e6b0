"""Check that the ledger contains every call of the trajectories, and each line once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path

from core.money import as_text
from core.plaintext import counted
from reports.data.rundata import RunData
from reports.verification.difference import Difference
from runs.calls.ledger import REPLAYED, LedgerLine

Costs = Counter[Decimal | None]
_REPLIED = ("answered", REPLAYED)


def ledger_differences(path: Path, run: RunData) -> Iterator[Difference]:
    """Yield the faults of the ledger of ``run`` at ``path``."""
    if not path.is_file():
        calls = sum(len(a.calls) for i in run.instances for a in i.attempts)
        if calls and "versions" in run.described and "combined" not in run.described:
            shown = counted(calls, "call")
            yield Difference(path, f"is missing, but the trajectories show {shown}")
        return
    for damage in run.damaged:
        yield Difference(path, damage.problem, damage.number)
    yield from (Difference(path, words) for words in _missing(run.ledger, run))
    selected = {*run.selected}
    for name in sorted({line.instance_id for line in run.ledger} - selected):
        yield Difference(path, f"has calls of {name!a}, which is not an instance of this run")


def _missing(lines: Sequence[LedgerLine], run: RunData) -> Iterator[str]:
    """Yield calls that the ledger lacks; it may contain more calls, of redone attempts."""
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


def _paid(lines: Sequence[LedgerLine]) -> Mapping[tuple[str, int], Costs]:
    paid: dict[tuple[str, int], Costs] = {}
    for line in lines:
        if line.kind in _REPLIED:
            key = (line.instance_id, line.attempt)
            paid.setdefault(key, Counter())[line.cost] += 1
    return paid
