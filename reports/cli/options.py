"""The options of ``report.py`` in one frozen value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from enum import Enum
from pathlib import Path
from typing import Any

from core.options import Folder, option, option_group
from environments.options import ImageOptions
from runs.options import cache_option, out_option, workers_option

Say = Callable[[str], None]


class EvaluatorKind(str, Enum):
    """Who gives the verdicts, besides official programs of other task sets."""

    DOCKER = "docker"
    MODAL = "modal"
    LOCAL = "local"
    NONE = "none"

    __str__ = str.__str__  # the name as the user writes it, also of an official program's


class ExportLayout(str, Enum):
    """The layouts in which a run can be written."""

    ATIF = "atif"
    MINI = "mini"
    SWE_AGENT = "swe-agent"


def json_option(help: str) -> Any:  # noqa: ANN401 - as of core.options.option
    """Declare ``--json`` of a command that reports."""
    return option(False, help, "--json")


def csv_option(help: str) -> Any:  # noqa: ANN401
    """Declare ``--csv`` of a command that reports."""
    return option(False, help, "--csv")


def partial_option(help: str) -> Any:  # noqa: ANN401
    """Declare ``--allow-partial`` of a command that reports."""
    return option(False, help, "--allow-partial")


def timeout_option(default: float | None, help: str) -> Any:  # noqa: ANN401
    """Declare ``--timeout`` of a command that runs tests."""
    return option(default, help, "--timeout", least=1)


def verify_option(help: str) -> Any:  # noqa: ANN401
    """Declare ``--verify`` of a command that checks what it computed."""
    return option(False, help, "--verify")


@option_group
class Asked:
    """What is asked for, and of which runs."""

    runs: tuple[Path, ...] = option(
        (), "Folders under predictions/; several are combined, or compared.", "runs", argument=True
    )
    submission: Path | None = option(
        None, "Write the leaderboard's package of one run there.", "--submission"
    )
    validate: Path | None = option(None, "Check the leaderboard's package there.", "--validate")
    gold: str = option(
        "", "Evaluate this dataset's gold and empty patches; write --validity.", "--gold"
    )
    repeat: int = option(3, "How often --gold evaluates each patch.", "--repeat", least=1)
    audit: Path | None = option(
        None, "Search the trajectories of a run of any harness for hidden data.", "--audit"
    )
    export: tuple[ExportLayout, Path] | None = option(
        None, "Write the run in another layout (atif, mini, swe-agent) into a folder.", "--export"
    )
    out: Folder = out_option("Where the runs of other harnesses are imported to.")


@option_group
class ReportOptions:
    """How to report on runs; timeouts in seconds."""

    evaluator: str | None = option(
        None,
        "Who evaluates: docker, local, none, modal (untested), or the official program of a task "
        "set: pro, live, live-python, multi-swe-bench, rebench, rebench-v2, gym, smith, sb-cli. "
        "Default: docker if an engine answers.",
        "--evaluator",
    )
    dataset: str = option("", "Default: as the run recorded it.", "--dataset", "-d")
    split: str = option(
        "", "Default: as the run recorded it. Of a package: the leaderboard's.", "--split"
    )
    workers: int = workers_option(2, "Evaluations at once (docker).")
    timeout: float = timeout_option(1800.0, "Seconds for one instance's tests.")
    cache: Folder = cache_option("Mirrors and environments.")
    repos: Folder | None = option(None, "Folder of bare mirrors.", "--repos", given=Path)
    name: str = option("", "Of the combination; default: the runs' names joined by +.", "--name")
    compare: bool = option(False, "Compare the runs, each with each; combine nothing.", "--compare")
    table: bool = option(False, "Print the tables in Markdown alone.", "--table")
    as_json: bool = json_option("Print the statistics as JSON alone.")
    page: bool = option(True, "Write the page of the run with its pictures.", "--page/--no-page")
    regrade: bool = option(False, "Grade saved test output again; run no test.", "--regrade")
    verify: bool = verify_option("Compute derived files again and say what differs.")
    all_attempts: bool = option(
        False, "Evaluate the patches of all attempts, as pass@k needs it.", "--all-attempts"
    )
    validity: Path | None = option(
        None,
        "Also state the score of the instances that this file of --gold calls valid.",
        "--validity",
    )
    evaluator_dir: Folder | None = option(
        None, "Checkout of the official program, where it has one.", "--evaluator-dir", given=Path
    )
    evaluator_python: str = option(
        "", "Interpreter of the official program; default: this one.", "--evaluator-python"
    )
    images: ImageOptions = field(default_factory=ImageOptions)
    follow: bool = option(
        False,
        "Evaluate predictions as a running harness.py writes them, until it ends.",
        "--follow",
    )

    @property
    def only_reads(self) -> bool:
        """Whether files are only read: tables, JSON and comparisons evaluate on request alone."""
        asked = self.evaluator is not None or self.regrade or self.all_attempts
        return (self.table or self.as_json or self.compare) and not asked


@option_group
class SubmissionOptions:
    """The options of a package for the leaderboard.

    Attributes:
        split: of the leaderboard; empty when validating by the package's own folders.
        dataset: name of the dataset when it is not the run's or the split's own.
        cache: where mirrors lie, unless ``repos`` names another folder of them.
    """

    split: str
    meta: Path | None = option(
        None, "meta.yaml of the package (python -m reports.submission).", "--meta"
    )
    dataset: str = ""
    cache: Path = Path()
    repos: Path | None = None
    allow_partial: bool = partial_option(
        "Package: what is not predicted or evaluated is unresolved."
    )
