"""The options of ``report.py`` in one frozen value."""

from __future__ import annotations

from dataclasses import field
from enum import Enum
from pathlib import Path
from typing import Any

from core.options import Folder, option, option_group
from environments.options import ImageOptions
from reports.data.verdicts import MANUAL_TOOLS, OFFICIAL_TOOLS
from runs.options import cache_option, out_option, workers_option


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


def json_option(help: str) -> Any:  # noqa: ANN401 - as of core.options.option
    return option(False, help, "--json")


def csv_option(help: str) -> Any:  # noqa: ANN401
    return option(False, help, "--csv")


def partial_option(help: str) -> Any:  # noqa: ANN401
    return option(False, help, "--allow-partial")


def timeout_option(default: float | None, help: str) -> Any:  # noqa: ANN401
    return option(default, help, "--timeout", least=1)


@option_group
class ReportTask:
    """The task of ``report.py``, and its runs."""

    runs: tuple[Path, ...] = option(
        (),
        "Report on these folders under predictions/; several are combined, or compared.",
        "runs",
        argument=True,
    )
    submission: Path | None = option(
        None,
        "Write the leaderboard's package of one run to this folder.",
        "--submission",
    )
    gold: str = option(
        "",
        "Evaluate this dataset's gold and empty patches; write --validity.",
        "--gold",
    )
    repeat: int = option(
        3, "Evaluate each patch of --gold this often.", "--repeat", least=1
    )
    export: tuple[ExportLayout, Path] | None = option(
        None, "Write the run in another layout (atif, mini) into a folder.", "--export"
    )
    lab: bool = option(
        False,
        "Replay the runs under other policies, without any call (docs/lab.md).",
        "--lab",
    )
    policies: tuple[str, ...] = option(
        (),
        "Replay under this policy of --lab, or under a function of yours, FILE.py:NAME (default: "
        "all policies that fit).",
        "--policy",
    )
    samples: int = option(
        1000,
        "Draw this many random orders and samples for --lab.",
        "--samples",
        least=1,
    )
    select: str = option(
        "",
        "Choose among the candidates of these runs by scripts (evidence), and write a run; add "
        "--help for its options.",
        "--select",
    )
    out: Folder = out_option("Import the runs of other harnesses into this folder.")


@option_group
class ReportOptions:
    """How to report on runs; timeouts in seconds."""

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
        "Use this split of the dataset or the leaderboard (default: as the run recorded it).",
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
    name: str = option(
        "", "Name the combined run (default: the runs' names joined by +).", "--name"
    )
    compare: bool = option(
        False, "Compare the runs, each with each; combine nothing.", "--compare"
    )
    table: bool = option(False, "Print only the tables, in Markdown.", "--table")
    as_json: bool = json_option("Print only the statistics, as JSON.")
    page: bool = option(
        True, "Write the page of the run with its pictures.", "--page/--no-page"
    )
    verify: bool = option(
        False, "Compute derived files again and say what differs.", "--verify"
    )
    all_attempts: bool = option(
        False, "Evaluate the patches of all attempts, for pass@k.", "--all-attempts"
    )
    validity: Path | None = option(
        None,
        "Also state the score of the instances that this file of --gold calls valid.",
        "--validity",
    )
    evaluator_python: str = option(
        "",
        "Run the official program with this Python (default: this one).",
        "--evaluator-python",
    )
    images: ImageOptions = field(default_factory=ImageOptions)

    @property
    def only_reads(self) -> bool:
        """Whether files are only read: tables, JSON and comparisons evaluate on request alone."""
        asked = self.evaluator is not None or self.all_attempts
        return (self.table or self.as_json or self.compare) and not asked


@option_group
class SubmissionOptions:
    """The options of a package for the leaderboard."""

    split: str  # of the leaderboard
    meta: Path | None = option(
        None,
        "Use this meta.yaml for the package (python -m reports.submission).",
        "--meta",
    )
    dataset: str = ""  # if it is not that of the run or of the split
    cache: Path = Path()
    repos: Path | None = None  # mirrors, if they are not in the cache
    allow_partial: bool = partial_option(
        "Call instances without a prediction or verdict unresolved in the package."
    )
