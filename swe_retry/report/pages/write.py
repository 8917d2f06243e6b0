"""Write the ``report.html`` of a run or of a comparison, with its pictures and other pages."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import quote

from swe_retry.core.atomic import write_text_atomic
from swe_retry.core.hashing import fitting_name
from swe_retry.core.redaction import Redactor
from swe_retry.record.store import RunStore
from swe_retry.report.pages.instance import INSTANCES, long_texts, page_name, read_texts
from swe_retry.report.pages.render import Renderer, fitting_size, size
from swe_retry.report.pages.tables import Compared, Table
from swe_retry.report.plots.comparison import comparison_pictures
from swe_retry.report.plots.picture import Picture, write_picture
from swe_retry.report.plots.run import run_pictures
from swe_retry.report.statistics.collect import RunStats
from swe_retry.report.statistics.comparing import RunComparison
from swe_retry.results.rundata import RunData

_BUDGET = 45_000_000
"""Bytes of all long texts in the pages of a run; the rest of the pages is small."""


def write_pages(
    store: RunStore,
    run: RunData,
    stats: RunStats,
    *,
    issues: Mapping[str, str],
    redact: Redactor,
) -> Path:
    """Write pictures and pages of a run; ``issues`` are texts by id, if the dataset is known."""
    folder = run.folder / "report"
    for stale in (INSTANCES, "figures"):
        shutil.rmtree(folder / stale, ignore_errors=True)
    _write_instances(store, run, issues, redact, folder / INSTANCES)
    pictures = list(run_pictures(run, stats, redact))
    template = "own" if run.own_summary else "report"
    page = Renderer(redact).page(
        template,
        run=run,
        stats=stats,
        pictures=pictures,
    )
    return _write_page(page, pictures, folder)


def _write_instances(
    store: RunStore,
    run: RunData,
    issues: Mapping[str, str],
    redact: Redactor,
    folder: Path,
) -> None:
    # Read twice, one at a time: the conversations of a run may not fit into memory.
    sizes: list[int] = []
    for instance in run.instances:
        texts = read_texts(store, instance, issues)
        sizes += map(size, long_texts(instance, texts))
    renderer = Renderer(redact, longest=fitting_size(sizes, _BUDGET))
    for instance in run.instances:
        texts = read_texts(store, instance, issues)
        page = renderer.page(
            "instance",
            run=run,
            instance=instance,
            texts=texts,
        )
        write_text_atomic(folder / page_name(instance.instance_id), page)


@dataclass(frozen=True)
class StudyPart:
    """What the page of a study has before that of a comparison: sentences, and tables."""

    name: str
    sentences: Sequence[str]
    tables: Sequence[Table]


def write_comparison(
    out: Path,
    runs: Sequence[Compared],
    comparisons: Sequence[RunComparison],
    redact: Redactor,
    study: StudyPart | None = None,
) -> Path:
    """Write the page of a comparison into ``out/comparisons/`` and return its path."""
    name = "--vs--".join(compared.run.folder.name for compared in runs)
    if study:
        name = study.name
    folder = out / "comparisons" / fitting_name(name)
    shutil.rmtree(folder / "figures", ignore_errors=True)
    linked = []
    all_stats = []
    for compared in runs:
        path = compared.run.folder / "report" / "report.html"
        if path.is_file():
            address = Path(os.path.relpath(path, folder)).as_posix()
            compared = replace(compared, page=quote(address))
        stats = replace(compared.stats, run=compared.run.name)
        all_stats.append(stats)
        linked.append(replace(compared, stats=stats))
    pictures = list(comparison_pictures(all_stats, comparisons, redact))
    page = Renderer(redact).page(
        "comparison",
        runs=linked,
        comparisons=comparisons,
        pictures=pictures,
        study=study,
    )
    return _write_page(page, pictures, folder)


def _write_page(page: str, pictures: Iterable[Picture], folder: Path) -> Path:
    for picture in pictures:
        write_picture(picture, folder / "figures")
    path = folder / "report.html"
    write_text_atomic(path, page)
    return path
