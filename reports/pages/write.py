"""Write ``report.html`` and what lies beside it."""

from __future__ import annotations

import base64
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agent.atomic import write_text_atomic
from agent.redaction import Redactor
from bench.store import RunStore
from reports.pages.budget import fitting_size, size
from reports.pages.instance import InstanceView, page_name, view_instance
from reports.pages.overview import overview
from reports.pages.render import Renderer
from reports.plots import Picture, figure_data, write_figures
from reports.provenance import provenance
from reports.rundata import RunData
from reports.statistics.collect import RunStats
from reports.statistics.comparing import Comparison

_INSTANCES = "instances"
# All pages of a run; what a page has besides long texts is small beside it.
_BUDGET = 45_000_000
"""Bytes."""


@dataclass(frozen=True)
class PagePicture:
    """A picture as it stands in the page: both themes as addresses that hold all of it."""

    name: str
    title: str
    light: str
    dark: str
    words: str

    @classmethod
    def of(cls, picture: Picture) -> PagePicture:
        """Return ``picture`` for the page."""
        light, dark = _address(picture.light), _address(picture.dark)
        return cls(picture.name, picture.title, light, dark, picture.words)


def write_pages(
    store: RunStore,
    run: RunData,
    stats: RunStats,
    *,
    others: Sequence[RunStats] = (),
    comparisons: Sequence[Comparison] = (),
    issues: Mapping[str, str] | None = None,
    redact: Redactor | None = None,
) -> Path:
    """Write pictures and pages of a run into ``<run>/report/``, and return ``report.html``.

    Args:
        store: the run's files.
        run: the run.
        stats: its statistics.
        others: those of the runs that it is compared with.
        comparisons: with them.
        issues: issue texts by instance id, where the dataset is at hand.
        redact: blots out secrets; the store's own when not given.

    Raises:
        UserError: a trajectory is broken.
    """
    folder = run.folder / "report"
    redact = redact or store.redact
    for stale in (_INSTANCES, "figures"):
        shutil.rmtree(folder / stale, ignore_errors=True)
    shown = figure_data(run, stats, others, comparisons)
    pictures = write_figures(shown, folder / "figures", redact)
    _write_instances(store, run, issues or {}, redact, folder / _INSTANCES)
    page = Renderer(redact).report(
        overview=overview(run, stats, comparisons, _INSTANCES),
        pictures=[PagePicture.of(picture) for picture in pictures],
        provenance=provenance(run),
    )
    path = folder / "report.html"
    write_text_atomic(path, page)
    return path


def _write_instances(
    store: RunStore, run: RunData, issues: Mapping[str, str], redact: Redactor, folder: Path
) -> None:
    sizes = (size(text) for view in _views(store, run, issues) for text in view.texts())
    renderer = Renderer(redact, longest=fitting_size(sizes, _BUDGET))
    for view in _views(store, run, issues):
        came_about = provenance(run, view.data)
        page = renderer.instance(view=view, run=run, provenance=came_about)
        write_text_atomic(folder / page_name(view.data.instance_id), page)


def _views(store: RunStore, run: RunData, issues: Mapping[str, str]) -> Iterator[InstanceView]:
    # One at a time: the conversations of a whole run need not fit into memory.
    return (view_instance(store, instance, issues) for instance in run.instances)


def _address(svg: str) -> str:
    return f"data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()}"
