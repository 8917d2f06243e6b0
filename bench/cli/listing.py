"""The command ``harness.py list``: the models and the agents that are known by name."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

import typer

from agent.named import AGENTS
from bench.cli.cli import JsonFormat
from core.errors import UserError
from core.plaintext import Say, table
from llm.options import ModelChoice
from llm.registry import filled, map_entry, missing_key, takes_temperature, the_litellm
from llm.settings import SettingsBook, our_settings

_COLUMNS = (
    "model", "alias", "format", "context", "output", "$/M in", "$/M out", "cache markers",
    "temperature", "key",
)  # fmt: skip


def main(
    what: Annotated[
        Literal["models", "agents"], typer.Argument(help="List models or agents.")
    ],
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME", help="List these; by default all that have a name."
        ),
    ] = None,
    format: JsonFormat = "text",
) -> None:
    """List the models or the agents that are known by name; start nothing."""
    as_json = format == "json"
    if what == "agents":
        list_agents(names or (), print, as_json=as_json)
    else:
        list_models(names or (), our_settings(), print, as_json=as_json)


def list_models(
    names: Sequence[str],
    book: SettingsBook,
    say: Say,
    *,
    as_json: bool = False,
) -> None:
    """Say the table of ``names``, and without any that of all aliases and the default models."""

    def parse_name(name: str) -> ModelChoice:
        return ModelChoice.parse(name, book=book)

    aliases: dict[str, list[str]] = {}
    for alias in book.aliases:
        aliases.setdefault(parse_name(alias).name, []).append(alias)
    choices = [parse_name(name) for name in names or aliases]
    rows = [_row(choice, aliases.get(choice.name, [])) for choice in choices]
    if as_json:
        say(json.dumps(rows))
        return
    cells = ([_cell(*item) for item in row.items()] for row in rows)
    for line in table(_COLUMNS, cells, numbers=range(3, 7)):
        say(line)


def list_agents(names: Sequence[str], say: Say, *, as_json: bool = False) -> None:
    """Say the table of these coding agents, and without any of all; each tells its version."""
    agents = {agent.name: agent for agent in AGENTS}
    for name in names:
        if name not in agents:
            raise UserError(f"unknown agent {name!r}; there are {', '.join(agents)}")
    rows = [
        {
            "agent": agent.name,
            "installed": agent.installed() or None,
            "tested": agent.tested,
            "protocol": agent.dialect,
            "licence": agent.licence,
            "install": agent.install,
        }
        for agent in (agents[name] for name in names or agents)
    ]
    if as_json:
        say(json.dumps(rows))
        return
    for line in table(
        [*rows[0]], ([value or "no" for value in row.values()] for row in rows)
    ):
        say(line)


def _row(choice: ModelChoice, aliases: Sequence[str]) -> dict[str, Any]:
    """Return what is known of a model; None is unknown. Prices are dollars for a million tokens."""
    settings = replace(choice.settings, edit_format=choice.edit_format)
    settings = filled(settings, choice.name, None)
    entry = map_entry(choice.name)
    key = None  # the provider wants none
    if missing := missing_key(choice.name, None):
        key = f"missing {missing}"
    else:
        variables = the_litellm().validate_environment(model=choice.name)
        if variables["keys_in_environment"]:
            key = "set"
    return {
        "model": choice.name,
        "aliases": aliases,
        "edit_format": settings.edit_format,
        "context": settings.context,
        "output": settings.max_output,
        "usd_per_million_in": _price(entry.get("input_cost_per_token")),
        "usd_per_million_out": _price(entry.get("output_cost_per_token")),
        "cache_markers": bool(settings.cache_markers),
        "temperature": takes_temperature(settings, choice.name, 0.0, None),
        "key": key,
    }


def _cell(key: str, value: Any) -> str:  # noqa: ANN401 - any value of a row
    if isinstance(value, bool):
        return "yes" if value else "no"
    if key.startswith("usd") and value is not None:
        return f"{value:.2f}"
    return (",".join(value) if isinstance(value, list) else str(value or "")) or "-"


def _price(dollars: float | None) -> float | None:
    return None if dollars is None else round(dollars * 1_000_000, 6)
