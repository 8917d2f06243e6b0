"""What each command writes: rows, dropped rows, and reports that form a chain."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import pytest

from exercises.editpack.files import input_record, is_decontaminated
from exercises.editpack.rows import RowReading, line_of
from tests.support import sha256_of
from tests.support.editpack import edit, editpack, read_rows, report_beside, write_rows

Capture = pytest.CaptureFixture[str]
ROW = edit("a = 1\n", "a = 2\n")


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    return write_rows(tmp_path / "rows.jsonl", [ROW, ROW])


def test_the_report_of_a_command(rows: Path, tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "deep" / "out.jsonl"
    assert editpack("format", rows, "--out", out) == 0
    report = report_beside(out)
    assert report.pop("seconds") >= 0
    assert {"harness", "harness_commit", "python"} == {*report.pop("versions")}
    assert report == {
        "command": "format",
        "inputs": [{"name": "rows.jsonl", "sha256": sha256_of(rows)}],
        "output": {"name": "out.jsonl", "sha256": sha256_of(out)},
        "rows": 2,
        "kept": 2,
        "dropped": {},
        "options": {"skip_bad": False},
    }
    assert f"2 rows in {out}, the report beside it" in capsys.readouterr().out
    assert oct(out.stat().st_mode & 0o777) == "0o644"


def test_reports_form_a_chain(rows: Path, tmp_path: Path) -> None:
    first, second, third = (
        tmp_path / f"{name}.jsonl" for name in ("first", "second", "third")
    )
    assert editpack("format", rows, "--out", first) == 0
    assert editpack("format", first, "--out", second) == 0
    [record] = report_beside(second)["inputs"]
    assert (record["sha256"], record["report"]) == (
        sha256_of(first),
        report_beside(first),
    )
    assert record["report"]["inputs"][0]["sha256"] == sha256_of(rows)
    # A report of other bytes is left out.
    first.write_bytes(first.read_bytes() * 2)
    assert editpack("format", first, "--out", third) == 0
    assert report_beside(third)["inputs"] == [
        {"name": "first.jsonl", "sha256": sha256_of(first)}
    ]


@pytest.mark.parametrize("text", ["{", "[]"])
def test_a_damaged_report_is_found_before_anything_is_written(
    text: str, rows: Path, tmp_path: Path, capsys: Capture
) -> None:
    beside = tmp_path / "rows.jsonl.report.json"
    beside.write_text(text)
    assert editpack("format", rows, "--out", tmp_path / "out.jsonl") == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"error: {beside} is broken")
    assert line.endswith("write the rows again, or remove it")
    assert {*tmp_path.iterdir()} == {rows, beside}


@pytest.mark.parametrize(
    "report", [{}, {"output": 3}, {"output": []}, {"output": {"sha256": 1}}]
)
def test_a_report_that_no_command_wrote_is_left_out(report: object, rows: Path) -> None:
    rows.with_name("rows.jsonl.report.json").write_text(json.dumps(report))
    assert input_record(str(rows), RowReading()) == {
        "name": "rows.jsonl",
        "sha256": sha256_of(rows),
    }


def test_equal_rows_give_equal_bytes_also_packed(rows: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        assert editpack("format", rows, "--out", tmp_path / f"{name}.jsonl.gz") == 0
        os.utime(rows, (1, 1))
    packed = (tmp_path / "a.jsonl.gz").read_bytes()
    assert packed == (tmp_path / "b.jsonl.gz").read_bytes()
    assert packed[4:8] == bytes(4)  # no time
    assert editpack("format", rows, "--out", tmp_path / "plain.jsonl") == 0
    assert gzip.decompress(packed) == (tmp_path / "plain.jsonl").read_bytes()


@pytest.mark.parametrize("text", ["\ud800", "漢字 \udfff", "é\u2028\0\x7f"])
def test_any_text_is_written_so_that_it_is_read_again(
    text: str, tmp_path: Path
) -> None:
    row = edit(text, f"{text}{text}", text, **{text: 1})
    rows, out, again = (tmp_path / f"{name}.jsonl" for name in ("rows", "out", "again"))
    write_rows(rows, [row])
    assert editpack("format", rows, "--out", out) == 0
    [read] = read_rows(out)
    assert {key: read[key] for key in row} == row
    assert editpack("format", out, "--out", again) == 0
    assert again.read_bytes() == out.read_bytes()


def test_numbers_that_json_has_not_are_null() -> None:
    assert line_of({"a": [float("nan"), 1.5], "b": {"c": float("inf")}}) == (
        b'{"a": [null, 1.5], "b": {"c": null}}\n'
    )


def test_a_line_holds_what_json_does_not_know_as_text() -> None:
    from datetime import date

    assert (
        line_of({"day": date(2024, 2, 29), "word": "ß"})
        == '{"day": "2024-02-29", "word": "ß"}\n'.encode()
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "no --out given"),
        (("--out", "out.txt"), "give a file .jsonl or .jsonl.gz"),
        (("--out", "rows.jsonl"), "is a file that is read"),
        (("--out", "link.jsonl"), "is a file that is read"),
        (("--out", "out.jsonl", "--dropped", "rows.jsonl"), "is a file that is read"),
        (("--out", "out.jsonl", "--dropped", "out.jsonl"), "is --out; choose another"),
        (("--out", "out.jsonl", "--dropped", "d.json"), "--dropped"),
        (("--out", "folder.jsonl"), "is a folder; choose another"),
        (
            ("--out", "taken.jsonl"),
            "taken.jsonl.report.json is a folder; choose another",
        ),
        (("--out", f"{'x' * 230}.jsonl"), "is too long a name"),
        (("--out", "rows.jsonl/out.jsonl"), "is not a folder; choose another"),
    ],
)
def test_files_that_cannot_be_written_are_one_line(
    words: tuple[str, ...],
    said: str,
    rows: Path,
    tmp_path: Path,
    capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.jsonl").mkdir()
    (tmp_path / "taken.jsonl.report.json").mkdir()
    (tmp_path / "link.jsonl").symlink_to(rows)
    before = {
        path: path.is_file() and path.read_bytes() for path in tmp_path.rglob("*")
    }
    assert editpack("format", rows, *words) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert said in line
    assert {
        path: path.is_file() and path.read_bytes() for path in tmp_path.rglob("*")
    } == before


def test_an_error_leaves_what_was_there(rows: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    dropped = tmp_path / "dropped.jsonl"
    assert editpack("format", rows, "--out", out, "--dropped", dropped) == 0
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    bad = write_rows(tmp_path / "bad.jsonl", [ROW, b"?"])
    assert editpack("format", bad, "--out", out, "--dropped", dropped) == 2
    assert {
        path: path.read_bytes() for path in tmp_path.iterdir() if path != bad
    } == before


@pytest.mark.parametrize(
    ("record", "clean"),
    [
        ({}, False),
        ({"report": {"command": "filter", "inputs": []}}, False),
        ({"report": {"command": "decontaminate"}}, True),
        (
            {
                "report": {
                    "command": "mix",
                    "inputs": [{"report": {"command": "decontaminate"}}],
                }
            },
            True,
        ),
        ({"report": {"inputs": [{"report": {"command": "decontaminate"}}, {}]}}, False),
        ({"report": {"inputs": ["decontaminate"]}}, False),
        ({"report": "decontaminate"}, False),
    ],
)
def test_rows_are_decontaminated_if_all_that_they_came_of_is(
    record: dict[str, object], clean: bool
) -> None:
    assert is_decontaminated(record) is clean
