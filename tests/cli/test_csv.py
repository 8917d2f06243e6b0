"""``report.py RUN --format csv``: rows for spreadsheets and programs."""

from __future__ import annotations

import csv
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest

from swe_retry.report.evaluation.evaluation_settings import EvaluatorKind
from swe_retry.report.report import report_command
from swe_retry.results.rows import (
    AttemptRecord,
    CallRecord,
    InstanceRecord,
    RunRecords,
    csv_text,
)
from tests.support import TOP
from tests.support.evaluated import report_settings

OLD = TOP / "tests/data/run-0.12/predictions/demo"
INSTANCE = InstanceRecord(run="r", instance_id="a__b-1")
CALL = CallRecord(
    run="r",
    instance_id="a__b-1",
    attempt=-1,
    model="m",
    kind="answered",
    prompt_tokens=3,
    completion_tokens=None,
    cached_tokens=None,
    cost_usd=-0.5,
    cost_at_most_usd=None,
    error=None,
)


def records(
    *instances: InstanceRecord,
    attempts: tuple[AttemptRecord, ...] = (),
    calls: tuple[CallRecord, ...] = (),
) -> RunRecords:
    return RunRecords("r", Path(), (), instances, attempts, calls)


def reason_in_csv(reason: str) -> str:
    """Return the cell of a reason, as programs read it."""
    text = csv_text(records(replace(INSTANCE, reason=reason)), "instances")
    (row,) = csv.DictReader(StringIO(text, newline=""))
    return row["reason"]


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r\n", "\n", "＝", "＠"])
def test_a_formula_is_a_text(start: str) -> None:
    assert reason_in_csv(f"{start}1+cmd|' /C calc'!A0").startswith(f"'{start}")


@pytest.mark.parametrize(
    "text", ["", "a=1", " =1", "'=1", 'a "b", c', "two\nlines", "a\r\nb", "ü—…"]
)
def test_another_text_is_as_it_is(text: str) -> None:
    assert reason_in_csv(text) == text


def test_escape_sequences_do_not_reach_the_terminal() -> None:
    assert reason_in_csv("\x1b[31m=1\udcff") == "'=1\\udcff"


def test_a_number_stays_a_number() -> None:
    text = csv_text(records(calls=(CALL,)), "calls", headed=False)
    assert text == '"r","a__b-1",-1,"m","answered",3,"","",-0.5,"",""\n'


def test_no_rows_are_a_head_alone() -> None:
    head, rest = csv_text(records(), "attempts").split("\n", 1)
    assert head.startswith('"run","instance_id","attempt"')
    assert rest == ""
    assert csv_text(records(), "attempts", headed=False) == ""


def test_several_runs_have_one_head(tmp_path: Path) -> None:
    folders = []
    for name in ("one", "two"):
        folder = tmp_path / "predictions" / name
        folder.mkdir(parents=True)
        for path in OLD.glob("demo__*-1.json"):
            (folder / path.name).write_bytes(path.read_bytes())
        folders.append(folder)
    settings = report_settings(tmp_path / "cache", EvaluatorKind.NONE, page=False)
    lines: list[str] = []
    aside: list[str] = []
    report_command(folders, settings, aside.append, lines.append, "csv", "attempts")
    rows = list(csv.DictReader("\n".join(lines).splitlines()))
    half = len(rows) // 2
    assert [row.pop("run") for row in rows] == ["one"] * half + ["two"] * half
    assert rows[:half] == rows[half:]
