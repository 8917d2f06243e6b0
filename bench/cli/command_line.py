"""Attempt SWE-bench instances: ``python harness.py --models gpt-4o,opus``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import typer

from agent.agents import is_command
from agent.formats import format_names
from agent.named import AGENTS
from bench.cli.cli import About
from bench.cli.configfile import options_given
from bench.config import RunConfig
from bench.instances.dataset import ALIASES, BUNDLED
from bench.options import Options
from bench.own.options import OWN, OwnOptions
from bench.selection import INSTANCES
from core.address import Address, without_logins
from core.options import built, command
from environments.options import AGENT, TESTS
from llm.options import LIMITS, MODELS, ModelChoice, ModelFile, names_of
from llm.settings import SettingsBook, load_settings
from runs.calls.budget import MONEY
from runs.calls.rate_limiter import SCALE
from runs.options import RUN, address_given, models_given

GROUPS = (RunConfig, ModelFile, Options, OwnOptions, About)
PANELS = (OWN, MODELS, AGENT, INSTANCES, TESTS, LIMITS, SCALE, MONEY, RUN)


@command(*GROUPS, panels=PANELS)
def main(context: typer.Context, values: dict[str, Any]) -> None:
    """Attempt SWE-bench instances with alternating models until a patch is plausible.

    \b
      python harness.py --models gpt-4o,opus
      python harness.py --dataset verified --filter django --budget-usd 20
      python harness.py --repo . --issue issue.md --budget-usd 5 --branch fix
    """
    own = built(OwnOptions, values)
    if own.repo or own.issue:
        raise typer.Exit(_run_own(context, own, values))
    from bench.cli.commands import run_command

    config, options = configured(context, values)
    raise typer.Exit(run_command(config, options, print))


def _run_own(context: typer.Context, own: OwnOptions, values: dict[str, Any]) -> int:
    from bench.cli.own import prepare

    run = prepare(values, own, options_given((Options,), context))
    config, options = configured(context, values)
    options = replace(options, given={**options.given, **run.recorded()})
    return run.run(run.named(config), options, print)


def configured(
    context: typer.Context, values: dict[str, Any]
) -> tuple[RunConfig, Options]:
    """Return the configuration of a run, and its options, from the values of a command line."""
    address = address_given(values["api_base"])
    book = load_settings(values["model_settings"], format_names())
    values["models"] = _models(values, book)
    if not values["environment"]:
        from environments.choice import default_environment

        values["environment"] = default_environment()
    config = built(RunConfig, values)
    more = {"settings": book, "given": _given(context, address)}
    return config, built(Options, values | more, names_of(config.models))


def _models(values: dict[str, Any], book: SettingsBook) -> tuple[ModelChoice, ...]:
    # A command that calls its model itself may have any name for it.
    alone = is_command(values["agent"]) and not values["agent_api"]
    any_name = bool(values["api_base"]) or alone
    replay = values["replay"] is not None
    agents = [agent.name for agent in AGENTS]
    models = values["models"]
    return models_given(models, book, any_name=any_name, replay=replay, agents=agents)


def _given(context: typer.Context, address: Address | None) -> dict[str, Any]:
    """Return the options as ``run.json`` records them: paths whole, without a password."""
    given = options_given(GROUPS, context)
    given = {
        k: without_logins(v) if isinstance(v, str) else v for k, v in given.items()
    }
    if address is not None and "api-base" in given:
        given["api-base"] = address.recorded
    for name, mark in (("dataset", ""), ("instances", "@")):
        path = Path(str(given.get(name, "")).removeprefix(mark)).expanduser()
        named = str(given.get(name, ""))
        known = name == "dataset" and named in (*ALIASES, *BUNDLED)
        if name in given and named.startswith(mark) and not known and path.exists():
            given[name] = f"{mark}{path.resolve()}"
    return given
