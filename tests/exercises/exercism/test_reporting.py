"""Result files, records, what columns come to, and the commands."""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from io import StringIO
from pathlib import Path

import pytest
import yaml
from pydantic import ValidationError

from core.errors import DamagedFileError, UserError
from exercises.exercism.records import read_columns, read_records, wrong_ratios
from exercises.exercism.report import report_lines
from exercises.exercism.results import (
    ExerciseResult,
    TryResult,
    read_result,
)
from runs.records import InstanceStatus
from tests.support.exercism import main, result, write_result, write_run

KEYS = [f"python/e{number}" for number in range(4)]
YES = (True,)
LATER = (False, True)
NO = (False, False)
LEADERBOARD = re.findall(
    r"\w+",
    """\
dirname test_cases model edit_format commit_hash pass_rate_1 pass_rate_2 pass_num_1
pass_num_2 percent_cases_well_formed error_outputs num_malformed_responses
num_with_malformed_responses user_asks lazy_comments syntax_errors indentation_errors
exhausted_context_windows prompt_tokens completion_tokens test_timeouts total_tests command
date versions seconds_per_case total_cost""",
)


def column(
    outcomes: Sequence[tuple[bool, ...]], **values: object
) -> list[ExerciseResult]:
    return [result(key, one, **values) for key, one in zip(KEYS, outcomes, strict=True)]  # type: ignore[arg-type]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Two columns: 2 and 3 of 4 in the first, 1 and 1 in the second."""
    first = column([YES, YES, LATER, NO], num_malformed_responses=1, prompt_tokens=1000)
    second = column([NO, YES, NO, NO], edit_format="whole")
    return write_run(
        tmp_path / "predictions" / "r", [*first, *second], started="2026-01-02"
    )


def test_a_result_is_read_as_it_was_written(tmp_path: Path) -> None:
    one = result(
        "rust/a",
        LATER,
        model="openai/o1",
        repeat=3,
        chat_hashes=(("a", "b"),),
        tries=(
            TryResult(solved=False, output="x", tests_passed=1),
            TryResult(solved=True),
        ),
    )
    path = write_result(tmp_path, one)
    assert path == tmp_path / "results/openai_o1.diff.3/rust/a.json"
    assert read_result(path) == one
    told = json.loads(path.read_text())
    assert told["cost"] == 0.25 and told["extra"]["status"] == "solved"
    assert told["chat_hashes"] == [["a", "b"]]
    first = (
        "testdir testcase model edit_format tests_outcomes cost duration test_timeouts"
    )
    assert [*told][:8] == first.split()


@pytest.mark.parametrize(
    "change",
    [
        {"tests_outcomes": [False]},
        {"tests_outcomes": [True, True]},
        {"cost": -1},
        {"prompt_tokens": "x"},
        {"extra": {"status": "won"}},
        {"testcase": "b"},
        {"model": None},
    ],
)
def test_a_broken_result_is_named(tmp_path: Path, change: dict[str, object]) -> None:
    path = write_result(tmp_path, result("python/a"))
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(DamagedFileError, match=r"a\.json"):
        read_result(path)
    path.write_text("{")
    with pytest.raises(DamagedFileError, match="broken"):
        read_result(path)


def test_a_column_in_numbers(run: Path) -> None:
    first, second = (column.record for column in read_columns([run], print))
    assert (first["pass_num_1"], first["pass_num_2"], first["test_cases"]) == (2, 3, 4)
    assert (second["pass_num_1"], second["pass_num_2"]) == (1, 1)
    assert first["total_cost"] == 1.0
    assert first["cost_per_solved"] == 0.3333
    assert (first["seconds_per_case"], first["prompt_tokens"]) == (10, 4000)
    assert first["percent_cases_well_formed"] == 0
    assert second["percent_cases_well_formed"] == 100


def test_a_record_has_the_keys_of_the_leaderboard_in_its_order(
    run: Path,
) -> None:
    assert main(["report", str(run), "--set", "report.page=false"]) == 0
    record, _ = read_records(run / "record.yml")
    assert [*record][: len(LEADERBOARD)] == LEADERBOARD
    assert (record["pass_rate_1"], record["pass_num_2"]) == (50.0, 3)
    assert (record["total_cost"], record["seconds_per_case"]) == (1.0, 10.0)
    assert record["solved_of_total"] == "3 of 4" and record["pass_interval_2"] == [
        30.1,
        95.4,
    ]
    assert record["cost_per_solved"] == 0.3333
    text = (run / "record.yml").read_text()
    assert yaml.safe_load(text)[0] == record and "\n\n- dirname" in text
    assert not [*wrong_ratios(record)]


def test_what_is_not_completed_is_said(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for key in KEYS[:2]:
        (run / "results/gpt-4o.diff.1" / f"{key}.json").unlink()
    assert main(["report", str(run)]) == 1
    shown = capsys.readouterr()
    assert "2 of 4" in shown.out and "not completed: 2 exercises" in shown.err
    assert main(["report", str(run), "--set", "report.allow_partial=true"]) == 0
    record = yaml.safe_load((run / "record.yml").read_text())[0]
    assert (record["test_cases"], record["total_tests"]) == (2, 4)
    assert record["not_completed"] == KEYS[:2] and record["pass_rate_2"] == 50.0
    broken = run / "results/gpt-4o.diff.1" / f"{KEYS[2]}.json"
    broken.write_text("{")
    assert main(["report", str(run)]) == 2
    assert "report.allow_partial=true" in capsys.readouterr().err
    assert main(["report", str(run), "--set", "report.allow_partial=true"]) == 0


def test_pairs_ranking_and_repeats(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a = column([YES, YES, LATER, NO], repeat=1) + column([YES, NO, NO, NO], repeat=2)
    b = column([NO, NO, NO, YES], edit_format="whole")
    run = write_run(tmp_path / "r", [*a, *b])
    assert main(["report", str(run), "--format", "json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [record["label"] for record in report["columns"]] == [
        "gpt-4o@diff #1",
        "gpt-4o@diff #2",
        "gpt-4o@whole",
    ]
    (pair,) = report["pairs"]
    assert (pair["only A"], pair["only B"], pair["McNemar p"]) == (3, 1, 0.625)
    assert pair["B less A"] == -0.5 and pair["95 % interval"]["low"] <= -0.5
    assert [list(row.values())[1:] for row in report["repeats"]] == [
        [1, 2, 0.375, 0.25, 0.5],
        [2, 2, 0.5, 0.25, 0.75],
    ]
    ranked = [row["exercise"] for row in report["ranking"]]
    assert ranked == [KEYS[1], KEYS[2], KEYS[3], KEYS[0]]
    assert main(["report", str(run)]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "gpt-4o@diff #1, gpt-4o@whole 3 1 -50.0 -100.0 to +50.0 0.625" in text
    assert "gpt-4o@diff 2 2 50.0 % 25.0 % 75.0 %" in text


def test_the_report_as_csv_and_json(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(run), "--format", "csv"]) == 0
    rows = [*csv.reader(StringIO(capsys.readouterr().out))]
    assert rows[0] == ["exercise", "gpt-4o@diff", "gpt-4o@whole"]
    assert rows[3] == [KEYS[2], "solved 2", "failed"]
    assert main(["report", str(run), "--format", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (
        told["columns"][0]["pass_num_2"] == 3
        and told["columns"][0]["total_cost"] == 1.0
    )


def test_published_rows_stand_beside_ours(
    run: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = tmp_path / "rows.yml"
    rows.write_text(
        "- {model: opus, edit_format: diff, test_cases: 133, pass_rate_1: 53.4, pass_rate_2: 68.4,"
        " total_cost: 13.8395, seconds_per_case: 32.4, date: 2024-05-01}\n- {model: bare}\n"
    )
    chart = tmp_path / "c.svg"
    assert (
        main(["report", str(run), "--published", str(rows), "--chart", str(chart)]) == 0
    )
    out = capsys.readouterr().out
    assert (
        re.search(r"opus@diff\*\s+133\s+53.4 %\s+–\s+68.4 %", out) and "bare@–*" in out
    )
    assert "68%*" in chart.read_text() and (tmp_path / "c-dark.svg").exists()
    # Seconds of both are of an exercise.
    assert re.search(r"gpt-4o@diff .* 10.0 ", out) and re.search(
        r"opus@diff\* .* 32.4 ", out
    )
    assert main(["report", str(run), "--published", str(rows), "--format", "json"]) == 0


def test_wrong_ratios_of_published_rows_are_named(
    run: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = tmp_path / "rows.yml"
    rows.write_text(
        "- {dirname: first, model: m, test_cases: 225, pass_num_2: 72, pass_rate_2: 32.0}\n"
        "- {dirname: second, model: m, test_cases: 224, total_tests: 225, pass_num_2: 72,"
        " pass_rate_2: 32.0}\n"
        "- {model: n, test_cases: 88, pass_rate_1: 34.0}\n"
    )
    assert (
        main(
            ["report", str(run), "--published", str(rows), "--set", "report.page=false"]
        )
        == 0
    )
    assert capsys.readouterr().err.splitlines() == [
        "wrong ratio    second: pass_rate_2 is 32.0, but 72 of 224 is 32.1; of all 225 it is 32.0",
        "wrong ratio    n: pass_rate_1 is 34.0, but no whole number of 88 cases gives it",
    ]


def test_rows_are_chosen(
    run: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = tmp_path / "rows.yml"
    rows.write_text(
        "".join(
            f"- {{model: {m}, edit_format: diff, pass_rate_2: 9}}\n"
            for m in ("opus", "GPT-4")
        )
    )
    chart = tmp_path / "c.svg"
    asked = ["report", str(run), "--published", str(rows), "--chart", str(chart)]
    assert main([*asked, "--set", "report.only=gpt-4*@diff"]) == 0
    shown = (
        capsys.readouterr().out
        + chart.read_text()
        + (run / "report/report.html").read_text()
    )
    assert "gpt-4o@diff" in shown and "GPT-4@diff*" in shown and ">GPT-4<" in shown
    assert "opus" not in shown and "gpt-4o@whole" not in shown
    assert len(yaml.safe_load((run / "record.yml").read_text())) == 2
    assert main([*asked, "--set", "report.only=opus*"]) == 2
    assert "report.only opus*: no column of the runs fits" in capsys.readouterr().err


def test_the_page_has_matrix_filters_and_transcripts(run: Path, tmp_path: Path) -> None:
    hostile = column([YES] * 4, model="<script>alert(1)</script>")
    other = write_run(tmp_path / "predictions" / "s", hostile)
    transcript = run / "results/gpt-4o.diff.1" / f"{KEYS[2]}.md"
    transcript.write_text("# Transcript\n")
    assert main(["report", str(run), str(other)]) == 0
    page = (run / "report" / "report.html").read_text()
    assert "<script>alert" not in page and page.count('<tr role="row" data-id=') == 4
    link = '<a class="good" href="../results/gpt-4o.diff.1/python/e2.md">solved 2</a>'
    assert page.count("href=") == 2 + 1 and link in page
    assert (
        'data-id="python/e3" data-language="python" data-agreement="some columns"'
        in page
    )
    assert '<option value="every column">' in page and "svg+xml;base64," in page
    assert (run / "report" / "figures" / "exercises.svg").exists()


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_leaves_costs_no_file(
    run: Path, tmp_path: Path, unbuffered: str
) -> None:
    others = tmp_path / "o.yml"  # more than a buffer holds
    others.write_text(
        "".join(f"- {{model: m{n}, edit_format: diff}}\n" for n in range(200))
    )
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "exercises.exercism",
            "report",
            run,
            "--published",
            others,
        ],
        env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
        stdout=writing,
        check=False,
        text=True,
        stderr=subprocess.PIPE,
    )
    os.close(writing)
    assert done.returncode == 0 and "Broken pipe" not in done.stderr
    assert (run / "report" / "report.html").is_file()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "no command ''"),
        (["fly"], "no command 'fly'"),
        (["report"], "needs a run"),
        (["report", "gone"], "there is no run"),
        (["report", "gone", "--published", "gone.yml"], "cannot be read"),
        (["report", "gone", "--format", "xml"], "'xml' is not one of 'text', 'json',"),
    ],
)
def test_a_wrong_command_is_one_line(
    words: list[str],
    said: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(words) == 2
    shown = capsys.readouterr().err
    assert said in shown and shown.count("\n") == 1


def test_a_run_of_another_benchmark_is_named(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text("{}")
    with pytest.raises(UserError, match=r"report\.py"):
        read_columns([tmp_path], print)
    (tmp_path / "run.json").write_text('{"exercism": {"columns": 1, "exercises": []}}')
    with pytest.raises(DamagedFileError, match=r"run\.json"):
        read_columns([tmp_path], print)


@pytest.mark.parametrize("width", [80, 120, 200])
def test_tables_break_between_columns_alone(run: Path, width: int) -> None:
    columns = read_columns([run], print)
    published = [{"model": "m" * 20, "pass_rate_2": 50.5}]
    unbroken = [*report_lines(columns, published)]
    whole = " ".join(unbroken).split()
    lines = [*report_lines(columns, published, width)]
    assert max(map(len, lines)) <= width < max(map(len, unbroken)) or width == 200
    assert {*" ".join(lines).split()} == {*whole}  # no word and no number is cut
    assert (
        sum("gpt-4o@whole " in line for line in lines) >= {80: 4, 120: 3, 200: 2}[width]
    )


AIDER = {"testdir": "d", "model": "o1", "edit_format": "diff", "reasoning_effort": None}


def aider_run(run: Path, place: str) -> Path:
    """Write a run as aider's benchmark leaves it: solved, solved later, failed, crashed, left."""
    written: list[dict[str, object]] = [
        {
            "tests_outcomes": [True],
            "cost": 0.5,
            "duration": 10.0,
            "chat_hashes": [["a", "b"]],
        },
        {
            "tests_outcomes": [False, True],
            "cost": 0.25,
            "duration": 20.0,
            "num_user_asks": 2,
        },
        {
            "tests_outcomes": [False, False],
            "num_malformed_responses": 3,
            "duration": 30.5,
        },
        {"exception": "Traceback"},
    ]
    for number in range(5):
        folder = run / place / f"e{number}"
        (folder / ".docs").mkdir(parents=True)
        if number < len(written):
            data = AIDER | {"testcase": folder.name} | written[number]
            data = data if "exception" not in data else written[number]
            (folder / ".aider.results.json").write_text(json.dumps(data))
            (folder / ".aider.chat.history.md").write_text("# aider chat\n")
    return run


@pytest.mark.parametrize("place", ["python/exercises/practice", "."])
def test_folders_of_aiders_benchmark_are_read(
    tmp_path: Path,
    place: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = aider_run(tmp_path / "2025-01-02-03-04-05--try", place)
    (column,) = read_columns([run], print)
    assert column.label == "o1@diff" and column.open == ["python/e3", "python/e4"]
    record = column.record
    assert [*record][: len(LEADERBOARD)] == LEADERBOARD and not [*wrong_ratios(record)]
    # What aider's own summary prints of the same folder without the crash.
    wanted = {
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
    assert {key: record[key] for key in wanted} == wanted
    other = write_run(tmp_path / "r", [result("python/e0", model="o1")])
    assert (
        main(["report", str(run), str(other), "--set", "report.allow_partial=true"])
        == 0
    )
    page = (run / "report" / "report.html").read_text()
    assert page.count("chat.history.md") == 4 and (run / "record.yml").is_file()
    assert main(["report", str(run)]) == 1  # what was written is no exercise
    assert "3 of 5" in capsys.readouterr().out
    (run / place / "e0" / ".aider.results.json").write_text('{"tests_outcomes": 1}')
    assert main(["report", str(run)]) == 2
    assert ".aider.results.json is not a result" in capsys.readouterr().err


def test_a_folder_of_neither_kind_is_told_what_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert ".aider.results.json" in said and "report.py" not in said


def test_a_status_that_is_no_result_is_an_error() -> None:
    with pytest.raises(ValidationError, match="is not the status of a result"):
        result("python/a", status=InstanceStatus.INFRA_ERROR)
