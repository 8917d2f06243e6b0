"""``report.py lab RUN``: replay recorded runs under other policies, without any call."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from swe_retry.core.money import in_words
from swe_retry.core.plaintext import Say
from swe_retry.core.redaction import Redactor
from swe_retry.record.store import RunStore
from swe_retry.report.statistics.methods import percent
from swe_retry.report.statistics.wording import NONE, render_text
from swe_retry.results.read import read_run
from swe_retry.study.lab.recorded import LabData, lab_data
from swe_retry.study.lab.report import ORACLE, LabRow, lab_report


def lab_command(
    stores: Sequence[RunStore],
    policies: Sequence[str],
    samples: int,
    say: Say,
    show: Say,
    *,
    as_json: bool,
) -> int:
    """Print the result in Markdown or as JSON, and write its picture beside the first run."""
    # Imported here: matplotlib takes half a second.
    from swe_retry.study.lab.picture import write_pictures

    data = lab_data(list(map(read_run, stores)), samples)
    redact = Redactor.of_environment()
    report = redact.of(lab_report(data, policies))
    if as_json:
        show(json.dumps(report, indent=1))
    else:
        show(lab_text(report, data))
    pictures = write_pictures(report, stores[0].folder / "lab")
    for picture in pictures:
        say(f"picture        {picture}")
    if not pictures:
        say("no picture: no dollars are known")
    return 0


def lab_text(report: LabRow, data: LabData) -> str:
    """Return the report in Markdown."""
    unknown = 0
    for instance in data.instances:
        unknown += list(instance.outcomes.values()).count(None)
    by_cost = sorted(report["policies"], key=_cost_order)
    policies = list(map(_policy_cells, by_cost))
    weights = []
    if report["weights"]:
        weights = list(map(_weight_cells, report["weights"]["bins"]))
    text = render_text(
        Path(__file__).with_name("lab.md"),
        report=report,
        unknown=unknown,
        is_told=data.is_told,
        headings=list(policies[0]),
        policies=list(map(dict.values, policies)),
        weights=weights,
        best=list(map(_best_cells, report["best"])),
        share=_share,
    )
    return text.rstrip("\n")


def _best_cells(row: LabRow) -> list[object]:
    cells = [row["k"]]
    for name in ("least_bad", "most_agreed", ORACLE):
        cells.append(_share(row[name]))
        cells.append(_reach(row[name]["interval"]))
    return cells


def _weight_cells(row: LabRow) -> list[object]:
    return [
        f"{row['weight']:.2f}",
        row["classes"],
        percent(row["right"]),
        _reach(row["interval"]),
    ]


def _cost_order(row: LabRow) -> tuple[bool, float]:
    # A lower bound says nothing of an order: exact costs come first.
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
        "95 % interval": _reach(row["resolved"]["interval"]),
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
