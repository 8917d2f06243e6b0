"""Rows from files, checked; the six problems of our own; the published sets."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from exercises.tests.support.canitedit import ROWS, problems
from swe_retry.core.errors import UserError
from swe_retry_exercises.canitedit.problems import (
    ALL_PROBLEMS,
    FIRST_PAPER,
    KINDS,
    expected_problems,
    load_problems,
)


def rows() -> list[dict[str, Any]]:
    return [json.loads(line) for line in ROWS.read_text().splitlines()]


def test_rows_come_from_jsonl_and_parquet_in_the_order_of_their_ids(
    tmp_path: Path,
) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    shuffled = rows()[::-1]
    pq.write_table(pa.Table.from_pylist(shuffled), tmp_path / "rows.parquet")
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, shuffled)))
    expected = problems()
    assert [problem.id for problem in expected] == [1001, 1002, 1003, 1004, 1005, 1006]
    for name in ("rows.jsonl", "rows.parquet"):
        assert load_problems(str(tmp_path / name)) == expected
    assert [problem.model_dump(mode="json") for problem in expected] == rows()


def refusal(source: Path | str) -> str:
    with pytest.raises(UserError) as caught:
        load_problems(str(source))
    error = str(caught.value)
    assert "\n" not in error
    return error


def test_a_bad_row_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    first, second, *_ = rows()
    name_error = "row 2: 'full_name': String should match pattern"
    kind = {"change_kind": "evolve", "libraries": [], "topic": "T"}
    changes: list[tuple[str, object, str]] = [
        ("before", 1, "row 2: 'before': Input should be a valid string"),
        ("id", "4", "row 2: 'id': Input should be a valid integer"),
        ("full_name", "../../etc/x", name_error),
        ("full_name", ".hidden", name_error),
        ("full_name", "a/b", name_error),
        ("full_name", "a\n", name_error),
        ("taxonomy", kind, "change_kind"),
        ("taxonomy", None, "row 2: 'taxonomy': Input should be"),
        ("tests", "x" * 200_001, "row 2: 'tests': "),
        ("id", 1001, "has the problem 1001 twice"),
        ("full_name", "1001_clamp", "has the problem 1001_clamp twice"),
    ]
    for key, value, problem in changes:
        changed = json.dumps(second | {key: value})
        path.write_text(f"{json.dumps(first)}\n{changed}\n")
        error = refusal(path)
        assert problem in error
        assert str(path) in error
        assert len(error) < 300


def test_what_is_no_row_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    for row in ("null", "[]", '"text"', "{}"):
        path.write_text(row)
        with pytest.raises(
            UserError, match=r"(correct the row|no rows.*|JSON object.*)$"
        ):
            load_problems(str(path))


def test_a_bad_file_is_named(tmp_path: Path) -> None:
    contents = {
        "none.jsonl": (None, "does not exist"),
        "empty.jsonl": ("\n", "empty"),
        "broken.jsonl": ("{", "line 1"),
        "broken.parquet": ("PAR1 and no more", "cannot be read"),
    }
    for name, (content, problem) in contents.items():
        if content is not None:
            (tmp_path / name).write_text(content)
        error = refusal(tmp_path / name)
        assert problem in error
        assert name in error
    assert "give a .jsonl or .parquet, or nuprl/CanItEdit" in refusal("nothing")


def test_our_problems_are_solved_by_their_solutions_alone() -> None:
    def code(program: str, tests: str) -> int:
        argv = [sys.executable, "-I", "-c", f"{program}\n{tests}"]
        return subprocess.run(argv, capture_output=True, check=False).returncode

    for problem in problems():
        codes = (
            code(problem.after, problem.tests),
            code(problem.before, problem.tests),
        )
        assert codes == (0, 1), problem.name


def test_an_instruction_is_chosen_by_its_kind() -> None:
    problem = problems()[0]
    assert problem.instruction("lazy") == "Fix clamp."
    assert problem.instruction("descriptive").startswith("Fix `clamp` so that")
    assert KINDS == ("descriptive", "lazy")


def test_the_published_sets() -> None:
    assert len(ALL_PROBLEMS) == 105
    assert len(FIRST_PAPER) == 54
    assert "57_string_formatter" in FIRST_PAPER
    assert not FIRST_PAPER & {"59_standard_scaling", "61_ridge_regression"}
    assert expected_problems(["1_cipher"]) == FIRST_PAPER
    assert expected_problems(["1_cipher", "61_ridge_regression"]) == ALL_PROBLEMS
    assert expected_problems(["1_cipher", "1_other"]) == {"1_cipher", "1_other"}
