"""The options of ``report.py`` in frozen values."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, Literal

from core.options import Folder, option, option_group
from environments.options import ImageOptions
from reports.data.verdicts import MANUAL_TOOLS, OFFICIAL_TOOLS
from runs.options import FORMAT, cache_option, out_option, workers_option

ALLOW_PARTIAL = "--allow-partial"


class EvaluatorKind(str, Enum):
    """The evaluators besides official programs of other task sets."""

    DOCKER = "docker"
    LOCAL = "local"
    NONE = "none"

    __str__ = (
        str.__str__
    )  # the name as the user writes it, also of an official program's


class ExportLayout(str, Enum):
    """The layouts in which a run can be written."""

    ATIF = "atif"
    MINI = "mini"


def partial_option(help: str) -> Any:  # noqa: ANN401
    return option(False, help, ALLOW_PARTIAL)


def timeout_option(default: float | None, help: str) -> Any:  # noqa: ANN401
    return option(default, help, "--timeout", least=1)


@option_group
class ReportedRuns:
    runs: tuple[Path, ...] = option(
        (),
        "Report on these runs: folders under predictions/, or runs of other harnesses.",
        "runs",
        argument=True,
    )
    out: Folder = out_option("Import the runs of other harnesses into this folder.")


@option_group
class EvaluatorOptions:
    """How to evaluate patches; timeouts in seconds."""

    evaluator: str | None = option(
        None,
        "Evaluate with docker, local, none, or the official program of a task set: "
        f"{', '.join(OFFICIAL_TOOLS)} (default: docker if an engine answers); or write the "
        f"predictions for a program that you run: {', '.join(MANUAL_TOOLS)}.",
        "--evaluator",
    )
    dataset: str = option(
        "", "Use this dataset (default: as the run recorded it).", "--dataset", "-d"
    )
    split: str = option(
        "",
        "Use this split of the dataset (default: as the run recorded it).",
        "--split",
    )
    workers: int = workers_option(2, "Run this many evaluations at once (docker).")
    timeout: float = timeout_option(
        1800.0, "Stop one instance's tests after this many seconds."
    )
    cache: Folder = cache_option("Keep mirrors and environments in this folder.")
    repos: Folder | None = option(
        None, "Use the bare mirrors in this folder.", "--repos", given=Path
    )
    evaluator_python: str = option(
        "",
        "Run the official program with this Python (default: this one).",
        "--evaluator-python",
    )
    images: ImageOptions = field(default_factory=ImageOptions)


@option_group
class ReportOptions(EvaluatorOptions):
    """How to report on runs."""

    all_attempts: bool = option(
        False,
        "Evaluate the patches of all attempts too, for pass@k.",
        "--all-attempts",
    )
    format: Literal["text", "markdown", "json"] = option(
        "text", "Print the result as text, markdown or json.", FORMAT
    )
    page: bool = option(
        True, "Write the page of the run with its pictures.", "--page/--no-page"
    )
    validity: Path | None = option(
        None,
        "Also state the score of the instances that this file of `report.py gold` calls valid.",
        "--validity",
    )


@dataclass(frozen=True)
class PackageOptions:
    """What a package for the leaderboard is made of.

    Attributes:
        split: of the leaderboard.
        dataset: that of the run or of the split where it is empty.
        repos: mirrors, where they are not in the cache.
        allow_partial: count instances without a prediction or a verdict as unresolved.
    """

    split: str
    meta: Path
    cache: Path
    repos: Path | None = None
    dataset: str = ""
    allow_partial: bool = False
