"""The options of ``harness.py`` beside those that decide what a run does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from bench.instances.dataset import BUNDLED, Bundled
from bench.selection import INSTANCES, Selection
from core.options import Folder, option, option_group
from environments.options import ImageOptions
from runs.options import RUN, RunSettings, Start


@option_group
class Options(Start, RunSettings):
    """The options of ``harness.py`` that are not part of the run's configuration.

    Attributes:
        given: the options as they were chosen, by name, for ``run.json``.
        bundled: the datasets that come with the project; workers elsewhere get them with this.
    """

    dataset: str = option(
        "lite",
        "lite, pro, live or another set, demo, a hub id, NAME@REVISION, a file or a folder.",
        "--dataset",
        "-d",
        panel=INSTANCES,
    )
    dataset_config: str = option(
        "",
        "Configuration of a dataset that has several.",
        "--dataset-config",
        panel=INSTANCES,
    )
    split: str = option("test", "Split of the dataset.", "--split", panel=INSTANCES)
    since: str = option(
        "",
        "Instances created on this day or later: YYYY-MM[-DD].",
        "--since",
        panel=INSTANCES,
    )
    until: str = option(
        "", "Instances created on this day or earlier.", "--until", panel=INSTANCES
    )
    selection: Selection = field(default_factory=Selection)
    prior: tuple[Path, ...] = option(
        (),
        "Skip what this earlier run has a plausible patch for; repeatable.",
        "--prior",
        panel=INSTANCES,
    )
    only_valid: Path | None = option(
        None,
        "Leave out what this file of report.py gold does not call valid.",
        "--only-valid",
        panel=INSTANCES,
    )
    repos: Folder | None = option(
        None,
        "Folder of bare mirrors; default: in the cache.",
        "--repos",
        panel=INSTANCES,
        given=Path,
    )
    images: ImageOptions = field(default_factory=ImageOptions)
    trace: bool = option(
        False,
        "Send attempts and calls as spans of OpenTelemetry to OTEL_EXPORTER_OTLP_ENDPOINT "
        "(docs/tracing.md).",
        "--trace",
        panel=RUN,
    )
    trace_content: bool = option(
        False,
        "With --trace: send prompts and replies too.",
        "--trace-content",
        panel=RUN,
    )
    given: Mapping[str, Any] = field(default_factory=dict)
    bundled: Mapping[str, Bundled] = field(default_factory=BUNDLED.copy)
