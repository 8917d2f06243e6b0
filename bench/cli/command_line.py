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
from bench.options import Options, TryAgent
from bench.own.options import OWN, OwnOptions
from bench.selection import INSTANCES
from core.address import Address, without_logins
from core.errors import UserError
from core.options import built, command
from environments.base import EnvironmentKind
from environments.options import AGENT, TESTS
from llm.options import LIMITS, MODELS, ModelBook, ModelChoice, names_of
from llm.settings import SettingsBook, load_settings
from runs.calls.budget import MONEY
from runs.calls.rate_limiter import SCALE
from runs.options import RUN, address_given, models_given

GROUPS = (RunConfig, ModelBook, TryAgent, Options, OwnOptions, About)
PANELS = (OWN, MODELS, AGENT, INSTANCES, TESTS, LIMITS, SCALE, MONEY, RUN)


@command(*GROUPS, panels=PANELS)
def main(context: typer.Context, values: dict[str, Any]) -> None:
    """Attempt SWE-bench instances with alternating models until a patch is plausible."""
    if values["list_models"]:
        from bench.cli.listing import list_models

        book = load_settings(values["model_settings"], format_names())
        names = (
            [name.strip() for name in values["models"].split(",")]
            if values["models"]
            else []
        )
        list_models(names, book, values["api_base"], print, as_json=values["json"])
        raise typer.Exit(0)
    if values["list_agents"]:
        from bench.cli.listing import list_agents

        list_agents(print, as_json=values["json"])
        raise typer.Exit(0)
    if values["all"] and not values["clean"]:
        raise UserError("--all is for --clean; give both to remove a run")
    own = built(OwnOptions, values)
    named = values["run"] and (values["status"] or values["clean"])
    if (own.repo or own.issue) and not named:
        raise typer.Exit(_run_own(context, own, values))
    config, options = configured(context, values)
    raise typer.Exit(_run(config, options, values))


def _run_own(context: typer.Context, own: OwnOptions, values: dict[str, Any]) -> int:
    from bench.cli.own import prepare

    run = prepare(values, own, options_given((Options,), context))
    config, options = configured(context, values)
    options = replace(options, given={**options.given, **run.recorded()})
    config = run.named(config)
    looks = values["try_agent"] is not None or options.clean or options.status
    return _run(config, options, values) if looks else run.run(config, options, print)


def configured(
    context: typer.Context, values: dict[str, Any]
) -> tuple[RunConfig, Options]:
    """Return the configuration of a run, and its options, from the values of a command line."""
    address = address_given(values["api_base"])
    book = load_settings(values["model_settings"], format_names())
    # A run that is named is looked at without litellm, which knows models and takes a second.
    named = bool(values["run"]) and (values["status"] or values["clean"])
    values["models"] = () if named else _models(values, book)
    values["environment"] = values["environment"] or _environment(values)
    config = built(RunConfig, values)
    more = {"settings": book, "given": _given(context, address)}
    return config, built(
        Options, values | more, str if named else names_of(config.models)
    )


def _run(config: RunConfig, options: Options, values: dict[str, Any]) -> int:
    # The modules of a command are imported when it runs.
    if values["try_agent"] is not None:
        from bench.cli.tryagent import try_agent

        return try_agent(replace(config, agent=values["try_agent"]), options, print)
    if options.clean:
        from runs.storage.store import RunStore
        from runs.upkeep import clean_command

        store = RunStore(options.out, config.run_name)
        everything, yes = options.clean_all, options.yes
        return clean_command(
            store, options.cache, print, everything=everything, yes=yes
        )
    if options.status:
        from bench.attempts import RESULTS
        from runs.storage.store import RunStore
        from runs.upkeep import status_command

        store = RunStore(options.out, config.run_name)
        return status_command(store, print, RESULTS, as_json=options.as_json)
    from bench.cli.commands import run_command

    return run_command(config, options, print)


def _models(values: dict[str, Any], book: SettingsBook) -> tuple[ModelChoice, ...]:
    # A command that calls its model itself may have any name for it.
    alone = (
        is_command(values.get("try_agent") or values["agent"])
        and not values["agent_api"]
    )
    any_name = bool(values["api_base"]) or alone
    replay = values["replay"] is not None
    agents = [agent.name for agent in AGENTS]
    models = values["models"]
    return models_given(models, book, any_name=any_name, replay=replay, agents=agents)


def _environment(values: dict[str, Any]) -> EnvironmentKind:
    if values["status"] or values["clean"]:
        return EnvironmentKind.NONE
    from environments.choice import default_environment

    return default_environment()


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
