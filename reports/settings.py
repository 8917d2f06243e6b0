"""The settings of ``report.py RUN…``."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from core.settings import Section
from reports.evaluation.settings import EvaluationRoot

ReportFormat = Literal["text", "markdown", "json"]


class OutputSettings(Section):
    """What a report writes beside its numbers."""

    page: bool = Field(
        default=True, description="Write the page of the run with its pictures."
    )
    validity: Path | None = Field(
        default=None,
        description="Also state the score of the instances that this file of `report.py gold` "
        "calls valid.",
    )


class ReportSettings(EvaluationRoot):
    """All that ``report.py`` is told of a report."""

    report: OutputSettings = OutputSettings()
