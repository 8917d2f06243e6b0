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
from reports.pages.provenance import provenance
from reports.pages.render import Renderer
from reports.plots.write import Picture
from reports.rundata import RunData
from reports.statistics.collect import RunStats
from reports.statistics.comparing import Comparison

_FOLDER = "report"
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
    pictures: Sequence[Picture] = (),
    comparisons: Sequence[Comparison] = (),
    issues: Mapping[str, str] | None = None,
    redact: Redactor | None = None,
) -> Path:
    """Write the pages of a run into ``predictions/<run>/report/`` and return ``report.html``.

    Args:
        store: the run's files.
        run: the run.
        stats: its statistics.
        pictures: drawn ones, whose files lie in ``figures/`` beside the page (``write_figures``).
        comparisons: with other runs.
        issues: issue texts by instance id, where the dataset is at hand.
        redact: blots out secrets; the store's own when not given.

    Raises:
        UserError: a trajectory is broken.
    """
    folder = run.folder / _FOLDER
    shutil.rmtree(folder / _INSTANCES, ignore_errors=True)
    longest = fitting_size(_sizes(store, run, issues or {}), _BUDGET)
    renderer = Renderer(redact or store.redact, longest)
    came_about = provenance(run)
    for view in _views(store, run, issues or {}):
        page = renderer.instance(view=view, run=run, provenance=came_about)
        write_text_atomic(folder / _INSTANCES / page_name(view.data.instance_id), page)
    page = renderer.report(
        overview=overview(run, stats, comparisons, _INSTANCES),
        pictures=[PagePicture.of(picture) for picture in pictures],
        provenance=came_about,
    )
    path = folder / "report.html"
    write_text_atomic(path, page)
    return path


def figures_folder(run: RunData) -> Path:
    """Return the folder where the pictures of a run's pages lie."""
    return run.folder / _FOLDER / "figures"


def _views(store: RunStore, run: RunData, issues: Mapping[str, str]) -> Iterator[InstanceView]:
    # One at a time: the conversations of a whole run need not fit into memory.
    return (view_instance(store, instance, issues) for instance in run.instances)


def _sizes(store: RunStore, run: RunData, issues: Mapping[str, str]) -> Iterator[int]:
    return (size(text) for view in _views(store, run, issues) for text in view.texts())


def _address(svg: str) -> str:
    return f"data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()}"
