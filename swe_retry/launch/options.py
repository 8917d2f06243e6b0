"""Options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

RUN = "The run"
"""The heading of a help for what belongs to a run."""
SETTINGS = "Everything else"
JsonFormat = Annotated[
    Literal["text", "json"],
    typer.Option(
        "--format",
        metavar="FORMAT",
        help="Print the result as text or json. [text]",
        show_default=False,
        rich_help_panel=RUN,
    ),
]
DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run",
        help="Say what would be done and may cost; start nothing.",
        rich_help_panel=RUN,
    ),
]
EnvFileOption = Annotated[
    Path | None,
    typer.Option(
        "--env-file",
        metavar="FILE",
        help="Read keys and addresses of providers from this file; by default "
        "~/.config/swe-retry-harness/.env.",
        rich_help_panel=SETTINGS,
    ),
]
StudyFile = Annotated[
    Path, typer.Argument(help="The study: a YAML file (docs/study.md).")
]
Version = Annotated[
    bool,
    typer.Option("--version", help="Print the version.", rich_help_panel=SETTINGS),
]
