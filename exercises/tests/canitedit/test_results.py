"""Files of completions: written, read again, of others, and hostile."""

from __future__ import annotations

import gzip
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from exercises.tests.support.canitedit import (
    completion_file,
    evaluated,
    failed,
    passed,
    plain,
    problems,
    write_plain,
)
from swe_retry.core.errors import DamagedFileError
from swe_retry_exercises.canitedit import results
from swe_retry_exercises.canitedit.results import read_file, write_file

CLAMP = problems()[0]
NAME = "1001_clamp_instruction_lazy.results.json.gz"

LAYOUT = """
id name full_name before after tests instruction_descriptive instruction_lazy taxonomy instr_kind
prompt language temperature top_p max_tokens stop_tokens script_args
"""
RESULT_KEYS = """
program timestamp stdout stderr exit_code status program_no_test coverage coverage_missing
"""


def evaluated_content(folder: Path, **values: Any) -> dict[str, Any]:
    return plain(write_file(folder, evaluated(CLAMP, **values)))


def test_the_layout_is_the_public_one(tmp_path: Path) -> None:
    content = evaluated_content(tmp_path, script_args={"model": "m"})
    assert [path.name for path in tmp_path.iterdir()] == [NAME]
    assert set(content) == {*LAYOUT.split(), "completions", "results"}
    assert content["instr_kind"] == "instruction_lazy"
    assert content["prompt"] == ""
    assert content["language"] == "py"
    first, second = content["results"]
    assert set(first) == set(RESULT_KEYS.split())
    assert first["program"] == f"{CLAMP.after}\n{CLAMP.tests}"
    assert second["coverage"] is None


def test_what_is_written_is_read(tmp_path: Path) -> None:
    tokens = {"prompt_tokens": 3, "completion_tokens": 2}
    waiting = completion_file(
        CLAMP,
        completions=("x = 1\n", ""),
        replies=("```\nx = 1\n", "\ud800 no"),
        truncated=(True, False),
        tokens=(tokens, None),
        cost=("0.01", None),
    )
    path = write_file(tmp_path, waiting)
    assert path.name == "1001_clamp_instruction_lazy.json.gz"
    assert plain(path)["tokens"] == [tokens, None]
    again = read_file(path)
    assert again == waiting
    good = passed("x = 1\n\n", coverage=50, missing=(1,))
    bad = failed("\n")
    done = again.model_copy(update={"results": (good, bad)})
    done_path = write_file(tmp_path, done)
    assert read_file(done_path) == done
    before = path.read_bytes()
    assert write_file(tmp_path, again).read_bytes() == before
    # The header of gzip has no time, so equal content gives equal bytes on any day.
    assert before[4:8] == bytes(4)


def test_files_of_others_lack_keys_and_have_their_own(tmp_path: Path) -> None:
    value = evaluated_content(tmp_path)
    for result in value["results"]:
        del result["program_no_test"]
        del result["timestamp"]
        del result["coverage_missing"]
        result["other"] = {"deep": [1]}
    for key in ("temperature", "script_args", "completions", "max_tokens"):
        del value[key]
    value |= {"cost": "ours is a list", "own": [[]]}
    file = read_file(write_plain(tmp_path / NAME, value))
    good, bad = file.results
    assert good.status == "OK"
    assert good.program_no_test == f"{CLAMP.after}\n"
    assert bad.status == "Exception"
    assert bad.program_no_test == f"{CLAMP.before}\n"
    assert good.coverage_missing is None
    assert file.completions == ()
    assert file.temperature is None


def test_completions_of_the_newer_public_code_are_objects(tmp_path: Path) -> None:
    value = evaluated_content(tmp_path)
    del value["results"]
    value["completions"] = [
        {"content": "x = 1\n", "instruction": None},
        "y = 2\n",
    ]
    path = tmp_path / "1001_clamp_instruction_lazy.json.gz"
    file = read_file(write_plain(path, value))
    assert file.completions == ("x = 1\n", "y = 2\n")
    assert file.replies == ()


def damage_of(path: Path) -> str:
    """Return the refusal of a file without its name."""
    with pytest.raises(DamagedFileError) as caught:
        read_file(path)
    error = str(caught.value)
    assert error.startswith(f"{path} ")
    assert "\n" not in error
    assert len(error) < 400
    return error.removeprefix(f"{path} ")


def test_wrong_content_is_named(tmp_path: Path) -> None:
    value = evaluated_content(tmp_path)
    good = {"program_no_test": "", "status": "OK", "exit_code": 0}
    not_text = {"program": 1, "status": "OK", "exit_code": 0}

    def check(problem: str, **changes: object) -> None:
        path = write_plain(tmp_path / NAME, value | changes)
        assert problem in damage_of(path)

    check("'full_name': String should match pattern", full_name="../x")
    check("instr_kind", instr_kind=["instruction_lazy"])
    check("'instr_kind': String should match pattern", instr_kind="instruction_rude")
    check("neither completions nor results", results=[], completions=[])
    check("'results': Input should be a valid tuple", results={"a": 1})
    check("status", results=[good | {"status": "Fine"}])
    check("exit_code", results=[good | {"exit_code": True}])
    check(
        "'results[0].coverage': Input should be less than or equal to 100",
        results=[good | {"coverage": 101}],
        completions=[],
    )
    check("a result has", results=[not_text])
    check("1 completions have 2 results", completions=["x"])
    check("temperature", temperature=float("nan"))
    check("'completions[0]': Input should be a valid string", completions=[1, 2])
    for key in ("before", "tests", "taxonomy", "id", "instr_kind"):
        rest = dict(value)
        del rest[key]
        path = write_plain(tmp_path / NAME, rest)
        assert key in damage_of(path)


def packed_text(text: str) -> bytes:
    return gzip.compress(text.encode())


def test_broken_files_are_named(tmp_path: Path) -> None:
    contents = {
        "none": b"",
        "plain": b"no gzip",
        "no end": packed_text('{"a": 1}' * 50)[:-9],
        "cut": packed_text("x" * 5000)[:30],
        "noise": b"\x1f\x8b\x08" + b"\xff" * 200,
        "list": packed_text("[]"),
        "text": packed_text("not JSON"),
        "deep": packed_text("[" * 100_000),
        "digits": packed_text('{"id": ' + "9" * 10_000 + "}"),
        "no UTF-8": gzip.compress(b"\xff\xfe{}"),
    }
    for name, data in contents.items():
        (tmp_path / NAME).write_bytes(data)
        assert damage_of(tmp_path / NAME), name


def test_a_bomb_is_not_unpacked(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(results, "MOST_UNPACKED", 1 << 20)
    bomb = gzip.compress(bytes(50 << 20), 1)
    (tmp_path / NAME).write_bytes(bomb)
    tracemalloc.start()
    with pytest.raises(DamagedFileError, match="unpacks to more than 1,048,576 bytes"):
        read_file(tmp_path / NAME)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 << 20


def test_what_is_no_file_is_named(tmp_path: Path) -> None:
    (tmp_path / NAME).mkdir()
    assert "not a regular file" in damage_of(tmp_path / NAME)
    assert "No such file" in damage_of(tmp_path / "gone.results.json.gz")


def test_the_content_names_its_file() -> None:
    file = evaluated(CLAMP, "descriptive")
    assert file.file_name == "1001_clamp_instruction_descriptive.results.json.gz"
    assert file.kind == "descriptive"
