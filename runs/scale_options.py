"""The options of ``harness.py`` for large runs: how much at once, how much money, what to redo."""

from __future__ import annotations

from typing import Annotated

import typer

from runs.scale import EngineKind

_SCALE = "How much at once"
_MONEY = "Money and time"
_RUN = "The run"

Workers = Annotated[
    int,
    typer.Option(
        "-w", "--workers", min=1, help="Instances in work: calls in flight.", rich_help_panel=_SCALE
    ),
]
Jobs = Annotated[
    int | None,
    typer.Option(
        "--jobs",
        min=1,
        help="Checkouts, maps, lints and tests at once; default: cores.",
        rich_help_panel=_SCALE,
    ),
]
Processes = Annotated[
    int | None,
    typer.Option(
        "--processes",
        min=1,
        hidden=True,
        help="Removed: --engine ray uses more than one interpreter.",
    ),
]
EngineName = Annotated[
    EngineKind,
    typer.Option(
        "--engine", help="Threads of one process, or Ray's processes.", rich_help_panel=_SCALE
    ),
]
RayAddress = Annotated[
    str,
    typer.Option(
        "--ray-address",
        help="auto, or the address of a running cluster (docs/scale.md); default: a Ray of this "
        "run's own on this machine.",
        rich_help_panel=_SCALE,
    ),
]
CpusPerInstance = Annotated[
    float | None,
    typer.Option(
        "--cpus-per-instance",
        help="CPUs that Ray reserves for one; default: 1 with tests, else 0.25.",
        rich_help_panel=_SCALE,
    ),
]
Rpm = Annotated[
    str,
    typer.Option(
        "--rpm", help="Requests a minute: a number, or MODEL=N,MODEL=N.", rich_help_panel=_SCALE
    ),
]
Tpm = Annotated[
    str,
    typer.Option("--tpm", help="Tokens a minute, in the same way.", rich_help_panel=_SCALE),
]
GiveUpAfter = Annotated[
    float,
    typer.Option(
        "--give-up-after",
        min=1,
        help="Seconds without any answer of any model after which the run ends.",
        rich_help_panel=_SCALE,
    ),
]
BudgetUsd = Annotated[
    str,
    typer.Option("--budget-usd", help="Dollars for the run.", rich_help_panel=_MONEY),
]
BudgetPerInstance = Annotated[
    str,
    typer.Option(
        "--budget-usd-per-instance", help="Dollars for an instance.", rich_help_panel=_MONEY
    ),
]
BudgetPerModel = Annotated[
    str,
    typer.Option("--budget-usd-per-model", help="As gpt-4o=50,opus=200.", rich_help_panel=_MONEY),
]
MaxCalls = Annotated[
    int | None,
    typer.Option("--max-calls", min=1, help="Requests of the run.", rich_help_panel=_MONEY),
]
MaxSeconds = Annotated[
    float | None,
    typer.Option(
        "--max-seconds-per-attempt",
        help="After which an attempt asks nothing more.",
        rich_help_panel=_MONEY,
    ),
]
Prices = Annotated[
    list[str] | None,
    typer.Option(
        "--price",
        help="MODEL=IN,OUT in dollars per million tokens; repeatable.",
        rich_help_panel=_MONEY,
    ),
]
AllowUnpriced = Annotated[
    bool,
    typer.Option(
        "--allow-unpriced",
        help="Run models without a known price.",
        rich_help_panel=_MONEY,
    ),
]
RedoWords = Annotated[
    str,
    typer.Option(
        "--redo",
        help="Redo exactly these: statuses (not_plausible, empty, error, infra_error, budget, …) "
        "or ids.",
        rich_help_panel=_RUN,
    ),
]
Status = Annotated[
    bool,
    typer.Option("--status", help="Print the table of the run.", rich_help_panel=_RUN),
]
Clean = Annotated[
    bool,
    typer.Option(
        "--clean",
        help="Remove what a killed process of this run left: processes, containers, folders.",
        rich_help_panel=_RUN,
    ),
]
CleanAll = Annotated[
    bool,
    typer.Option(
        "--all",
        help="With --clean: remove the whole run, its predictions and logs too.",
        rich_help_panel=_RUN,
    ),
]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.", rich_help_panel=_RUN)]
AsJson = Annotated[
    bool,
    typer.Option(
        "--json",
        help="Print the result as JSON: the summary, --status, --dry-run, --list-models.",
        rich_help_panel=_RUN,
    ),
]
