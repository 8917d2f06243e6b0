"""``report.py lab RUN``: replay recorded runs under other policies, without any call."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence

from core.money import in_words
from core.plaintext import Say, one_line, quantity, table
from core.redaction import Redactor
from reports.data.rundata import read_run
from reports.lab.recorded import LabData, lab_data
from reports.lab.replay import ORACLE, LabRow, lab_report
from reports.pages.markdown import NONE
from reports.statistics.methods import percent
from runs.storage.store import RunStore

_LEVEL = 0.05
_FEW = 3
"""As many rows as there are with one policy."""
_INTERVAL = "95 % interval"
_CHOICES = {
    "best@k, least bad": "least_bad",
    "best@k, most agreed": "most_agreed",
    "pass@k": ORACLE,
}


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
    from reports.lab.picture import write_pictures

    data = lab_data([read_run(store) for store in stores], samples)
    redact = Redactor.of_environment(os.environ)
    report = redact.of(lab_report(data, policies))
    if as_json:
        show(json.dumps(report, indent=1))
    else:
        for line in lab_lines(report, data):
            show(line)
    pictures = write_pictures(report, stores[0].folder / "lab")
    for picture in pictures:
        say(f"picture        {picture}")
    if not pictures:
        say("no picture: no dollars are known")
    return 0


def lab_lines(report: LabRow, data: LabData) -> Iterator[str]:
    """Yield the report in Markdown."""
    models = {turn.model for turn in data.turns}
    turns = len(data.turns)
    yield f"# Lab: {one_line(data.name)}\n"
    yield (
        f"{quantity(report['instances'], 'instance')}, {quantity(report['attempts'], 'attempt')} "
        f"of {quantity(len(models), 'model')}, at most {turns} of an instance. "
        f"{report['samples']:,} samples, seed {report['seed']}."
    )
    unmade = report["instances"] * turns - report["attempts"]
    if unmade:
        attempts = quantity(unmade, "attempt was", "attempts were")
        yield f"\n{attempts} never made: a policy that asks for one ends."
    unknown = -unmade
    for instance in data.instances:
        unknown += list(instance.outcomes.values()).count(None)
    if unknown:
        attempts = quantity(unknown, "attempt has", "attempts have")
        yield f"\n{attempts} no verdict; `report.py RUN --all-attempts` evaluates them."
    if data.is_told:
        names = ", ".join(map(one_line, report["left_out"])) or "none"
        yield (
            "\nAttempts were told of earlier ones, so policies that reorder them are left out: "
            f"{names}."
        )
    yield from _policy_lines(report)
    yield from _weight_lines(report["weights"])
    if not report["best"]:
        return
    yield "\n## best@k and pass@k: k attempts in random order\n"
    headings = ["k"]
    for heading in _CHOICES:
        headings += [heading, _INTERVAL]
    rows = []
    for row in report["best"]:
        cells = [row["k"]]
        for name in _CHOICES.values():
            cells.append(_share(row[name]))
            cells.append(_reach(row[name]["interval"]))
        rows.append(cells)
    yield from table(headings, rows, numbers=range(7), markdown=True)


def _weight_lines(weights: LabRow | None) -> Iterator[str]:
    if weights is None:
        return
    classes = quantity(weights["classes"], "class", "classes")
    yield f"\n## Weights of {classes} of equal candidates, and how many of these are right\n"
    rows = []
    for row in weights["bins"]:
        right = percent(row["right"])
        interval = _reach(row["interval"])
        rows.append([f"{row['weight']:.2f}", row["classes"], right, interval])
    headings = ["mean weight", "classes", "right", _INTERVAL]
    yield from table(headings, rows, numbers=range(4), markdown=True)
    yield f"\nBrier's score {weights['brier']:.3f} (0 is best, 0.25 is that of a weight of 0.5)."


def _policy_lines(report: LabRow) -> Iterator[str]:
    rows = report["policies"]
    tested = 0
    different = []
    for row in rows:
        if row["p_corrected"] is not None:
            tested += 1
            if row["p_corrected"] < _LEVEL:
                different.append(one_line(row["name"]))
    if any(row["unknown"] for row in rows):
        yield "\nA range is what the recording cannot tell: its ends count it as not resolved, and"
        yield "as resolved. ≥ is a lower bound for the same reason."
    yield "\n## Policies, by cost\n"
    # A lower bound says nothing of an order: exact costs come first.
    by_cost = sorted(rows, key=_cost_order)
    lines = []
    for row in by_cost:
        cells = _policy_cells(row)
        lines.append(list(cells.values()))
    yield from table(list(cells), lines, numbers=range(1, 9), markdown=True)
    number = quantity(tested, "policy", "policies")
    which = ", ".join(different) or "none"
    if tested:
        yield f"\nSignificantly different from the run's own (5 %, Holm, {number}): {which}."
    if report["cross_validated"] and len(rows) > _FEW:
        share = _share(report["cross_validated"])
        yield (
            "\nThe best of many policies on the same instances is optimistic: chosen on other "
            f"instances than those it is counted on (cross-validation), it resolves {share}."
        )


def _cost_order(row: LabRow) -> tuple[bool, float]:
    return not row["dollars"]["complete"], row["dollars"]["value"]


def _policy_cells(row: LabRow) -> dict[str, str]:
    """Return the cells by their headings."""
    p_value = NONE
    if row["p_corrected"] is not None:
        p_value = f"{row['p_corrected']:.2g}"
    front = row["front"].replace("no", "")
    if row["name"] == ORACLE:
        front = "upper bound"
    return {
        "Policy": row["name"],
        "Resolved": _share(row["resolved"]),
        _INTERVAL: _reach(row["resolved"]["interval"]),
        "Attempts": _total(row["attempts"], "{:,.0f}".format),
        "Calls": _total(row["calls"], "{:,.0f}".format),
        "Dollars": _total(row["dollars"], in_words),
        "Hours": _total(row["hours"], "{:,.1f}".format),
        "Against recorded": _difference(row["difference"]),
        "p (Holm)": p_value,
        "Front": front,
    }


def _share(share: LabRow) -> str:
    text = percent(share["low"])
    if text == percent(share["high"]):
        return text
    return _reach(share)


def _reach(ends: LabRow) -> str:
    return f"{percent(ends['low'])} to {percent(ends['high'])}"


def _total(total: LabRow, as_text: Callable[[float], str]) -> str:
    text = as_text(total["value"])
    if total["complete"]:
        return text
    if total["value"]:
        return f"≥ {text}"
    return NONE


def _difference(difference: LabRow | None) -> str:
    if difference is None:
        return NONE
    low = f"{100 * difference['low']:+.1f}"
    interval = difference["interval"]
    if interval is None:
        return f"{low} to {100 * difference['high']:+.1f} points, unknown"
    reach = f"{100 * interval['low']:+.1f} to {100 * interval['high']:+.1f}"
    return f"{low} points ({reach})"
