"""How predictions are evaluated, and the settings of every command that does so."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from swe_retry.core.plaintext import did_you_mean
from swe_retry.core.settings import Section
from swe_retry.environments.docker.images import Images
from swe_retry.instances.selection import Instances
from swe_retry.results.verdicts import MANUAL_TOOLS, OFFICIAL_TOOLS
from swe_retry.runner.settings import FolderSettings


class EvaluatorKind(StrEnum):
    """The evaluators besides official programs of other task sets."""

    DOCKER = "docker"
    LOCAL = "local"
    NONE = "none"

    __str__ = (
        str.__str__
    )  # the name as the user writes it, also of an official program's


def _check_evaluator(name: str) -> str:
    names = [*EvaluatorKind, *OFFICIAL_TOOLS, *MANUAL_TOOLS]
    if name not in names:
        raise ValueError(f"give one of {', '.join(names)}{did_you_mean(name, names)}")
    return name


class EvaluationSettings(Section):
    """How to evaluate predictions."""

    evaluator: Annotated[str, AfterValidator(_check_evaluator)] | None = Field(
        default=None,
        description="Evaluate with docker, local, none, or the official program of a task set: "
        f"{', '.join(OFFICIAL_TOOLS)}; or write the predictions for a program that you run: "
        f"{', '.join(MANUAL_TOOLS)}. By default docker if an engine answers, else local.",
    )
    dataset: str = ""
    """Use this data set; by default the one that the run recorded."""

    split: str = ""
    """Use this split of the data set; by default the one that the run recorded."""

    workers: int = Field(default=2, ge=1)
    """Run this many evaluations at once."""

    timeout: float = Field(default=1800, ge=1)
    """End the tests of an instance after these seconds."""

    all_attempts: bool = False
    """Evaluate the patches of all attempts too, for pass@k."""

    python: str = ""
    """Run the official program of a task set with this Python; default: this one."""


class EvaluationRoot(Section):
    """What every command is told that evaluates; each adds sections of its own."""

    evaluation: EvaluationSettings = EvaluationSettings()
    folders: FolderSettings = Field(default_factory=FolderSettings)
    images: Images = Images()


class OutputSettings(Section):
    """What a report writes beside its numbers."""

    page: bool = True
    """Write the page of the run with its pictures."""

    validity: Path | None = None
    """Also state the score of the instances that this file of `report.py gold` calls
    valid."""


class ReportSettings(EvaluationRoot):
    """All that ``report.py`` is told of a report."""

    report: OutputSettings = OutputSettings()


class GoldSettings(EvaluationRoot):
    """All that ``report.py gold`` is told."""

    instances: Instances = Instances()


ReportFormat = Literal["text", "markdown", "json", "csv"]
RowKind = Literal["instances", "attempts", "calls"]
