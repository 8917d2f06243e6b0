"""Rows of each kind of input, and what is no row."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from exercises.tests.commands import EDITPACK
from exercises.tests.support.editpack import edit, read_rows, write_rows
from swe_retry.core.errors import UserError
from swe_retry_exercises.editpack import rows as reading
from swe_retry_exercises.editpack.rows import (
    EditRow,
    RowReading,
    message_of,
    with_content,
)
from tests.support import sha256_of

ROWS = [
    edit(
        "a = 1\n",
        "a = 2\n",
        "Change a",
        stars=3,
        repos="own/thing",
        when=None,
    ),
    edit(
        "b = 1\r\n",
        "b = 2\r\n",
        "Änderung — 漢字",
        stars=4,
        repos="own/other",
        when=None,
    ),
]
OVERSIZE = 1 << 16
SKIP_BAD = "--set rows.skip_bad=true"


def write_kind(kind: str, folder: Path) -> Path:
    """Write the rows as one of the kinds that a command reads."""
    path = folder / f"rows.{kind}"
    if kind.startswith("jsonl"):
        return write_rows(path, ROWS)
    from datasets import Dataset, DatasetDict

    rows = Dataset.from_list(ROWS)
    if kind == "parquet":
        rows.to_parquet(str(path))
    elif kind == "folder":
        rows.save_to_disk(str(path))
    else:
        parts = {"train": rows, "test": rows.select([1])}
        DatasetDict(parts).save_to_disk(str(path))
    return path


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "o.jsonl"


KINDS = ("jsonl", "jsonl.gz", "parquet", "folder", "parts")


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_gives_the_same_rows_with_all_columns(
    kind: str,
    tmp_path: Path,
    out: Path,
) -> None:
    source = write_kind(kind, tmp_path)
    EDITPACK.output(f"format {source} --out {out}")
    assert read_rows(out) == [with_content(row) for row in ROWS]
    reading = RowReading()
    for _ in range(2):
        assert list(reading.rows(str(source))) == [(row, None) for row in ROWS]
    if source.is_file():
        assert reading.sha256(str(source)) == sha256_of(source)


def test_the_hash_of_a_folder_is_that_of_its_rows(tmp_path: Path) -> None:
    first = write_kind("folder", tmp_path / "a")
    second = write_kind("folder", tmp_path / "b")
    parts = write_kind("parts", tmp_path / "c")
    digest = RowReading().sha256(str(first))
    assert RowReading().sha256(str(second)) == digest
    assert RowReading(part="test").sha256(str(parts)) != digest


def test_a_part_of_a_folder_is_chosen(tmp_path: Path, out: Path) -> None:
    source = write_kind("parts", tmp_path)
    line = f"format {source} --out {out} --set"
    EDITPACK.output(f"{line} rows.part=test")
    assert [row["stars"] for row in read_rows(out)] == [4]
    error = EDITPACK.refusal(f"{line} rows.part=dev")
    assert error == f"error: {source} has no split 'dev'; it has train, test"


def test_what_is_no_row_is_named_with_its_number(
    tmp_path: Path,
    out: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reading, "_MAX_LINE", OVERSIZE)
    bad = tmp_path / "bad.jsonl"
    oversize = "a" * OVERSIZE
    good = ROWS[0]
    for line, problem in {
        b"{": "column 2: Expecting property name",
        b"\xff{}": "it is not UTF-8",
        b"[1]": "it is not a JSON object",
        b"null": "it is not a JSON object",
        b'{"old_contents": "a", "message": "m"}': "new_contents is missing",
        b'{"old_contents": null, "new_contents": "b", "message": ""}': "old_contents is not text",
        b'{"old_contents": "", "new_contents": ""}': "it has no instruction, message or subject",
        b'{"old_contents": "a", "new_contents": "b", "message": 3}': "it has no instruction",
        b"[" * 5000 + b"]" * 5000: "it is nested more than 100 levels deep",
        b"1" * 5000: "a number is too long",
        f'{{"old_contents": "{oversize}"}}'.encode(): "it has more than 65,536 bytes",
    }.items():
        rows = write_rows(tmp_path / "rows.jsonl", [good, line, good])
        error = EDITPACK.refusal(f"format {rows} --out {out}")
        assert error.startswith(f"error: {rows}, row 2: {problem}")
        assert error.endswith("; correct it, or set rows.skip_bad=true")
        assert list(tmp_path.iterdir()) == [rows]
        EDITPACK.output(f"format {rows} --out {out} --dropped {bad} {SKIP_BAD}")
        assert len(read_rows(out)) == 2
        [dropped] = read_rows(bad)
        assert dropped["row"] == 2
        assert dropped["rule"] == "unreadable"
        assert dropped["detail"].startswith(problem)
        for path in tmp_path.iterdir():
            path.unlink()


def test_rows_of_a_table_are_checked_as_well(tmp_path: Path, out: Path) -> None:
    from datasets import Dataset

    path = tmp_path / "r.parquet"
    row = {"old_contents": "a", "message": "m"}
    Dataset.from_list([row]).to_parquet(str(path))
    error = EDITPACK.run(f"format {path} --out {out}")
    assert error.code == 2
    assert "row 1: new_contents is missing" in error.err


def test_what_holds_no_rows_is_one_line(tmp_path: Path, out: Path) -> None:
    packed = gzip.compress(b"{}\n" * 1000, mtime=0)
    header = packed[:10]
    for name, data in {
        "empty.jsonl": b"",
        "blank.jsonl": b"\n \n",
        "rows.txt": b"{}",
        "not.jsonl.gz": b"{}\n",
        "cut.jsonl.gz": packed[:-12],
        "wrong.jsonl.gz": header + b"\xff" * 30,
        "no.parquet": b"PAR1 it is not PAR1",
    }.items():
        (tmp_path / name).write_bytes(data)
    for name, problem in {
        "none.jsonl": "cannot be read: [Errno 2] No such file or directory",
        "none.parquet": "none.parquet cannot be read: ",
        "empty.jsonl": "has no rows",
        "blank.jsonl": "has no rows",
        "rows.txt": "there are no rows in",
        "no@name/at/all": "there are no rows in",
        "not.jsonl.gz": "cannot be read",
        "cut.jsonl.gz": "cannot be read",
        "wrong.jsonl.gz": "cannot be read",
        "no.parquet": "cannot be read",
    }.items():
        line = f"format {tmp_path / name} --out {out} {SKIP_BAD}"
        assert problem in EDITPACK.refusal(line), name
        assert not out.exists()


def test_a_folder_that_is_no_set_is_one_line(tmp_path: Path, out: Path) -> None:
    problem = f"error: {tmp_path} is not a folder saved by `datasets`; give"
    line = f"format {tmp_path} --out {out}"
    assert EDITPACK.refusal(line).startswith(problem)
    (tmp_path / "state.json").write_text("{}")
    (tmp_path / "dataset_info.json").write_text('{"features": 5}')
    assert "is not a folder saved by" in EDITPACK.refusal(line)
    assert "no rows given" in EDITPACK.refusal(f"format --out {out}")


def test_a_set_on_a_hub_that_is_not_reached_is_one_line(
    tmp_path: Path,
    out: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    ended = EDITPACK.run(f"format own/no-such-set --set rows.config=python --out {out}")
    assert ended.code == 2
    [line] = ended.err.splitlines()
    assert line.startswith("error: cannot load own/no-such-set from the hub")
    assert list(tmp_path.iterdir()) == []


def test_a_mark_and_blank_lines_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    first, second = map(json.dumps, ROWS)
    text = f"\N{BYTE ORDER MARK}{first}\r\n\n  \n{second}"
    path.write_bytes(text.encode())
    assert [row for row, _ in RowReading().rows(str(path))] == ROWS


def test_the_first_message_that_says_something_is_the_instruction() -> None:
    row: EditRow = {"message": "m", "subject": "s"}
    assert message_of(row) == "m"
    assert message_of(row | {"instruction": "i"}) == "i"
    assert message_of(row | {"message": None}) == "s"
    assert message_of({"instruction": " \n", "message": "m"}) == "m"
    assert message_of({"message": ""}) == ""


def test_content_is_the_prompt_with_the_new_side() -> None:
    edited = edit("a\r\n", "b\r\nc\r", "Do\r\nit", message_id=1)
    row = with_content(edited)
    prompt = "## Code Before:\na\n\n## Instruction:\nDo\nit\n## Code After:\n"
    assert row == edited | {
        "instruction": "Do\nit",
        "content": f"{prompt}b\nc\r",
    }
    assert with_content(row) == row


def test_bad_rows_are_counted_from_one(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "rows.jsonl", [b"?", ROWS[0], b"??"])
    bad_rows = []
    for row, reason in RowReading(skip_bad=True).rows(str(path)):
        if reason:
            bad_rows.append(row)
    assert bad_rows == [{"row": 1}, {"row": 3}]
    with pytest.raises(UserError, match="row 1: "):
        next(RowReading().rows(str(path)))
