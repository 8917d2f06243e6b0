"""``stats.json`` is valid under its schema in docs/."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator, ValidationError

from reports.data.rundata import read_run
from reports.statistics.collect import collect
from reports.statistics.denominators import DatasetSplit
from reports.statsfile import stats_json, stats_schema
from runs.storage.store import RunStore
from tests.support.rundata import (
    a_run,
    an_attempt,
    an_instance,
    old_prediction,
    write_run,
)

SCHEMA = Path(__file__).resolve().parents[3] / "docs" / "stats.schema.json"


def test_the_schema_in_the_docs_is_the_codes_own() -> None:
    """Written by ``python -m reports.statsfile``."""
    assert json.loads(SCHEMA.read_text()) == stats_schema()


def test_statistics_fit_the_schema(tmp_path: Path) -> None:
    Draft202012Validator.check_schema(stats_schema())
    validator = Draft202012Validator(json.loads(SCHEMA.read_text()))
    folder = write_run(tmp_path / "r", [old_prediction("a__a-1", 3, resolved=True)])
    sampled = an_instance(attempts=(an_attempt(1, cost=None), an_attempt(2)), cost=None)
    for run in (read_run(RunStore.of_folder(folder)), a_run(sampled), a_run()):
        written = json.loads(
            json.dumps(stats_json(collect(run, DatasetSplit("lite", 300))))
        )
        validator.validate(written)
        for spoil in (("counts", "resolved", "3"), ("effort", "dollars", 1.5)):
            spoiled = copy.deepcopy(written)
            spoiled[spoil[0]][spoil[1]] = spoil[2]
            with pytest.raises(ValidationError):
                validator.validate(spoiled)


def test_dollars_are_exact_texts(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "r", [old_prediction("a__a-1", 3, resolved=True)])
    stats = stats_json(
        collect(read_run(RunStore.of_folder(folder)), DatasetSplit("", None))
    )
    assert stats["effort"]["dollars"]["known"] == "1.5"
    assert [row["dollars"] for row in stats["bought"]] == ["0.5", "1", "1.5"]
