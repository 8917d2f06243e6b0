"""The table of ``--list-models``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from agent.catalogue import filled, takes_temperature
from agent.registry import map_entry, missing_key, the_litellm
from agent.settings import ModelSettings

_COLUMNS = (
    "model", "alias", "format", "context", "output", "$/M in", "$/M out", "cache markers",
    "temperature", "key",
)  # fmt: skip
_NUMBERS = range(3, 7)
_UNKNOWN = "-"
_MILLION = 1_000_000


@dataclass(frozen=True)
class Listed:
    """A model to be listed: litellm's name, its aliases, and what is said of it."""

    name: str
    aliases: tuple[str, ...]
    settings: ModelSettings


def table(models: Sequence[Listed], api_base: str | None) -> Iterator[str]:
    """Yield the lines of the table in plain columns; what is unknown is ``-``."""
    rows = [_COLUMNS, *(_row(model, api_base) for model in models)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_COLUMNS))]
    for row in rows:
        cells = (
            cell.rjust(width) if column in _NUMBERS else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        yield "  ".join(cells).rstrip()


def _row(model: Listed, api_base: str | None) -> tuple[str, ...]:
    known = filled(model.settings, model.name, api_base)
    entry = map_entry(model.name)
    return (
        model.name,
        ",".join(model.aliases) or _UNKNOWN,
        known.edit_format or _UNKNOWN,
        str(known.context or _UNKNOWN),
        str(known.max_output or _UNKNOWN),
        _price(entry.get("input_cost_per_token")),
        _price(entry.get("output_cost_per_token")),
        "yes" if known.cache_markers else "no",
        "yes" if takes_temperature(known, model.name, 0.0, api_base) else "no",
        _key(model.name, api_base),
    )


def _price(dollars: float | None) -> str:
    return _UNKNOWN if dollars is None else f"{dollars * _MILLION:.2f}"


def _key(name: str, api_base: str | None) -> str:
    """Return whether the key that the provider wants is set; ``-`` where it wants none."""
    if missing := missing_key(name, api_base):
        return f"missing {missing}"
    if api_base or not the_litellm().validate_environment(model=name)["keys_in_environment"]:
        return _UNKNOWN
    return "set"
