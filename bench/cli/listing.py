"""The table of ``--list-models``."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace

from core import plaintext
from llm.options import ModelChoice
from llm.registry import filled, map_entry, missing_key, takes_temperature, the_litellm
from llm.settings import ModelSettings, SettingsBook

Say = Callable[[str], None]

_COLUMNS = (
    "model", "alias", "format", "context", "output", "$/M in", "$/M out", "cache markers",
    "temperature", "key",
)  # fmt: skip
_NUMBERS = range(3, 7)
_UNKNOWN = "-"
_MILLION = 1_000_000


@dataclass(frozen=True)
class Listed:
    """A model of the table: litellm's name, its aliases, and its settings."""

    name: str
    aliases: tuple[str, ...]
    settings: ModelSettings


@dataclass(frozen=True)
class ListedRow:
    """A row of the table; None is unknown.

    Attributes:
        edit_format: the one that it writes when no other is named.
        context, output: tokens of its window, and of its longest reply.
        usd_per_million_in, usd_per_million_out: prices of litellm's map.
        temperature: whether it takes one.
        key: ``set``, ``missing NAME``, or None where the provider wants none.
    """

    model: str
    aliases: tuple[str, ...]
    edit_format: str | None
    context: int | None
    output: int | None
    usd_per_million_in: float | None
    usd_per_million_out: float | None
    cache_markers: bool
    temperature: bool
    key: str | None


def list_models(
    names: Sequence[str],
    book: SettingsBook,
    api_base: str | None,
    say: Say,
    *,
    as_json: bool = False,
) -> None:
    """Say the table of ``names``, and without any that of all aliases and the default models.

    Raises:
        UserError: litellm knows no provider for a name.
    """

    def parsed(name: str) -> ModelChoice:
        return ModelChoice.parse(name, book=book, any_name=bool(api_base))

    aliases: dict[str, list[str]] = {}
    for alias in book.aliases:
        aliases.setdefault(parsed(alias).name, []).append(alias)
    listed = [
        Listed(
            choice.name,
            tuple(aliases.get(choice.name, ())),
            replace(choice.settings, edit_format=choice.edit_format),
        )
        for choice in map(parsed, names or aliases)
    ]
    rows = [listed_row(model, api_base) for model in listed]
    if as_json:
        say(json.dumps([asdict(row) for row in rows]))
        return
    for line in table(rows):
        say(line)


def listed_row(model: Listed, api_base: str | None) -> ListedRow:
    """Return what is known of a model."""
    known = filled(model.settings, model.name, api_base)
    entry = map_entry(model.name)
    return ListedRow(
        model=model.name,
        aliases=model.aliases,
        edit_format=known.edit_format,
        context=known.context,
        output=known.max_output,
        usd_per_million_in=_price(entry.get("input_cost_per_token")),
        usd_per_million_out=_price(entry.get("output_cost_per_token")),
        cache_markers=bool(known.cache_markers),
        temperature=takes_temperature(known, model.name, 0.0, api_base),
        key=_key(model.name, api_base),
    )


def table(listed: Sequence[ListedRow]) -> Iterator[str]:
    """Yield the lines of the table in plain columns; what is unknown is ``-``."""
    return plaintext.table(_COLUMNS, map(_cells, listed), numbers=_NUMBERS)


def _cells(row: ListedRow) -> tuple[str, ...]:
    return (
        row.model,
        ",".join(row.aliases) or _UNKNOWN,
        row.edit_format or _UNKNOWN,
        str(row.context or _UNKNOWN),
        str(row.output or _UNKNOWN),
        *(
            _UNKNOWN if price is None else f"{price:.2f}"
            for price in (row.usd_per_million_in, row.usd_per_million_out)
        ),
        "yes" if row.cache_markers else "no",
        "yes" if row.temperature else "no",
        row.key or _UNKNOWN,
    )


def _price(dollars: float | None) -> float | None:
    return None if dollars is None else round(dollars * _MILLION, 6)


def _key(name: str, api_base: str | None) -> str | None:
    if missing := missing_key(name, api_base):
        return f"missing {missing}"
    if api_base or not the_litellm().validate_environment(model=name)["keys_in_environment"]:
        return None
    return "set"
