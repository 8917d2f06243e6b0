"""Statistics as JSON: ``stats.json``, ``--format json``, and the schema of both."""

from __future__ import annotations

import json
from contextlib import suppress

from pydantic import TypeAdapter, ValidationError

from swe_retry.core.jsontypes import JsonMapping, JsonObject
from swe_retry.report.statistics.collect import RunStats
from swe_retry.report.statistics.comparing import RunComparison
from swe_retry.report.statistics.denominators import UsedValidity


def stats_json(stats: RunStats) -> JsonObject:
    """Return statistics as ``stats.json`` holds them; dollars are texts, exact."""
    plain: JsonObject = TypeAdapter(RunStats).dump_python(stats, mode="json")
    if stats.validity is None:
        # Without a validity file there is one score, as in files of earlier versions.
        del plain["validity"], plain["scores"]["valid"]
    return plain


def validity_of(plain: JsonMapping) -> UsedValidity | None:
    """Return what ``stats.json`` says of a validity file; None if nothing that can be read."""
    with suppress(ValidationError):
        return TypeAdapter(UsedValidity).validate_python(plain.get("validity"))
    return None


def stats_schema() -> JsonObject:
    """Return the JSON schema of ``stats.json`` (docs/stats.schema.json)."""
    return TypeAdapter(RunStats).json_schema(mode="serialization")


def comparison_json(comparison: RunComparison) -> JsonObject:
    plain: JsonObject = TypeAdapter(RunComparison).dump_python(comparison, mode="json")
    return plain


if __name__ == "__main__":
    print(json.dumps(stats_schema(), indent=1))
