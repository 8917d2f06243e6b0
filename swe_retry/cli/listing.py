"""What ``harness.py list`` prints: models and agents by name, and images of projects."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from swe_retry.agent.named import AGENTS, named_agent
from swe_retry.agent.named.description import NamedAgent
from swe_retry.agent.named.installed import (
    Installation,
    agent_in_path,
    cached_agent,
)
from swe_retry.core.errors import UserError
from swe_retry.core.plaintext import Say, did_you_mean, table
from swe_retry.environments.leftovers import installed_images
from swe_retry.llm.model_settings import SettingsBook
from swe_retry.llm.options import ModelChoice
from swe_retry.llm.registry import (
    Endpoint,
    load_litellm,
    map_entry,
)
from swe_retry.runner.housekeeping import connect_engine

_COLUMNS = (
    "model", "alias", "format", "context", "output", "$/M in", "$/M out", "cache markers",
    "temperature", "key",
)  # fmt: skip


def list_models(
    names: Sequence[str],
    book: SettingsBook,
    say: Say,
    *,
    as_json: bool = False,
) -> None:
    """Say the table of ``names``, and without any that of all aliases and the default models."""
    aliases = defaultdict(list)
    for alias in book.aliases:
        choice = ModelChoice.parse(alias, book=book)
        aliases[choice.name].append(alias)
    rows = []
    for name in names or aliases:
        choice = ModelChoice.parse(name, book=book)
        rows.append(_model_row(choice, aliases.get(choice.name, [])))
    if as_json:
        say(json.dumps(rows))
        return
    cells = []
    for row in rows:
        cells.append([_cell(key, value) for key, value in row.items()])
    for line in table(_COLUMNS, cells, numbers=range(3, 7)):
        say(line)


def list_agents(
    names: Sequence[str],
    say: Say,
    cache: Path,
    *,
    as_json: bool = False,
) -> None:
    """Say the table of these coding agents, and without any of all; each tells its version."""
    agents = [find_agent(name) for name in names] or AGENTS
    rows = []
    for agent in agents:
        row: dict[str, str | None] = {
            "agent": agent.name,
            "installed": _version_of(cached_agent(agent, cache)),
            "in PATH": _version_of(agent_in_path(agent)),
            "tested": agent.tested,
            "protocol": agent.dialect,
            "licence": agent.licence,
        }
        rows.append(row)
    _say_rows(rows, say, as_json)


def _version_of(installation: Installation | None) -> str | None:
    if installation is None:
        return None
    return installation.version


def list_images(say: Say, *, as_json: bool = False) -> None:
    """Say the table of the images with installed projects, the oldest first."""
    now = datetime.now(UTC)
    rows = []
    for image in installed_images(connect_engine()):
        row: dict[str, str | None] = {
            "image": image.name,
            "days old": str((now - image.created).days),
            "MB": f"{image.size / 1e6:.0f}",
        }
        rows.append(row)
    _say_rows(rows, say, as_json)


def _say_rows(
    rows: Sequence[Mapping[str, str | None]],
    say: Say,
    as_json: bool,
) -> None:
    if as_json:
        say(json.dumps(rows))
    elif rows:
        cells = [[value or "no" for value in row.values()] for row in rows]
        for line in table(list(rows[0]), cells):
            say(line)


def find_agent(name: str) -> NamedAgent:
    agent = named_agent(name)
    if agent is None:
        names = ", ".join(agent.name for agent in AGENTS)
        hint = did_you_mean(name, names.split(", "))
        raise UserError(f"unknown agent {name!r}; there are {names}{hint}")
    return agent


def _model_row(choice: ModelChoice, aliases: Sequence[str]) -> dict[str, Any]:
    """Return what is known of a model; None is unknown. Prices are dollars for a million tokens."""
    settings = replace(choice.settings, edit_format=choice.edit_format)
    endpoint = Endpoint(choice.name)
    settings = endpoint.complete_settings(settings)
    entry = map_entry(choice.name)
    return {
        "model": choice.name,
        "aliases": aliases,
        "edit_format": settings.edit_format,
        "context": settings.context,
        "output": settings.max_output,
        "usd_per_million_in": _per_million(entry.get("input_cost_per_token")),
        "usd_per_million_out": _per_million(entry.get("output_cost_per_token")),
        "cache_markers": bool(settings.cache_markers),
        "temperature": endpoint.accepts_temperature(settings, 0.0),
        "key": _key_state(choice.name),
    }


def _key_state(model: str) -> str | None:
    """Return whether the provider's key is set; None if the provider wants none."""
    missing = Endpoint(model).missing_key()
    if missing:
        return f"missing {missing}"
    variables = load_litellm().validate_environment(model=model)
    if variables["keys_in_environment"]:
        return "set"
    return None


def _cell(key: str, value: Any) -> str:  # noqa: ANN401 - any value of a row
    if isinstance(value, bool):
        return "yes" if value else "no"
    if key.startswith("usd") and value is not None:
        return f"{value:.2f}"
    if isinstance(value, list):
        value = ",".join(value)
    return str(value or "-")


def _per_million(dollars: float | None) -> float | None:
    if dollars is None:
        return None
    return round(dollars * 1_000_000, 6)
