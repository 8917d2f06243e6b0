"""The command ``harness.py``: attempt instances of a data set, or an issue of one's own."""

from __future__ import annotations

from typing import Annotated

import typer

from swe_retry.attempts.config import RunSettings
from swe_retry.core.errors import UserError
from swe_retry.core.sources import Layer
from swe_retry.launch.flags import CommandLine, SettingFlag
from swe_retry.launch.options import RUN, DryRun, EnvFileOption, JsonFormat, Version
from swe_retry.launch.program import command

MODELS = "Models and agent"
INSTANCES = "Instances and tests"
"""Headings of the help, which that of other benchmarks has too."""
_MONEY = "Money"
_OWN = "Your own repository"
FLAGS = (
    SettingFlag("models.names", "--models", "NAME,NAME", MODELS, "-m"),
    SettingFlag("models.tries", "--tries", "N", MODELS),
    SettingFlag("agent.name", "--agent", "NAME", MODELS),
    SettingFlag("calls.api_base", "--api-base", "URL", MODELS),
    SettingFlag("calls.replay", "--replay", "RUN", MODELS),
    SettingFlag("budget.usd", "--budget-usd", "USD", _MONEY),
    SettingFlag("budget.usd_per_instance", "--budget-usd-per-instance", "USD", _MONEY),
    SettingFlag("budget.prices", "--price", "MODEL=USD,USD", _MONEY, repeatable=True),
    SettingFlag("instances.dataset", "--dataset", "NAME", INSTANCES, "-d"),
    SettingFlag("instances.ids", "--instances", "ID,ID", INSTANCES),
    SettingFlag("instances.filter", "--filter", "REGEX", INSTANCES),
    SettingFlag("instances.slice", "--slice", "A:B", INSTANCES),
    SettingFlag("tests.environment", "--environment", "PLACE", INSTANCES),
    SettingFlag("project.repo", "--repo", "PATH", _OWN),
    SettingFlag("project.issue", "--issue", "FILE", _OWN),
    SettingFlag("project.setup", "--setup-cmd", "COMMAND", _OWN, repeatable=True),
    SettingFlag("project.test", "--test-cmd", "COMMAND", _OWN),
    SettingFlag("project.apply", "--apply", "", _OWN),
    SettingFlag("project.branch", "--branch", "NAME", _OWN),
    SettingFlag("folders.run", "--run", "NAME", RUN, "-r"),
    SettingFlag("folders.out", "--out", "FOLDER", RUN, "-o"),
    SettingFlag("scale.workers", "--workers", "N", RUN, "-w"),
)


def flags_of(*options: str) -> tuple[SettingFlag, ...]:
    """Return the flags of some options, in the order of the help."""
    return tuple(flag for flag in FLAGS if flag.option in options)


RedoOption = Annotated[
    str,
    typer.Option(
        "--redo",
        metavar="WORD,WORD",
        help="Do these again: ids, or statuses as not_plausible, error.",
        show_default=False,
        rich_help_panel=RUN,
    ),
]


@command(RunSettings, FLAGS)
def run(
    line: CommandLine[RunSettings],
    continued: Annotated[
        str | None,
        typer.Option(
            "--continue",
            metavar="RUN",
            help="Continue a run, by name or folder, with its settings.",
            rich_help_panel=RUN,
        ),
    ] = None,
    redo: RedoOption = "",
    dry_run: DryRun = False,
    format: JsonFormat = "text",
    word: Annotated[str | None, typer.Argument(metavar="WORD", hidden=True)] = None,
    env_file: EnvFileOption = None,
    version: Version = False,
) -> int:
    """Attempt SWE-bench instances with alternating models until a patch is plausible.

    \b
      python harness.py --models gpt-4o,opus
      python harness.py --dataset verified --slice 0:10 --budget-usd 20
      python harness.py --repo . --issue issue.md --budget-usd 5 --branch fix
    """
    settings = _load_settings(line, continued, word)
    if word is not None:
        raise UserError(f"unexpected {word!r}; a word follows --settings alone")
    from swe_retry.cli.configuration import make_configuration
    from swe_retry.cli.forecast import forecast_run
    from swe_retry.cli.start import check_run
    from swe_retry.runner.session import start_run

    own_run = None
    environment = None
    if settings.project.repo or settings.project.issue:
        from swe_retry.own.run import prepare

        own_run = prepare(settings, line.chosen)
        environment = own_run.environment
    else:
        _check_project(line.options)
    config = make_configuration(
        settings, environment, redo=redo, dry_run=dry_run, prints_json=format == "json"
    )
    if own_run:
        from swe_retry.cli.own import run_own

        return run_own(own_run, config, print)
    benchmark = check_run(config, print)
    if dry_run:
        return forecast_run(benchmark)
    return start_run(benchmark)


def _load_settings(
    line: CommandLine[RunSettings], continued: str | None, word: str | None
) -> RunSettings:
    options = line.options
    if "models.names" in options and not options["models.names"].value:
        raise UserError("--models is empty; give for example gpt-4o,opus")
    if continued is None:
        return line.load(word=word)
    from swe_retry.cli.recorded import recorded_settings

    if "folders.run" in options:
        raise UserError(f"--continue {continued} names the run; leave --run out")
    recorded, place = recorded_settings(RunSettings, continued, line.chosen)
    return line.load(recorded, place, word)


def _check_project(options: Layer) -> None:
    """Refuse what is for one's own repository; without one a run over a data set would start."""
    for name, sourced in options.items():
        if name.startswith("project.") and sourced.value:
            raise UserError(
                f"{sourced.label} is for one's own repository; give --repo and --issue too"
            )
