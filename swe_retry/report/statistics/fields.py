"""Pure: statistics as fields of dataclasses that say how they are computed.

A field is the only place that names a statistic: ``stats.json``, its schema and the tables of pages
iterate over the fields.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import field, fields
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

S = TypeVar("S", bound="DataclassInstance")
Statistic: TypeAlias = Any
"""A field that says how it is computed, with a value of the type that it is annotated with."""


def statistic(
    value_of: Callable[[Any], object],
    heading: str = "",
    **options: Any,  # noqa: ANN401
) -> Statistic:
    """Return a field with the value that ``value_of`` has for the source of the statistics.

    Args:
        heading: what pages call it, if not by its name.
        options: of ``dataclasses.field``.
    """
    return field(
        metadata={"value_of": value_of, "heading": heading},
        **options,
    )


def compute(kind: type[S], source: object) -> S:
    """Return the statistics of a source, such as a run."""
    values = {}
    for each in fields(kind):
        values[each.name] = each.metadata["value_of"](source)
    return kind(**values)


def headed_values(statistics: DataclassInstance) -> Iterator[tuple[str, Any]]:
    """Yield the heading and the value of each statistic."""
    for each in fields(statistics):
        heading = each.metadata.get("heading") or each.name.replace("_", " ")
        yield heading, getattr(statistics, each.name)
