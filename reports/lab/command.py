"""``report.py lab RUN``: replay recorded runs under other policies, without any call."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

from core.errors import UserError
from core.money import in_words
from core.plaintext import Say, counted, one_line, table
from core.redaction import Redactor
from reports.data.rundata import read_run
from reports.lab.policies import policies_of
from reports.lab.recorded import LabData, lab_data
from reports.lab.replay import (
    ORACLE,
    ExpectedTotal,
    Front,
    LabReport,
    PolicyResult,
    run_lab,
)
from reports.pages.markdown import NONE, Cells, percent, points, within
from reports.statistics.methods import ShareRange
from runs.storage.store import RunStore

_LEVEL = 0.05


def lab_command(
    stores: Sequence[RunStore],
    policies: Sequence[str],
    samples: int,
    say: Say,
    show: Say,
    *,
    as_json: bool = False,
) -> int:
    """Print the result in Markdown or as JSON, and write its picture beside the first run."""
    # Imported here: matplotlib takes half a second.
    from reports.lab.picture import write_front

    runs = [read_run(store) for store in stores]
    data = lab_data(runs)
    if not data.attempts:
        raise UserError(
            f"{stores[0].folder} records no attempt, so no policy can be replayed"
        )
    report = run_lab(data, policies_of(data, policies), samples)
    if as_json:
        show(json.dumps(lab_json(report, data), indent=1))
    else:
        for line in lab_lines(report, data):
            show(line)
    folder = stores[0].folder / "lab"
    picture = write_front(report, folder, Redactor.of_environment(os.environ))
    if picture:
        say(f"picture        {picture}")
    else:
        say("no picture: no dollars are known")
    return 0


def lab_json(report: LabReport, data: LabData) -> dict[str, Any]:
    """Return the report as JSON; shares lie between 0 and 1."""
    turns = [{"model": turn.model, "try": turn.try_} for turn in data.turns]
    counts = {"instances": len(data.instances), "attempts": len(data.attempts)}
    return {"runs": data.name, **counts, "turns": turns, **asdict(report)}


def lab_lines(report: LabReport, data: LabData) -> Iterator[str]:
    """Yield the report in Markdown."""
    attempts, most = len(data.attempts), len(data.turns)
    models = counted(len({turn.model for turn in data.turns}), "model")
    yield f"# Lab: {one_line(data.name)}\n"
    yield (
        f"{counted(len(data.instances), 'instance')}, {counted(attempts, 'attempt')} of {models}, "
        f"at most {most} of an instance. {report.samples:,} samples, seed {report.seed}."
    )
    if missing := len(data.instances) * most - attempts:
        never = counted(missing, "attempt was", "attempts were")
        yield f"\n{never} never made: a policy that asks for one ends."
    verdicts = [one for each in data.instances for one in each.resolved.values()]
    if unknown := verdicts.count(None):
        lack = counted(unknown, "attempt has", "attempts have")
        yield f"\n{lack} no verdict; `report.py RUN --all-attempts` evaluates them."
    if any(each.unknown for each in report.policies):
        yield "\nA range is what the recording cannot tell: its ends count it as not resolved, and"
        yield "as resolved. ≥ is a lower bound for the same reason."
    yield "\n## Policies, by cost\n"
    headings = (
        "Policy",
        "Resolved",
        "95 % interval",
        "Attempts",
        "Calls",
        "Dollars",
        "Hours",
        "Against recorded",
        "p (Holm)",
        "Front",
    )
    ordered = sorted(report.policies, key=lambda each: each.dollars.value)
    rows = [_cells(each, len(data.instances)) for each in ordered]
    yield from table(headings, rows, numbers=range(1, 9), markdown=True)
    tested = {
        e.name: e.p_corrected for e in report.policies if e.p_corrected is not None
    }
    found = [one_line(name) for name, p_value in tested.items() if p_value < _LEVEL]
    number = counted(len(tested), "policy", "policies")
    which = ", ".join(found) or "none"
    yield f"\nSignificantly different from the run's own (5 %, Holm, {number}): {which}."
    yield "\n## best@k and pass@k: k attempts in random order\n"
    shares: list[Cells] = []
    for row in report.best:
        cells: list[object] = [row.k]
        for share in (row.least_bad, row.most_agreed, row.oracle):
            cells += [_share(share), within(share.interval)]
        shares.append(cells)
    kinds = ("best@k, least bad", "best@k, most agreed", "pass@k")
    heads = ("k", *(name for head in kinds for name in (head, "95 % interval")))
    yield from table(heads, shares, numbers=range(7), markdown=True)


def _cells(each: PolicyResult, instances: int) -> Cells:
    difference, found = NONE, each.difference
    if found and found.interval:
        among = "" if found.problems == instances else f"; {found.problems} known"
        reach = f"{points(found.interval)}{among}"
        difference = f"{100 * (found.difference or 0):+.1f} points ({reach})"
    front = "" if each.front is Front.NO else each.front.value
    return (
        each.name,
        _share(each.resolved),
        within(each.resolved.interval),
        _total(each.attempts, "{:,.0f}".format),
        _total(each.calls, "{:,.0f}".format),
        _total(each.dollars, in_words),
        _total(each.hours, "{:,.1f}".format),
        difference,
        NONE if each.p_corrected is None else f"{each.p_corrected:.2g}",
        "upper bound" if each.name == ORACLE else front,
    )


def _share(share: ShareRange) -> str:
    low, high = percent(share.low), percent(share.high)
    return low if low == high else f"{low} to {high}"


def _total(total: ExpectedTotal, words: Callable[[float], str]) -> str:
    if total.complete:
        return words(total.value)
    return f"≥ {words(total.value)}" if total.value else NONE
