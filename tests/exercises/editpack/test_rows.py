"""Rows of each kind of input, and what is no row."""

from __future__ import annotations

import gzip
import hashlib
import json
from pathlib import Path

import pytest

from core.errors import UserError
from exercises.editpack import rows as reading
from exercises.editpack.rows import EditRow, RowReading, message_of, with_content
from tests.support.editpack import SKIP_BAD, edit, editpack, read_rows, write_rows

Capture = pytest.CaptureFixture[str]
ROWS = [
    edit("a = 1\n", "a = 2\n", "Change a", stars=3, repos="own/thing", when=None),
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


def write_kind(kind: str, place: Path) -> Path:
    """Write the rows as one of the kinds that a command reads."""
    if kind.startswith("jsonl"):
        return write_rows(place / f"rows.{kind}", ROWS)
    from datasets import Dataset, DatasetDict

    made = Dataset.from_list(ROWS)
    if kind == "parquet":
        made.to_parquet(str(place / "rows.parquet"))
        return place / "rows.parquet"
    if kind == "folder of parts":
        made = DatasetDict({"train": made, "test": made.select([1])})
    made.save_to_disk(str(place / "saved"))
    return place / "saved"


KINDS = ("jsonl", "jsonl.gz", "parquet", "folder", "folder of parts")


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_gives_the_same_rows_with_all_columns(
    kind: str, tmp_path: Path
) -> None:
    place = write_kind(kind, tmp_path)
    out = tmp_path / "out.jsonl"
    assert editpack("format", place, "--out", out) == 0
    assert read_rows(out) == [with_content(row) for row in ROWS]
    reading = RowReading()
    for _ in range(2):
        assert list(reading.rows(str(place))) == [(row, None) for row in ROWS]
    if place.is_file():
        assert (
            reading.sha256(str(place)) == hashlib.sha256(place.read_bytes()).hexdigest()
        )


def test_the_hash_of_a_folder_is_that_of_its_rows(tmp_path: Path) -> None:
    first, second = (write_kind("folder", tmp_path / name) for name in ("a", "b"))
    digest = RowReading().sha256(str(first))
    assert digest == RowReading().sha256(str(second))
    part = write_kind("folder of parts", tmp_path / "c")
    assert RowReading(part="test").sha256(str(part)) != digest


def test_a_part_of_a_folder_is_chosen(tmp_path: Path, capsys: Capture) -> None:
    place = write_kind("folder of parts", tmp_path)
    out = tmp_path / "out.jsonl"
    capsys.readouterr()  # the progress of the library
    assert editpack("format", place, "--set", "rows.part=test", "--out", out) == 0
    assert [row["stars"] for row in read_rows(out)] == [4]
    assert editpack("format", place, "--set", "rows.part=dev", "--out", out) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line == f"error: {place} has no split 'dev'; it has train, test"


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        (b"{", "column 2: Expecting property name"),
        (b"\xff{}", "it is not UTF-8"),
        (b"[1]", "it is not a JSON object"),
        (b"null", "it is not a JSON object"),
        (b'{"old_contents": "a", "message": "m"}', "new_contents is missing"),
        (
            b'{"old_contents": null, "new_contents": "b", "message": ""}',
            "old_contents is not text",
        ),
        (
            b'{"old_contents": "", "new_contents": ""}',
            "it has no instruction, message or subject",
        ),
        (
            b'{"old_contents": "a", "new_contents": "b", "message": 3}',
            "it has no instruction",
        ),
        (b"[" * 5000 + b"]" * 5000, "it is nested more than 100 levels deep"),
        (b"1" * 5000, "a number is too long"),
        (
            b'{"old_contents": "' + b"a" * OVERSIZE + b'"}',
            "it has more than 65,536 bytes",
        ),
    ],
)
def test_what_is_no_row_is_named_with_its_number(
    line: bytes,
    wrong: str,
    tmp_path: Path,
    capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reading, "_MAX_LINE", OVERSIZE)
    rows = write_rows(tmp_path / "rows.jsonl", [ROWS[0], line, ROWS[1]])
    out = tmp_path / "o.jsonl"
    assert editpack("format", rows, "--out", out) == 2
    [said] = capsys.readouterr().err.splitlines()
    assert said.startswith(f"error: {rows}, row 2: {wrong}")
    assert said.endswith("; correct it, or set rows.skip_bad=true")
    assert [*tmp_path.iterdir()] == [rows]
    bad = tmp_path / "bad.jsonl"
    assert editpack("format", rows, "--out", out, "--dropped", bad, *SKIP_BAD) == 0
    assert len(read_rows(out)) == 2
    [dropped] = read_rows(bad)
    assert (dropped["row"], dropped["rule"]) == (2, "unreadable")
    assert dropped["detail"].startswith(wrong)


def test_rows_of_a_table_are_checked_as_well(tmp_path: Path, capsys: Capture) -> None:
    from datasets import Dataset

    Dataset.from_list([{"old_contents": "a", "message": "m"}]).to_parquet(
        str(tmp_path / "r.parquet")
    )
    assert (
        editpack("format", tmp_path / "r.parquet", "--out", tmp_path / "o.jsonl") == 2
    )
    assert "row 1: new_contents is missing" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("none.jsonl", None, "cannot be read: [Errno 2] No such file or directory"),
        ("none.parquet", None, "none.parquet cannot be read: "),
        ("empty.jsonl", b"", "has no rows"),
        ("blank.jsonl", b"\n \n", "has no rows"),
        ("rows.txt", b"{}", "there are no rows in"),
        ("no@name/at/all", None, "there are no rows in"),
        ("not.jsonl.gz", b"{}\n", "cannot be read"),
        (
            "cut.jsonl.gz",
            gzip.compress(b"{}\n" * 1000, mtime=0)[:-12],
            "cannot be read",
        ),
        (
            "wrong.jsonl.gz",
            gzip.compress(b"", mtime=0)[:10] + b"\xff" * 30,
            "cannot be read",
        ),
        ("no.parquet", b"PAR1 it is not PAR1", "cannot be read"),
    ],
)
def test_what_holds_no_rows_is_one_line(
    name: str,
    data: bytes | None,
    said: str,
    tmp_path: Path,
    capsys: Capture,
) -> None:
    if data is not None:
        (tmp_path / name).write_bytes(data)
    assert (
        editpack("format", tmp_path / name, "--out", tmp_path / "o.jsonl", *SKIP_BAD)
        == 2
    )
    [line] = capsys.readouterr().err.splitlines()
    assert said in line
    assert not (tmp_path / "o.jsonl").exists()


def test_a_folder_that_is_no_set_is_one_line(tmp_path: Path, capsys: Capture) -> None:
    assert editpack("format", tmp_path, "--out", tmp_path / "o.jsonl") == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(
        f"error: {tmp_path} is not a folder saved by `datasets`; give"
    )
    (tmp_path / "state.json").write_text("{}")
    (tmp_path / "dataset_info.json").write_text('{"features": 5}')
    assert editpack("format", tmp_path, "--out", tmp_path / "o.jsonl") == 2
    assert "is not a folder saved by" in capsys.readouterr().err
    assert editpack("format", "--out", tmp_path / "o.jsonl") == 2
    assert "no rows given" in capsys.readouterr().err


def test_a_set_on_a_hub_that_is_not_reached_is_one_line(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", "http://127.0.0.1:9")
    assert (
        editpack(
            "format",
            "own/no-such-set",
            "--set",
            "rows.config=python",
            "--out",
            tmp_path / "o.jsonl",
        )
        == 1
    )
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("error: cannot load own/no-such-set from the hub")
    assert [*tmp_path.iterdir()] == []


def test_a_mark_and_blank_lines_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    lines = [json.dumps(row).encode() for row in ROWS]
    path.write_bytes(b"\xef\xbb\xbf" + lines[0] + b"\r\n\n  \n" + lines[1])
    assert [row for row, _ in RowReading().rows(str(path))] == ROWS


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"message": "m", "subject": "s", "instruction": "i"}, "i"),
        ({"message": "m", "subject": "s"}, "m"),
        ({"message": None, "subject": "s"}, "s"),
        ({"instruction": " \n", "message": "m"}, "m"),
        ({"message": ""}, ""),
    ],
)
def test_the_first_message_that_says_something_is_the_instruction(
    columns: EditRow, message: str
) -> None:
    assert message_of(columns) == message


def test_content_is_the_prompt_with_the_new_side() -> None:
    row = with_content(edit("a\r\n", "b\r\nc\r", "Do\r\nit", message_id=1))
    assert row["instruction"] == "Do\nit"
    assert (
        row["content"]
        == "## Code Before:\na\n\n## Instruction:\nDo\nit\n## Code After:\nb\nc\r"
    )
    assert (row["old_contents"], row["new_contents"]) == ("a\r\n", "b\r\nc\r")
    assert with_content(row) == row


def test_bad_rows_are_counted_from_one(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "rows.jsonl", [b"?", ROWS[0], b"??"])
    bad = [row for row, why in RowReading(skip_bad=True).rows(str(path)) if why]
    assert bad == [{"row": 1}, {"row": 3}]
    with pytest.raises(UserError, match="row 1: "):
        next(RowReading().rows(str(path)))
