"""The tables of ``--list-models`` and ``--list-agents``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from agent.named import AGENTS
from core.plaintext import Say, table
from llm.options import ModelChoice
from llm.registry import filled, map_entry, missing_key, takes_temperature, the_litellm
from llm.settings import SettingsBook

_COLUMNS = (
    "model", "alias", "format", "context", "output", "$/M in", "$/M out", "cache markers",
    "temperature", "key",
)  # fmt: skip


def list_models(
    names: Sequence[str],
    book: SettingsBook,
    api_base: str | None,
    say: Say,
    *,
    as_json: bool = False,
) -> None:
    """Say the table of ``names``, and without any that of all aliases and the default models."""

    def parsed(name: str) -> ModelChoice:
        return ModelChoice.parse(name, book=book, any_name=bool(api_base))

    aliases: dict[str, list[str]] = {}
    for alias in book.aliases:
        aliases.setdefault(parsed(alias).name, []).append(alias)
    choices = [parsed(name) for name in names or aliases]
    rows = [_row(choice, aliases.get(choice.name, []), api_base) for choice in choices]
    if as_json:
        say(json.dumps(rows))
        return
    cells = ([_cell(*item) for item in row.items()] for row in rows)
    for line in table(_COLUMNS, cells, numbers=range(3, 7)):
        say(line)


def list_agents(say: Say, *, as_json: bool = False) -> None:
    """Say the table of the coding agents that are known by name; it asks each for its version."""
    rows = [
        {
            "agent": agent.name,
            "installed": agent.installed() or None,
            "tested": agent.tested,
            "protocol": agent.dialect,
            "licence": agent.licence,
            "install": agent.install,
        }
        for agent in AGENTS
    ]
    if as_json:
        say(json.dumps(rows))
        return
    for line in table(
        [*rows[0]], ([value or "no" for value in row.values()] for row in rows)
    ):
        say(line)


def _row(
    choice: ModelChoice, aliases: Sequence[str], api_base: str | None
) -> dict[str, Any]:
    """Return what is known of a model; None is unknown. Prices are dollars for a million tokens."""
    settings = replace(choice.settings, edit_format=choice.edit_format)
    known, entry = filled(settings, choice.name, api_base), map_entry(choice.name)
    key = None  # the provider wants none
    if missing := missing_key(choice.name, api_base):
        key = f"missing {missing}"
    elif not api_base:
        found = the_litellm().validate_environment(model=choice.name)
        key = "set" if found["keys_in_environment"] else None
    return {
        "model": choice.name,
        "aliases": aliases,
        "edit_format": known.edit_format,
        "context": known.context,
        "output": known.max_output,
        "usd_per_million_in": _price(entry.get("input_cost_per_token")),
        "usd_per_million_out": _price(entry.get("output_cost_per_token")),
        "cache_markers": bool(known.cache_markers),
        "temperature": takes_temperature(known, choice.name, 0.0, api_base),
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
