"""From a history to rows, and from rows to verdicts on candidates."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from datasets import load_dataset

from swe_retry.instances.dataset import load_dataset as load_rows
from swe_retry.instances.split import split_row
from tests.support import write_files
from tests.support.commands import Preloaded
from tests.support.ownworld import FILES, edit, make_repository, run_git
from tests.support.provider import Answer, Provider

pytestmark = pytest.mark.system
WRONG_MUL = "def add(a, b):\n    return a - b\n\n\ndef mul(a, b):\n    return a + b\n"
RIGHT_MUL = WRONG_MUL.replace("a + b", "a * b")
RIGHT_ADD = RIGHT_MUL.replace("a - b", "a + b")
TEST_ADD = "from calc import add\n\n\ndef test_add_five():\n    assert add(2, 3) == 5\n"
ZERO = "from calc import add\n\n\ndef test_zero():\n    assert add(0, 0) == 0\n"
TEST_MUL = f"""{ZERO}

def test_mul_six():
    from calc import mul

    assert mul(2, 3) == 6
"""
MUL_FIX = """Multiply, do not add (#7)

mul(2, 3) is 5 and not 6. See test_mul_six; this reverts the idea
of `    return a + b`:

    return a * b

Fixes #3
Signed-off-by: U Ser <u@example.org>
"""
ADD_FIX = (
    "Add, do not subtract\n\nadd(2, 3) is -1 and should be 5, as everybody says.\n"
)


@dataclass(frozen=True)
class Mine:
    """Starts commands in a folder that has a repository ``calc``."""

    folder: Path
    cache: Path
    preloaded: Preloaded

    def __call__(self, *arguments: str) -> tuple[int, str]:
        argv = ["mine", "calc", "rows.jsonl", "--since", "2025-01"]
        # The environment has pytest already.
        return self.start("harness.py", *argv, "--setup-cmd", "true", *arguments)

    def start(self, script: str, *arguments: str) -> tuple[int, str]:
        argv = [*arguments, "--set", f"folders.cache={self.cache}"]
        done = self.preloaded.run(*argv, script=script, cwd=self.folder)
        return done.returncode, done.stdout

    @property
    def rows(self) -> list[dict[str, Any]]:
        lines = (self.folder / "rows.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]


def commit(root: Path, message: str, files: Mapping[str, str | bytes | None]) -> str:
    write_files(root, files)
    run_git(root, "add", "--all")
    run_git(root, "commit", "--quiet", "-m", message)
    return run_git(root, "rev-parse", "HEAD")


@pytest.fixture(scope="module")
def mine(
    tmp_path_factory: pytest.TempPathFactory, cache: Path, preloaded: Preloaded
) -> Mine:
    """A repository that is mined once."""
    folder = tmp_path_factory.mktemp("mine")
    calc = make_repository(
        folder / "calc",
        {**FILES, "lib/calc.py": WRONG_MUL, "tests/test_calc.py": ZERO},
    )
    files = {"lib/calc.py": RIGHT_MUL, "tests/test_calc.py": TEST_MUL}
    commit(calc, MUL_FIX, {**files, "CHANGES.md": "mul multiplies\n"})
    commit(calc, ADD_FIX, {"lib/calc.py": RIGHT_ADD, "tests/test_add.py": TEST_ADD})
    mine = Mine(folder, cache, preloaded)
    code, printed = mine()
    assert code == 0, printed
    assert "looked at 3 commits" in printed
    assert "with flaky tests" in printed
    return mine


def test_rows_are_as_planted(mine: Mine) -> None:
    add, mul = mine.rows
    assert json.loads(add["FAIL_TO_PASS"]) == ["tests/test_add.py::test_add_five"]
    assert json.loads(add["PASS_TO_PASS"]) == []
    assert json.loads(mul["FAIL_TO_PASS"]) == ["tests/test_calc.py::test_mul_six"]
    assert json.loads(mul["PASS_TO_PASS"]) == ["tests/test_calc.py::test_zero"]
    assert mul["mined"]["left_out"] == ["CHANGES.md"]
    assert mul["patch"].startswith("diff --git a/lib/calc.py")
    assert mul["created_at"] == "2026-01-01T00:00:00Z"
    statement = mul["problem_statement"]
    assert statement.startswith("Multiply, do not add\n\nmul(2, 3) is 5")
    for leak in ("test_mul_six", "return a * b", "#3", "Signed-off-by"):
        assert leak not in statement
    assert mul["mined"]["removed"]["tests"] == 1
    first = (mine.folder / "rows.jsonl").read_bytes()
    (mine.folder / "rows.jsonl").unlink()
    assert mine()[0] == 0
    assert (mine.folder / "rows.jsonl").read_bytes() == first


def test_rows_are_of_the_usual_shape(mine: Mine) -> None:
    path = mine.folder / "rows.jsonl"
    split = load_dataset(
        "json", data_files=str(path), cache_dir=str(mine.folder / "hf")
    )
    assert split["train"].num_rows == 2
    for row in load_rows(str(path), "test").rows:
        instance, hidden = split_row(row)
        seen = repr(instance)
        assert RIGHT_ADD not in seen
        assert "return a * b" not in seen
        assert not any(name in seen for name in hidden.fail_to_pass)
    code, printed = mine.start(
        "report.py", "gold", "rows.jsonl", "rows.validity.json", "--repeat", "1"
    )
    assert code == 0
    assert "2 instances, 0 evaluations to do (local)" in printed


def test_statements_come_from_issues(mine: Mine) -> None:
    body = f"It is 5.\n\n```diff\n- 1\n+ 2\n```\n\n{RIGHT_MUL}"
    issue = {
        "number": 3,
        "title": "mul adds",
        "body": body,
        "comments": [{"body": "x"}],
    }
    (mine.folder / "issues.json").write_text(json.dumps([issue]))
    code, printed = mine("--issues", "issues.json", "--dry-run")
    assert code == 0
    assert "issue: mul adds It is 5." in printed


class Oracle(Provider):
    """Answers each statement with an edit that fixes what it is about, or with nothing."""

    solves = True

    def answer(self, request: dict[str, Any]) -> Answer:
        text = str(request["messages"])
        if not self.solves:
            return Answer("I do not know.")
        if "Multiply, do not add" in text:
            old = "def mul(a, b):\n    return a + b\n"
            return Answer(edit(old.replace("+", "*"), old=old))
        return Answer(edit("    return a + b\n"))


@pytest.mark.parametrize("solves", [True, False])
def test_an_oracle_solves_all_and_null_solves_none(mine: Mine, *, solves: bool) -> None:
    name = f"oracle-{solves}"
    with Oracle() as server:
        server.solves = solves
        code, printed = mine.start(
            "harness.py",
            *("--dataset", "rows.jsonl", "--models", "qwen", "--tries", "1"),
            *("--api-base", server.url, "--out", ".", "--run", name),
            *("--set", "calls.retries=0", "--price", "qwen=0,0"),
        )
    assert code in (0, 1), printed
    code, printed = mine.start("report.py", f"predictions/{name}", "--format", "json")
    counts = json.loads(printed[printed.index("{") :])["counts"]
    resolved = 2 if solves else 0
    assert (counts["resolved"], counts["not_evaluated"]) == (resolved, 0), printed
