"""``report.py --lab RUN``: replay recorded runs under other policies, without any call."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from core.errors import UserError
from core.money import in_words
from core.plaintext import Say, counted, one_line, table
from core.redaction import Redactor
from reports.cli.options import ReportOptions, ReportTask
from reports.data.rundata import read_run
from reports.lab.policies import policies_of
from reports.lab.recorded import lab_data
from reports.lab.replay import (
    ORACLE,
    Expected,
    Front,
    LabReport,
    PolicyDifference,
    PolicyResult,
    ShareRange,
    run_lab,
)
from reports.pages.markdown import NONE, Cells, percent, within
from runs.storage.store import RunStore


def lab_command(asked: ReportTask, options: ReportOptions, say: Say, show: Say) -> int:
    """Print the result in Markdown or as JSON, and write its picture beside the first run."""
    if options.compare or options.follow or options.verify or options.table:
        raise UserError("--lab takes runs, --policy, --samples and --json; leave the others out")
    if options.evaluator is not None or options.regrade or options.all_attempts:
        raise UserError("--lab evaluates nothing: run report.py RUN --all-attempts first")
    stores = [RunStore.of_folder(run) for run in asked.runs]
    if len({store.folder for store in stores}) < len(stores):
        raise UserError("a run is given twice; name each once")
    runs = [read_run(store) for store in stores]
    data = lab_data(runs)
    if not data.attempts:
        raise UserError(f"{stores[0].folder} records no attempt, so no policy can be replayed")
    report = run_lab(data, policies_of(data, asked.policies), asked.samples)
    if options.as_json:
        show(json.dumps(lab_json(report), indent=1))
    else:
        for line in lab_lines(report):
            show(line)
    if options.page:
        # Imported here: matplotlib takes half a second.
        from reports.lab.picture import write_front

        folder = stores[0].folder / "lab"
        written = write_front(report, folder, Redactor.of_environment(os.environ))
        say(f"picture        {written}" if written else "no picture: no dollars are known")
    return 0


def lab_json(report: LabReport) -> dict[str, Any]:
    """Return the report as JSON; shares lie between 0 and 1."""
    turns = [{"model": turn.model, "try": turn.try_} for turn in report.turns]
    return {**asdict(report), "turns": turns}


def lab_lines(report: LabReport) -> Iterator[str]:
    """Yield the report in Markdown."""
    models = len({turn.model for turn in report.turns})
    yield f"# Lab: {one_line(report.name)}"
    yield ""
    yield (
        f"{counted(report.instances, 'instance')}, {counted(report.attempts, 'attempt')} of "
        f"{counted(models, 'model')}, at most {len(report.turns)} of an instance. "
        f"{report.samples:,} samples, seed {report.seed}."
    )
    if missing := report.instances * len(report.turns) - report.attempts:
        yield f"\n{counted(missing, 'attempt')} were never made: a policy that asks for one ends."
    if report.without_verdict:
        lack = counted(report.without_verdict, "attempt")
        yield f"\n{lack} have no verdict; `report.py RUN --all-attempts` evaluates them."
    if any(each.unknown for each in report.policies):
        yield "\nA range is what the recording cannot tell: its ends count it as not resolved, and"
        yield "as resolved. ≥ is a lower bound for the same reason."
    yield "\n## Policies\n"
    headings = (
        "Policy", "Resolved", "95 % interval", "Attempts", "Calls", "Dollars", "Hours",
        "Against recorded", "p (Holm)", "Front", "What it does",
    )  # fmt: skip
    rows = [_cells(each, report) for each in report.policies]
    yield from table(headings, rows, numbers=range(1, 9), markdown=True)
    yield ""
    yield _significant(report)
    yield "\n## The Pareto front, from cheap to dear\n"
    front = [each for each in report.policies if each.front is not Front.NO]
    front.sort(key=lambda each: (each.dollars.value, each.resolved.low))
    places: list[Cells] = [
        (each.name, _dollars(each), _share(each.resolved), each.front.value) for each in front
    ]
    yield from table(("Policy", "Dollars", "Resolved", "Front"), places, numbers=(1, 2),
                     markdown=True)  # fmt: skip
    yield "\n## best@k and pass@k: k attempts in random order\n"
    shares: list[Cells] = [
        (row.k, *(f(s) for s in (row.least_bad, row.most_agreed, row.oracle) for f in _BOTH))
        for row in report.best
    ]
    names = ("k", "best@k, least bad", "95 % interval", "best@k, most agreed", "95 % interval",
             "pass@k", "95 % interval")  # fmt: skip
    yield from table(names, shares, numbers=range(7), markdown=True)


def _cells(each: PolicyResult, report: LabReport) -> Cells:
    front = "" if each.front is Front.NO else each.front.value
    return (
        each.name,
        _share(each.resolved),
        within(each.resolved.interval),
        _total(each.attempts, 0),
        _total(each.calls, 0),
        _dollars(each),
        _total(each.hours, 1),
        *_difference(each.difference, report),
        "upper bound" if each.name == ORACLE else front,
        each.words,
    )


def _share(share: ShareRange) -> str:
    low, high = percent(share.low), percent(share.high)
    return low if low == high else f"{low} to {high}"


_BOTH = (_share, lambda share: within(share.interval))


def _total(total: Expected, places: int) -> str:
    if not total.complete and not total.value:
        return NONE
    return f"{'' if total.complete else '≥ '}{total.value:,.{places}f}"


def _dollars(each: PolicyResult) -> str:
    if not each.dollars.complete and not each.dollars.value:
        return NONE
    return f"{'' if each.dollars.complete else '≥ '}{in_words(each.dollars.value)}"


def _difference(found: PolicyDifference | None, report: LabReport) -> tuple[str, str]:
    if found is None or found.share is None or found.interval is None:
        return NONE, NONE
    reach = f"{100 * found.interval.low:+.1f} to {100 * found.interval.high:+.1f}"
    among = "" if found.instances == report.instances else f"; {found.instances} known"
    words = f"{100 * found.share:+.1f} points ({reach}{among})"
    return words, f"{found.p_corrected or 0:.2g}"


def _significant(report: LabReport) -> str:
    tested = [each for each in report.policies if each.difference and each.difference.instances]
    found = [each for each in tested if each.difference and each.difference.significant]
    how = f"at 5 %, corrected for {counted(len(tested), 'policy', 'policies')}"
    names = ", ".join(one_line(each.name) for each in found)
    if not found:
        return f"No policy differs significantly from the run's own ({how})."
    return f"Significantly different from the run's own ({how}): {names}."
