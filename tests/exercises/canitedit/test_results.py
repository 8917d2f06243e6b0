"""Files of completions: written, read again, of others, and hostile."""

from __future__ import annotations

import gzip
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from core.errors import DamagedFileError
from exercises.canitedit import results
from exercises.canitedit.results import read_file, write_file
from tests.support.canitedit import (
    completion_file,
    evaluated,
    failed,
    passed,
    plain,
    problems,
    write_plain,
)

CLAMP = problems()[0]
NAME = "1001_clamp_instruction_lazy.results.json.gz"


def test_the_layout_is_the_public_one(tmp_path: Path) -> None:
    path = write_file(tmp_path, evaluated(CLAMP, script_args={"model": "m"}))
    assert path.name == NAME
    found = plain(path)
    public = {
        "id",
        "name",
        "full_name",
        "before",
        "after",
        "tests",
        "instruction_descriptive",
        "instruction_lazy",
        "taxonomy",
        "instr_kind",
        "prompt",
        "language",
        "temperature",
        "top_p",
        "max_tokens",
        "stop_tokens",
        "script_args",
        "results",
    }
    assert {*found} == public | {"completions"}
    assert (found["instr_kind"], found["prompt"], found["language"]) == (
        "instruction_lazy",
        "",
        "py",
    )
    assert {*found["results"][0]} == {
        "program",
        "timestamp",
        "stdout",
        "stderr",
        "exit_code",
        "status",
        "program_no_test",
        "coverage",
        "coverage_missing",
    }
    assert found["results"][0]["program"] == f"{CLAMP.after}\n{CLAMP.tests}"
    assert found["results"][1]["coverage"] is None


def test_what_is_written_is_read(tmp_path: Path) -> None:
    waiting = completion_file(
        CLAMP,
        completions=("x = 1\n", ""),
        replies=("```\nx = 1\n", "\ud800 no"),
        truncated=(True, False),
        tokens=({"prompt_tokens": 3, "completion_tokens": 2}, None),
        cost=("0.01", None),
    )
    path = write_file(tmp_path, waiting)
    assert path.name == "1001_clamp_instruction_lazy.json.gz"
    assert plain(path)["tokens"] == [{"prompt_tokens": 3, "completion_tokens": 2}, None]
    again = read_file(path)
    assert again == waiting
    results = (passed("x = 1\n\n", 50, (1,)), failed("\n"))
    done = again.model_copy(update={"results": results})
    assert read_file(write_file(tmp_path, done)) == done
    before = path.read_bytes()
    assert write_file(tmp_path, again).read_bytes() == before
    # The header of gzip has no time, so equal content gives equal bytes on any day.
    assert before[4:8] == bytes(4)


def test_files_of_others_lack_keys_and_have_their_own(tmp_path: Path) -> None:
    value = plain(write_file(tmp_path, evaluated(CLAMP)))
    for result in value["results"]:
        del result["program_no_test"], result["timestamp"], result["coverage_missing"]
        result["other"] = {"deep": [1]}
    for key in ("temperature", "script_args", "completions", "max_tokens"):
        del value[key]
    value |= {"cost": "ours is a list", "own": [[]]}
    file = read_file(write_plain(tmp_path / NAME, value))
    assert [one.program_no_test for one in file.results] == [
        f"{CLAMP.after}\n",
        f"{CLAMP.before}\n",
    ]
    assert file.results[0].coverage_missing is None
    assert file.completions == ()
    assert file.temperature is None
    assert [one.status for one in file.results] == ["OK", "Exception"]


def test_completions_of_the_newer_public_code_are_objects(tmp_path: Path) -> None:
    value = plain(write_file(tmp_path, evaluated(CLAMP)))
    del value["results"]
    value["completions"] = [{"content": "x = 1\n", "instruction": None}, "y = 2\n"]
    file = read_file(
        write_plain(tmp_path / "1001_clamp_instruction_lazy.json.gz", value)
    )
    assert file.completions == ("x = 1\n", "y = 2\n")
    assert file.replies == ()


BROKEN: dict[str, tuple[dict[str, Any], str]] = {
    "path": ({"full_name": "../x"}, "'full_name': String should match pattern"),
    "kind": ({"instr_kind": ["instruction_lazy"]}, "instr_kind"),
    "other kind": (
        {"instr_kind": "instruction_rude"},
        "'instr_kind': String should match pattern",
    ),
    "no results": (
        {"results": [], "completions": []},
        "neither completions nor results",
    ),
    "results of another type": (
        {"results": {"a": 1}},
        "'results': Input should be a valid tuple",
    ),
    "status": (
        {"results": [{"program_no_test": "", "status": "Fine", "exit_code": 0}]},
        "status",
    ),
    "exit code": (
        {"results": [{"program_no_test": "", "status": "OK", "exit_code": True}]},
        "exit_code",
    ),
    "coverage": (
        {
            "results": [
                {"program_no_test": "", "status": "OK", "exit_code": 0, "coverage": 101}
            ],
            "completions": [],
        },
        "'results[0].coverage': Input should be less than or equal to 100",
    ),
    "program": (
        {"results": [{"program": 1, "status": "OK", "exit_code": 0}]},
        "a result has",
    ),
    "numbers": ({"completions": ["x"]}, "1 completions have 2 results"),
    "temperature": ({"temperature": float("nan")}, "temperature"),
    "completion": (
        {"completions": [1, 2]},
        "'completions[0]': Input should be a valid string",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_wrong_content_is_named(tmp_path: Path, name: str) -> None:
    change, words = BROKEN[name]
    value = plain(write_file(tmp_path, evaluated(CLAMP)))
    with pytest.raises(DamagedFileError) as caught:
        read_file(write_plain(tmp_path / NAME, value | change))
    assert words in str(caught.value)
    assert str(caught.value).startswith(f"{tmp_path / NAME} ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("key", ["before", "tests", "taxonomy", "id", "instr_kind"])
def test_a_missing_key_is_named(tmp_path: Path, key: str) -> None:
    value = plain(write_file(tmp_path, evaluated(CLAMP)))
    del value[key]
    with pytest.raises(DamagedFileError, match=key):
        read_file(write_plain(tmp_path / NAME, value))


def _packed(text: str) -> bytes:
    return gzip.compress(text.encode())


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no gzip",
        _packed('{"a": 1}' * 50)[:-9],
        _packed("x" * 5000)[:30],
        b"\x1f\x8b\x08" + b"\xff" * 200,
        _packed("[]"),
        _packed("not JSON"),
        _packed("[" * 100_000),
        _packed('{"id": ' + "9" * 10_000 + "}"),
        gzip.compress(b"\xff\xfe{}"),
    ],
    ids=[
        "none",
        "plain",
        "no end",
        "cut",
        "noise",
        "list",
        "text",
        "deep",
        "digits",
        "no UTF-8",
    ],
)
def test_broken_files_are_named(tmp_path: Path, data: bytes) -> None:
    (tmp_path / NAME).write_bytes(data)
    with pytest.raises(DamagedFileError, match=NAME) as caught:
        read_file(tmp_path / NAME)
    assert len(str(caught.value)) < 400


def test_a_bomb_is_not_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "MOST_UNPACKED", 1 << 20)
    (tmp_path / NAME).write_bytes(gzip.compress(bytes(50 << 20), 1))
    tracemalloc.start()
    with pytest.raises(DamagedFileError, match="unpacks to more than 1,048,576 bytes"):
        read_file(tmp_path / NAME)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 << 20


def test_what_is_no_file_is_named(tmp_path: Path) -> None:
    (tmp_path / NAME).mkdir()
    with pytest.raises(DamagedFileError, match="not a regular file"):
        read_file(tmp_path / NAME)
    with pytest.raises(DamagedFileError, match="No such file"):
        read_file(tmp_path / "gone.results.json.gz")


def test_the_content_names_its_file() -> None:
    file = evaluated(CLAMP, "descriptive")
    assert file.file_name == "1001_clamp_instruction_descriptive.results.json.gz"
    assert file.kind == "descriptive"
