"""``stats.json`` is valid under its schema in docs/."""

from __future__ import annotations

import copy
import json
import runpy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator, ValidationError
from pydantic import TypeAdapter

from swe_retry.record.store import RunStore
from swe_retry.report.statistics.effort import Amount, Effort, sum_over
from swe_retry.report.statistics.fields import compute, headed_values
from swe_retry.results.read import read_run
from tests.support import TOP, read_json
from tests.support.reporting import statistics, write_values
from tests.support.rundata import an_attempt, an_instance, old_prediction, write_run

SCHEMA = TOP / "docs" / "stats.schema.json"


def test_the_schema_in_the_docs_is_the_codes_own(
    capsys: pytest.CaptureFixture[str],
) -> None:
    runpy.run_path(str(TOP / "swe_retry/report/statsfile.py"), run_name="__main__")
    schema = json.loads(capsys.readouterr().out)
    assert read_json(SCHEMA) == schema


def both_statistics(folder: Path) -> list[dict[str, Any]]:
    """Return the statistics of a run of May 2024, and of one with unknown costs."""
    prediction = old_prediction("a__a-1", 3, resolved=True)
    old = write_run(folder / "old", [prediction])
    attempts = (an_attempt(1, cost=None), an_attempt(2))
    sampled = an_instance(attempts=attempts, cost=None)
    described = {
        "dataset": {"name": "lite"},
        "selected": ["own__thing-1", "x__x-2"],
    }
    new = write_values(folder / "new", sampled, described=described)
    return [statistics(old), statistics(new)]


def test_statistics_fit_the_schema(tmp_path: Path) -> None:
    schema = read_json(SCHEMA)
    Draft202012Validator.check_schema(schema)
    validator = Draft202012Validator(schema)
    for stats in both_statistics(tmp_path):
        validator.validate(stats)
        for section, name, value in (
            ("counts", "resolved", "3"),
            ("effort", "dollars", 1.5),
        ):
            spoiled = copy.deepcopy(stats)
            spoiled[section][name] = value
            with pytest.raises(ValidationError):
                validator.validate(spoiled)


def test_every_value_is_in_the_schema(tmp_path: Path) -> None:
    schema = read_json(SCHEMA)
    for stats in both_statistics(tmp_path):
        properties = schema["properties"]
        assert stats.keys() == properties.keys() - {"validity"}
        for name, value in stats.items():
            reference = properties[name].get("$ref", "")
            kind = schema["$defs"].get(reference.rpartition("/")[2])
            if kind:
                assert value.keys() == kind["properties"].keys() - {"valid"}


@dataclass(frozen=True)
class MoreEffort(Effort):
    """A section with one more field than today's."""

    excluded: Amount = sum_over(  # noqa: RUF009 - as in reports/statistics
        lambda attempt: [len(attempt.excluded_files)], "excluded files"
    )


def test_a_statistic_is_one_field(tmp_path: Path) -> None:
    """Its value, JSON, schema and heading follow from the field."""
    attempts = (an_attempt(dropped_files=("a", "b")), an_attempt(2))
    folder = write_values(tmp_path / "r", an_instance(attempts=attempts))
    effort = compute(MoreEffort, read_run(RunStore.of_folder(folder)))
    sections = TypeAdapter(MoreEffort)
    plain = sections.dump_python(effort, mode="json")
    assert plain["excluded"]["known"] == 2
    schema = sections.json_schema(mode="serialization")
    assert schema["properties"]["excluded"] == schema["properties"]["seconds"]
    assert ("excluded files", effort.excluded) in list(headed_values(effort))


def test_dollars_are_exact_texts(tmp_path: Path) -> None:
    stats, _ = both_statistics(tmp_path)
    assert stats["effort"]["dollars"]["known"] == "1.5"
    dollars = [row["dollars"] for row in stats["bought"]]
    assert dollars == ["0.5", "1", "1.5"]
