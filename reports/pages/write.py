"""Write the ``report.html`` of a run or of a comparison, with its pictures and other pages."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

from core.atomic import write_text_atomic
from core.hashing import sha256_of
from core.redaction import Redactor
from reports.data.provenance import provenance
from reports.data.rundata import RunData
from reports.pages.comparison import Compared, comparison_view
from reports.pages.instance import InstanceView, page_name, view_instance
from reports.pages.overview import overview
from reports.pages.render import Renderer, fitting_size, size
from reports.plots.write import comparison_data, figure_data, write_figures
from reports.statistics.collect import RunStats
from reports.statistics.comparing import RunComparison
from runs.storage.store import RunStore

_INSTANCES = "instances"
_LONGEST_NAME = 150
_BUDGET = 45_000_000
"""Bytes of all long texts in the pages of a run; the rest of the pages is small."""


def write_pages(
    store: RunStore,
    run: RunData,
    stats: RunStats,
    *,
    issues: Mapping[str, str] | None = None,
    redact: Redactor | None = None,
) -> Path:
    """Write pictures and pages of a run; ``issues`` are texts by id, if the dataset is known."""
    folder = run.folder / "report"
    redact = redact or store.redact
    for stale in (_INSTANCES, "figures"):
        shutil.rmtree(folder / stale, ignore_errors=True)
    _write_instances(store, run, issues or {}, redact, folder / _INSTANCES)
    page = Renderer(redact).page(
        "report",
        overview=overview(run, stats, _INSTANCES),
        pictures=write_figures(figure_data(run, stats), folder / "figures", redact),
        provenance=provenance(run),
    )
    path = folder / "report.html"
    write_text_atomic(path, page)
    return path


def write_comparison(
    out: Path,
    runs: Sequence[Compared],
    comparisons: Sequence[RunComparison],
    redact: Redactor,
) -> Path:
    """Write the page of a comparison into ``out/comparisons/`` and return its path."""
    folder = (
        out / "comparisons" / comparison_name([each.run.folder.name for each in runs])
    )
    shutil.rmtree(folder / "figures", ignore_errors=True)
    shown = comparison_data([each.stats for each in runs], comparisons)
    linked = []
    for each in runs:
        own = each.run.folder / "report" / "report.html"
        address = (
            quote(Path(os.path.relpath(own, folder)).as_posix())
            if own.is_file()
            else ""
        )
        linked.append(replace(each, page=address))
    page = Renderer(redact).page(
        "comparison",
        view=comparison_view(linked, comparisons),
        pictures=write_figures(shown, folder / "figures", redact),
    )
    path = folder / "report.html"
    write_text_atomic(path, page)
    return path


def comparison_name(runs: Sequence[str]) -> str:
    """Return the name of a comparison's folder; a long name is cut and gets a hash."""
    name = "--vs--".join(runs)
    if len(name) <= _LONGEST_NAME:
        return name
    return f"{name[:_LONGEST_NAME]}-{sha256_of(name)[:12]}"


def _write_instances(
    store: RunStore,
    run: RunData,
    issues: Mapping[str, str],
    redact: Redactor,
    folder: Path,
) -> None:
    sizes = (size(text) for view in _views(store, run, issues) for text in view.texts())
    renderer = Renderer(redact, longest=fitting_size(sizes, _BUDGET))
    for view in _views(store, run, issues):
        page = renderer.page(
            "instance", view=view, run=run, provenance=provenance(run, view.data)
        )
        write_text_atomic(folder / page_name(view.data.instance_id), page)


def _views(
    store: RunStore, run: RunData, issues: Mapping[str, str]
) -> Iterator[InstanceView]:
    # One at a time, because the conversations of a run may not fit into memory.
    return (view_instance(store, instance, issues) for instance in run.instances)
