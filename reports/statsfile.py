"""Statistics as JSON: ``stats.json``, ``--json``, and the schema of both."""

from __future__ import annotations

import json
from typing import Any

from pydantic import TypeAdapter

from reports.statistics.collect import RunStats
from reports.statistics.comparing import RunComparison


def stats_json(stats: RunStats) -> dict[str, Any]:
    """Return statistics as ``stats.json`` holds them; dollars are texts, exact."""
    plain: dict[str, Any] = TypeAdapter(RunStats).dump_python(stats, mode="json")
    return plain


def stats_schema() -> dict[str, Any]:
    """Return the JSON schema of ``stats.json`` (docs/stats.schema.json)."""
    return TypeAdapter(RunStats).json_schema(mode="serialization")


def comparison_json(comparison: RunComparison) -> dict[str, Any]:
    """Return a comparison as JSON holds it."""
    plain: dict[str, Any] = TypeAdapter(RunComparison).dump_python(comparison, mode="json")
    return plain


if __name__ == "__main__":
    print(json.dumps(stats_schema(), indent=1))
