"""Attempt SWE-bench instances: ``python harness.py --models gpt-4o,opus``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated

import typer

from swe_retry.agent.agents import is_command
from swe_retry.agent.formats import format_names
from swe_retry.agent.named import AGENTS
from swe_retry.attempts.config import RunConfig, RunSettings
from swe_retry.core.data import read_yaml
from swe_retry.core.errors import UserError
from swe_retry.core.settings import (
    CommandLine,
    Layer,
    SettingFlag,
    command,
)
from swe_retry.environments.base import EnvironmentKind
from swe_retry.launch.cli import RUN, EnvFileOption, JsonFormat, Version
from swe_retry.llm.model_settings import load_settings
from swe_retry.runner.options import ask_servers, parse_models, redact_address

MODELS = "Models and agent"
INSTANCES = "Instances and tests"
"""Headings of the help, which ``flags.yaml`` has too."""


def _read_flags() -> Iterator[SettingFlag]:
    for panel, flags in read_yaml(__file__, "flags.yaml").items():
        for option, values in flags.items():
            yield SettingFlag(option=option, panel=panel, **values)


FLAGS = tuple(_read_flags())


def flags_of(*settings: str) -> tuple[SettingFlag, ...]:
    """Return the flags of some settings, in the order of the help."""
    return tuple(flag for flag in FLAGS if flag.setting in settings)


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
def main(
    line: CommandLine[RunSettings],
    continued: Annotated[
        str | None,
        typer.Option(
            "--continue",
            metavar="RUN",
            help="Continue a run, by name or folder, with the settings it was started with.",
            rich_help_panel=RUN,
        ),
    ] = None,
    redo: RedoOption = "",
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Say what would run, what is missing and what it may cost; start nothing.",
            rich_help_panel=RUN,
        ),
    ] = False,
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
    settings = _settings(line, continued)
    if line.prints(settings, word):
        return 0
    if word is not None:
        raise UserError(f"unexpected {word!r}; a word follows --settings alone")
    if settings.project.repo or settings.project.issue:
        from swe_retry.cli.own import prepare

        own_run = prepare(settings, line.chosen)
        config = make_configuration(settings, own_run.environment, dry_run=dry_run)
        config = replace(config, redo=redo, prints_json=format == "json")
        return own_run.run(own_run.own_config(config), print)
    _check_project(line.layer)
    from swe_retry.cli.commands import run_command

    config = make_configuration(settings, dry_run=dry_run)
    config = replace(config, redo=redo, prints_json=format == "json")
    return run_command(config, print)


def _settings(line: CommandLine[RunSettings], continued: str | None) -> RunSettings:
    if "models.names" in line.layer and not line.layer["models.names"].value:
        raise UserError("--models is empty; give for example gpt-4o,opus")
    if continued is None:
        return line.load()
    from swe_retry.cli.recorded import recorded_settings

    if "folders.run" in line.layer:
        raise UserError(f"--continue {continued} names the run; leave --run out")
    recorded, place = recorded_settings(RunSettings, continued, line.chosen)
    return line.load(recorded, place)


def _check_project(layer: Layer) -> None:
    """Refuse what is for one's own repository; without one a run over a data set would start."""
    for name, sourced in layer.items():
        if name.startswith("project.") and sourced.value:
            raise UserError(
                f"{sourced.label} is for one's own repository; give --repo and --issue too"
            )


def make_configuration(
    settings: RunSettings,
    environment: EnvironmentKind | None = None,
    *,
    dry_run: bool = False,
) -> RunConfig:
    """Return what the settings mean here.

    Args:
        settings: of the run.
        environment: runs the tests; None for that of the settings.
        dry_run: a server that loads its model is not waited for.
    """
    calls = settings.calls
    redact_address(calls.api_base)
    book = load_settings(settings.models.file, format_names())
    # A command that calls its model itself may have any name for it.
    calls_itself = is_command(settings.agent.name) and not settings.agent.api
    models = parse_models(
        settings.models.names,
        book,
        any_name=bool(calls.api_base) or calls_itself,
        replay=calls.replay is not None,
        agents=[agent.name for agent in AGENTS],
    )
    if not calls_itself:
        models = ask_servers(models, calls, wait=not dry_run)
    if environment is None:
        # Imported late: it loads what runs containers.
        from swe_retry.environments.choice import default_environment

        environment = settings.tests.environment or default_environment()
    config = RunConfig.of(settings, models, book, environment)
    return replace(config, dry_run=dry_run)
