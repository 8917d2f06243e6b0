"""Result files, records, what columns come to, and the commands."""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from exercises.tests.commands import EXERCISM
from exercises.tests.support.exercism import result, write_result, write_run
from swe_retry.core.errors import DamagedFileError, UserError
from swe_retry.record.result import InstanceStatus
from swe_retry_exercises.exercism.records import (
    read_columns,
    read_records,
    wrong_ratios,
)
from swe_retry_exercises.exercism.report import report_lines
from swe_retry_exercises.exercism.results import (
    ExerciseResult,
    TryResult,
    read_result,
)
from tests.support import WITH_EXERCISES

KEYS = [f"python/e{number}" for number in range(4)]
NO_PAGE = "--set report.page=false"
YES = (True,)
LATER = (False, True)
NO = (False, False)
LEADERBOARD = """
dirname test_cases model edit_format commit_hash pass_rate_1 pass_rate_2 pass_num_1
pass_num_2 percent_cases_well_formed error_outputs num_malformed_responses
num_with_malformed_responses user_asks lazy_comments syntax_errors indentation_errors
exhausted_context_windows prompt_tokens completion_tokens test_timeouts total_tests command
date versions seconds_per_case total_cost
"""


def column(*outcomes: tuple[bool, ...], **values: Any) -> list[ExerciseResult]:
    """Return the results of exercises with these outcomes of tries."""
    results = []
    for key, tries in zip(KEYS, outcomes, strict=True):
        results.append(result(key, tries, **values))
    return results


def report(options: str) -> str:
    return EXERCISM.output(f"report {options}")


def check_keys(record: Mapping[str, object]) -> None:
    expected = LEADERBOARD.split()
    assert list(record)[: len(expected)] == expected


def records_of(run: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load((run / "record.yml").read_text()))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Two columns: 2 and 3 of 4 in the first, 1 and 1 in the second."""
    first = column(
        YES,
        YES,
        LATER,
        NO,
        num_malformed_responses=1,
        prompt_tokens=1000,
    )
    second = column(NO, YES, NO, NO, edit_format="whole")
    folder = tmp_path / "predictions" / "r"
    return write_run(folder, first + second, started="2026-01-02")


def test_a_result_is_read_as_it_was_written(tmp_path: Path) -> None:
    failed = TryResult(solved=False, output="x", tests_passed=1)
    written = result(
        "rust/a",
        LATER,
        model="openai/o1",
        repeat=3,
        chat_hashes=(("a", "b"),),
        tries=(failed, TryResult(solved=True)),
    )
    path = write_result(tmp_path, written)
    assert path == tmp_path / "results/openai_o1.diff.3/rust/a.json"
    assert read_result(path) == written
    content = json.loads(path.read_text())
    assert content["cost"] == 0.25
    assert content["extra"]["status"] == "solved"
    assert content["chat_hashes"] == [["a", "b"]]
    first = (
        "testdir testcase model edit_format tests_outcomes cost duration test_timeouts"
    )
    assert list(content)[:8] == first.split()


def test_a_broken_result_is_named(tmp_path: Path) -> None:
    path = write_result(tmp_path, result("python/a"))
    content = json.loads(path.read_text())
    changes: list[dict[str, object]] = [
        {"cost": -1},
        {"prompt_tokens": "x"},
        {"extra": {"status": "won"}},
        {"testcase": "b"},
        {"model": None},
        {"tests_outcomes": [False]},
        {"tests_outcomes": [True, True]},
    ]
    for change in changes:
        path.write_text(json.dumps(content | change))
        with pytest.raises(DamagedFileError, match=r"a\.json"):
            read_result(path)
    path.write_text("{")
    with pytest.raises(DamagedFileError, match="broken"):
        read_result(path)


def test_a_column_in_numbers(run: Path) -> None:
    columns = read_columns([run], print)
    first, second = [column.record for column in columns]
    expected = {
        "pass_num_1": 2,
        "pass_num_2": 3,
        "test_cases": 4,
        "total_cost": 1.0,
        "cost_per_solved": 0.3333,
        "seconds_per_case": 10,
        "prompt_tokens": 4000,
        "percent_cases_well_formed": 0,
    }
    assert {key: first[key] for key in expected} == expected
    assert second["pass_num_1"] == 1
    assert second["pass_num_2"] == 1
    assert second["percent_cases_well_formed"] == 100


def test_a_record_has_the_keys_of_the_leaderboard_in_its_order(
    run: Path,
) -> None:
    report(f"{run} --set report.page=false")
    record, _ = read_records(run / "record.yml")
    check_keys(record)
    expected = {
        "pass_rate_1": 50.0,
        "pass_num_2": 3,
        "total_cost": 1.0,
        "seconds_per_case": 10.0,
        "solved_of_total": "3 of 4",
        "pass_interval_2": [30.1, 95.4],
        "cost_per_solved": 0.3333,
    }
    assert {key: record[key] for key in expected} == expected
    assert records_of(run)[0] == record
    assert "\n\n- dirname" in (run / "record.yml").read_text()
    assert not list(wrong_ratios(record))


def test_what_is_not_completed_is_said(run: Path) -> None:
    folder = run / "results/gpt-4o.diff.1"
    for key in KEYS[:2]:
        (folder / f"{key}.json").unlink()
    ended = EXERCISM.run(f"report {run} {NO_PAGE}")
    assert ended.code == 1
    assert "2 of 4" in ended.out
    assert "not completed: 2 exercises" in ended.err
    report(f"{run} --set report.allow_partial=true {NO_PAGE}")
    record, *_ = records_of(run)
    assert record["test_cases"] == 2
    assert record["total_tests"] == 4
    assert record["not_completed"] == KEYS[:2]
    assert record["pass_rate_2"] == 50.0
    (folder / f"{KEYS[2]}.json").write_text("{")
    assert "report.allow_partial=true" in EXERCISM.refusal(f"report {run}")
    report(f"{run} --set report.allow_partial=true {NO_PAGE}")


def test_pairs_ranking_and_repeats(tmp_path: Path) -> None:
    results = column(YES, YES, LATER, NO, repeat=1)
    results += column(YES, NO, NO, NO, repeat=2)
    results += column(NO, NO, NO, YES, edit_format="whole")
    run = write_run(tmp_path / "r", results)
    content = json.loads(report(f"{run} --format json {NO_PAGE}"))
    labels = [record["label"] for record in content["columns"]]
    assert labels == ["gpt-4o@diff #1", "gpt-4o@diff #2", "gpt-4o@whole"]
    [pair] = content["pairs"]
    assert pair["only A"] == 3
    assert pair["only B"] == 1
    assert pair["McNemar p"] == 0.625
    assert pair["B less A"] == -0.5
    assert pair["95 % interval"]["low"] <= -0.5
    shares = []
    for row in content["repeats"]:
        _, *values = row.values()
        shares.append(values)
    assert shares == [
        [1, 2, 0.375, 0.25, 0.5],
        [2, 2, 0.5, 0.25, 0.75],
    ]
    ranking = [row["exercise"] for row in content["ranking"]]
    assert ranking == [KEYS[1], KEYS[2], KEYS[3], KEYS[0]]
    text = " ".join(report(f"{run} {NO_PAGE}").split())
    assert "gpt-4o@diff #1, gpt-4o@whole 3 1 -50.0 -90.9 to +39.9 0.625" in text
    assert "gpt-4o@diff 2 2 50.0 % 25.0 % 75.0 %" in text


def test_the_report_as_csv_and_json(run: Path) -> None:
    table = StringIO(report(f"{run} --format csv {NO_PAGE}"))
    rows = list(csv.reader(table))
    assert rows[0] == ["exercise", "gpt-4o@diff", "gpt-4o@whole"]
    assert rows[3] == [KEYS[2], "solved 2", "failed"]
    content = json.loads(report(f"{run} --format json {NO_PAGE}"))
    first = content["columns"][0]
    assert first["pass_num_2"] == 3
    assert first["total_cost"] == 1.0


def test_published_rows_stand_beside_ours(run: Path, tmp_path: Path) -> None:
    rows = tmp_path / "rows.yml"
    rows.write_text(
        "- {model: opus, edit_format: diff, test_cases: 133, pass_rate_1: 53.4, pass_rate_2: 68.4,"
        " total_cost: 13.8395, seconds_per_case: 32.4, date: 2024-05-01}\n- {model: bare}\n"
    )
    chart = tmp_path / "c.svg"
    out = report(f"{run} --published {rows} --chart {chart} {NO_PAGE}")
    assert re.search(r"opus@diff\*\s+133\s+53.4 %\s+–\s+68.4 %", out)
    assert "bare@–*" in out
    assert "68 %*" in chart.read_text()
    assert (tmp_path / "c-dark.svg").exists()
    # Seconds of both are of an exercise.
    assert re.search(r"gpt-4o@diff .* 10.0 ", out)
    assert re.search(r"opus@diff\* .* 32.4 ", out)
    report(f"{run} --published {rows} --format json {NO_PAGE}")


def test_wrong_ratios_of_published_rows_are_named(run: Path, tmp_path: Path) -> None:
    rows = tmp_path / "rows.yml"
    rows.write_text(
        "- {dirname: first, model: m, test_cases: 225, pass_num_2: 72, pass_rate_2: 32.0}\n"
        "- {dirname: second, model: m, test_cases: 224, total_tests: 225, pass_num_2: 72,"
        " pass_rate_2: 32.0}\n"
        "- {model: n, test_cases: 88, pass_rate_1: 34.0}\n"
    )
    ended = EXERCISM.run(f"report {run} --published {rows} --set report.page=false")
    assert ended.code == 0
    assert ended.err.splitlines() == [
        "wrong ratio    second: pass_rate_2 is 32.0, but 72 of 224 is 32.1; of all 225 it is 32.0",
        "wrong ratio    n: pass_rate_1 is 34.0, but no whole number of 88 cases gives it",
    ]


def test_rows_are_chosen(run: Path, tmp_path: Path) -> None:
    rows = tmp_path / "rows.yml"
    rows.write_text(
        "- {model: opus, edit_format: diff, pass_rate_2: 9}\n"
        "- {model: GPT-4, edit_format: diff, pass_rate_2: 9}\n"
    )
    chart = tmp_path / "c.svg"
    options = f"{run} --published {rows} --chart {chart} --set"
    out = report(f"{options} report.only=gpt-4*@diff")
    page = (run / "report/report.html").read_text()
    outputs = f"{out}{chart.read_text()}{page}"
    for name in ("gpt-4o@diff", "GPT-4@diff*", ">GPT-4<"):
        assert name in outputs
    assert "opus" not in outputs
    assert "gpt-4o@whole" not in outputs
    assert len(records_of(run)) == 2
    error = EXERCISM.refusal(f"report {options} report.only=opus*")
    assert "report.only opus*: no column of the runs fits" in error


def test_the_page_has_matrix_filters_and_transcripts(run: Path, tmp_path: Path) -> None:
    hostile = column(*[YES] * 4, model="<script>alert(1)</script>")
    other = write_run(tmp_path / "predictions" / "s", hostile)
    transcript = run / "results/gpt-4o.diff.1" / f"{KEYS[2]}.md"
    transcript.write_text("# Transcript\n")
    report(f"{run} {other}")
    page = (run / "report" / "report.html").read_text()
    assert "<script>alert" not in page
    assert page.count('<tr role="row" data-id=') == 4
    assert page.count("href=") == 2 + 1
    for part in (
        '<a class="good" href="../results/gpt-4o.diff.1/python/e2.md">solved 2</a>',
        'data-id="python/e3" data-language="python" data-agreement="some columns"',
        '<option value="every column">',
        "svg+xml;base64,",
    ):
        assert part in page
    assert (run / "report" / "figures" / "exercises.svg").exists()


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_leaves_costs_no_file(
    run: Path,
    tmp_path: Path,
    unbuffered: str,
) -> None:
    others = tmp_path / "o.yml"
    rows = [f"- {{model: m{n}, edit_format: diff}}\n" for n in range(200)]
    others.write_text("".join(rows))  # more than a buffer holds
    reading, writing = os.pipe()
    os.close(reading)
    line = f"-m swe_retry_exercises.exercism report {run} --published {others}"
    ended = subprocess.run(
        [sys.executable, *line.split()],
        env={**os.environ, **WITH_EXERCISES, "PYTHONUNBUFFERED": unbuffered},
        stdout=writing,
        check=False,
        text=True,
        stderr=subprocess.PIPE,
    )
    os.close(writing)
    assert ended.returncode == 0
    assert "Broken pipe" not in ended.stderr
    assert (run / "report" / "report.html").is_file()


def test_a_wrong_command_is_one_line() -> None:
    for line, problem in {
        "": "no command ''",
        "fly": "no command 'fly'",
        "report": "needs a run",
        "report gone": "there is no run",
        "report gone --published gone.yml": "cannot be read",
        "report gone --format xml": "'xml' is not one of 'text', 'json',",
    }.items():
        assert problem in EXERCISM.refusal(line)


def test_a_run_of_another_benchmark_is_named(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text("{}")
    with pytest.raises(UserError, match=r"report\.py"):
        read_columns([tmp_path], print)
    (tmp_path / "run.json").write_text('{"exercism": {"columns": 1, "exercises": []}}')
    with pytest.raises(DamagedFileError, match=r"run\.json"):
        read_columns([tmp_path], print)


def test_tables_break_between_columns_alone(run: Path) -> None:
    columns = read_columns([run], print)
    published = [{"model": "m" * 20, "pass_rate_2": 50.5}]
    unbroken = list(report_lines(columns, published))
    full_width = max(map(len, unbroken))
    for width, blocks in {80: 4, 120: 3, 200: 2}.items():
        lines = list(report_lines(columns, published, width))
        assert max(map(len, lines)) <= width
        assert full_width > width or width == 200
        # No word and no number is cut.
        assert cells_of(lines) == cells_of(unbroken)
        whole_lines = [line for line in lines if "gpt-4o@whole " in line]
        assert len(whole_lines) >= blocks


def cells_of(lines: list[str]) -> set[str]:
    return set(" ".join(lines).split())


AIDER = {
    "testdir": "d",
    "model": "o1",
    "edit_format": "diff",
    "reasoning_effort": None,
}


def aider_run(run: Path, subfolder: str) -> Path:
    """Write a run as aider's benchmark leaves it: solved, solved later, failed, crashed, left."""
    solved = {
        "testcase": "e0",
        "tests_outcomes": [True],
        "cost": 0.5,
        "duration": 10.0,
        "chat_hashes": [["a", "b"]],
    }
    later = {
        "testcase": "e1",
        "tests_outcomes": [False, True],
        "cost": 0.25,
        "duration": 20.0,
        "num_user_asks": 2,
    }
    failed = {
        "testcase": "e2",
        "tests_outcomes": [False, False],
        "duration": 30.5,
        "num_malformed_responses": 3,
    }
    contents: list[dict[str, object]] = [
        AIDER | solved,
        AIDER | later,
        AIDER | failed,
        {"exception": "Traceback"},
    ]
    for number in range(5):
        (run / subfolder / f"e{number}" / ".docs").mkdir(parents=True)
    for number, content in enumerate(contents):
        folder = run / subfolder / f"e{number}"
        (folder / ".aider.results.json").write_text(json.dumps(content))
        (folder / ".aider.chat.history.md").write_text("# aider chat\n")
    return run


@pytest.mark.parametrize("subfolder", ["python/exercises/practice", "."])
def test_folders_of_aiders_benchmark_are_read(tmp_path: Path, subfolder: str) -> None:
    run = aider_run(tmp_path / "2025-01-02-03-04-05--try", subfolder)
    [column] = read_columns([run], print)
    assert column.label == "o1@diff"
    assert column.open == ["python/e3", "python/e4"]
    record = column.record
    check_keys(record)
    assert not list(wrong_ratios(record))
    # What aider's own summary prints of the same folder without the crash.
    expected = {
        "test_cases": 3,
        "pass_rate_1": 33.3,
        "pass_rate_2": 66.7,
        "pass_num_1": 1,
        "pass_num_2": 2,
        "percent_cases_well_formed": 66.7,
        "user_asks": 2,
        "total_tests": 5,
        "num_malformed_responses": 3,
        "seconds_per_case": 20.2,
        "date": "2025-01-02",
    }
    assert {key: record[key] for key in expected} == expected
    other = write_run(tmp_path / "r", [result("python/e0", model="o1")])
    report(f"{run} {other} --set report.allow_partial=true")
    page = (run / "report" / "report.html").read_text()
    assert page.count("chat.history.md") == 4
    assert (run / "record.yml").is_file()
    ended = EXERCISM.run(f"report {run} {NO_PAGE}")
    assert ended.code == 1  # what was written is no exercise
    assert "3 of 5" in ended.out
    (run / subfolder / "e0" / ".aider.results.json").write_text('{"tests_outcomes": 1}')
    error = EXERCISM.refusal(f"report {run}")
    assert ".aider.results.json is not a result" in error


def test_a_folder_of_neither_kind_is_told_what_is_missing(tmp_path: Path) -> None:
    error = EXERCISM.refusal(f"report {tmp_path}")
    assert ".aider.results.json" in error
    assert "report.py" not in error


def test_a_status_that_is_no_result_is_an_error() -> None:
    with pytest.raises(ValidationError, match="is not the status of a result"):
        result("python/a", status=InstanceStatus.INFRA_ERROR)
