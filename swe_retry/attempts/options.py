"""The options of ``harness.py`` that do not decide results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from swe_retry.attempts.config import RunSettings
from swe_retry.core.jsontypes import JsonMapping
from swe_retry.repositories.names import BUNDLED, Bundled
from swe_retry.runner.options import RunResources


@dataclass(frozen=True)
class Options(RunResources):
    """The options of a run that do not decide its results.

    Attributes:
        dataset: the data set; that of one's own repository is made for the run.
        repos: the folder of bare mirrors; None for that in the cache.
        recorded: the settings that any source gave, for ``run.json``.
        bundled: the datasets that come with the project; workers elsewhere get them with this.
    """

    settings: RunSettings = field(default_factory=RunSettings)
    dataset: str = "lite"
    repos: Path | None = None
    dry_run: bool = False
    recorded: JsonMapping = field(default_factory=dict)
    bundled: Mapping[str, Bundled] = field(default_factory=BUNDLED.copy)
