"""What each command writes: rows, dropped rows, and reports that form a chain."""

from __future__ import annotations

import gzip
import os
from datetime import date
from pathlib import Path

import pytest

from exercises.tests.commands import EDITPACK
from exercises.tests.support.editpack import edit, read_rows, report_beside, write_rows
from swe_retry_exercises.editpack.files import input_record, is_decontaminated
from swe_retry_exercises.editpack.rows import RowReading, line_of
from tests.support import sha256_of

ROW = edit("a = 1\n", "a = 2\n")


def format_rows(rows: Path, out: Path) -> str:
    return EDITPACK.output(f"format {rows} --out {out}")


def contents(folder: Path) -> dict[Path, bytes | None]:
    """Return what lies in a folder, with the bytes of files."""
    by_path: dict[Path, bytes | None] = {}
    for path in folder.rglob("*"):
        by_path[path] = None
        if path.is_file():
            by_path[path] = path.read_bytes()
    return by_path


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    return write_rows(tmp_path / "rows.jsonl", [ROW, ROW])


def test_the_report_of_a_command(rows: Path, tmp_path: Path) -> None:
    out = tmp_path / "deep" / "out.jsonl"
    printed = format_rows(rows, out)
    report = report_beside(out)
    assert report.pop("seconds") >= 0
    versions = report.pop("versions")
    assert set(versions) == {"harness", "harness_commit", "python"}
    assert report == {
        "command": "format",
        "inputs": [{"name": "rows.jsonl", "sha256": sha256_of(rows)}],
        "output": {"name": "out.jsonl", "sha256": sha256_of(out)},
        "rows": 2,
        "kept": 2,
        "dropped": {},
        "options": {"skip_bad": False},
    }
    assert f"2 rows in {out}, the report beside it" in printed
    assert oct(out.stat().st_mode & 0o777) == "0o644"


def test_reports_form_a_chain(rows: Path, tmp_path: Path) -> None:
    first = tmp_path / "first.jsonl"
    second = tmp_path / "second.jsonl"
    format_rows(rows, first)
    format_rows(first, second)
    [record] = report_beside(second)["inputs"]
    assert record["sha256"] == sha256_of(first)
    assert record["report"] == report_beside(first)
    assert record["report"]["inputs"][0]["sha256"] == sha256_of(rows)
    # A report of other bytes is left out.
    first.write_bytes(first.read_bytes() * 2)
    format_rows(first, second)
    [record] = report_beside(second)["inputs"]
    assert record == {"name": "first.jsonl", "sha256": sha256_of(first)}


def test_a_damaged_report_is_found_before_anything_is_written(
    rows: Path,
    tmp_path: Path,
) -> None:
    beside = tmp_path / "rows.jsonl.report.json"
    for text in ("{", "[]"):
        beside.write_text(text)
        error = EDITPACK.refusal(f"format {rows} --out {tmp_path}/out.jsonl")
        assert error.startswith(f"error: {beside} is broken")
        assert error.endswith("write the rows again, or remove it")
        assert set(tmp_path.iterdir()) == {rows, beside}


def test_a_report_that_no_command_wrote_is_left_out(rows: Path) -> None:
    expected = {"name": "rows.jsonl", "sha256": sha256_of(rows)}
    beside = rows.with_name("rows.jsonl.report.json")
    for report in (
        "{}",
        '{"output": 3}',
        '{"output": []}',
        '{"output": {"sha256": 1}}',
    ):
        beside.write_text(report)
        assert input_record(str(rows), RowReading()) == expected


def test_equal_rows_give_equal_bytes_also_packed(rows: Path, tmp_path: Path) -> None:
    first = tmp_path / "a.jsonl.gz"
    second = tmp_path / "b.jsonl.gz"
    plain = tmp_path / "plain.jsonl"
    format_rows(rows, first)
    os.utime(rows, (1, 1))
    format_rows(rows, second)
    packed = first.read_bytes()
    assert packed == second.read_bytes()
    assert packed[4:8] == bytes(4)  # no time
    format_rows(rows, plain)
    assert gzip.decompress(packed) == plain.read_bytes()


def test_any_text_is_written_so_that_it_is_read_again(tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    out = tmp_path / "out.jsonl"
    again = tmp_path / "again.jsonl"
    for text in ("\ud800", "漢字 \udfff", "é\u2028\0\x7f"):
        row = edit(text, f"{text}{text}", text, **{text: 1})
        write_rows(rows, [row])
        format_rows(rows, out)
        [written] = read_rows(out)
        assert {key: written[key] for key in row} == row
        format_rows(out, again)
        assert again.read_bytes() == out.read_bytes()


def test_what_json_does_not_know_is_null_or_text() -> None:
    numbers = {"a": [float("nan"), 1.5], "b": {"c": float("inf")}}
    assert line_of(numbers) == b'{"a": [null, 1.5], "b": {"c": null}}\n'
    dated = {"day": date(2024, 2, 29), "word": "ß"}
    assert line_of(dated).decode() == '{"day": "2024-02-29", "word": "ß"}\n'


def test_files_that_cannot_be_written_are_one_line(
    rows: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.jsonl").mkdir()
    (tmp_path / "taken.jsonl.report.json").mkdir()
    (tmp_path / "link.jsonl").symlink_to(rows)
    before = contents(tmp_path)
    for options, problem in {
        "": "no --out given",
        "--out out.txt": "give a file .jsonl or .jsonl.gz",
        "--out rows.jsonl": "is a file that is read",
        "--out link.jsonl": "is a file that is read",
        "--out out.jsonl --dropped rows.jsonl": "is a file that is read",
        "--out out.jsonl --dropped out.jsonl": "is --out; choose another",
        "--out out.jsonl --dropped d.json": "--dropped",
        "--out folder.jsonl": "is a folder; choose another",
        "--out taken.jsonl": "taken.jsonl.report.json is a folder; choose another",
        f"--out {'x' * 230}.jsonl": "is too long a name",
        "--out rows.jsonl/out.jsonl": "is not a folder; choose another",
    }.items():
        assert problem in EDITPACK.refusal(f"format {rows} {options}")
        assert contents(tmp_path) == before, options


def test_an_error_leaves_what_was_there(rows: Path, tmp_path: Path) -> None:
    bad = write_rows(tmp_path / "bad.jsonl", [ROW, b"?"])
    files = f"--out {tmp_path}/out.jsonl --dropped {tmp_path}/dropped.jsonl"
    EDITPACK.output(f"format {rows} {files}")
    before = contents(tmp_path)
    EDITPACK.refusal(f"format {bad} {files}")
    assert contents(tmp_path) == before


def test_rows_are_decontaminated_if_all_that_they_came_of_is() -> None:
    clean = {"report": {"command": "decontaminate"}}
    mixed = {"report": {"command": "mix", "inputs": [clean]}}
    assert is_decontaminated(clean)
    assert is_decontaminated(mixed)
    unclean: list[dict[str, object]] = [
        {},
        {"report": {"command": "filter", "inputs": []}},
        {"report": {"inputs": [clean, {}]}},
        {"report": {"inputs": ["decontaminate"]}},
        {"report": "decontaminate"},
    ]
    for other in unclean:
        assert not is_decontaminated(other), other
