"""Long: the published rows and a run that others recorded give the published figures.

Environment variables:

- ``CANITEDIT_ROWS``: the 105 rows, ``.jsonl`` or ``.parquet``
- ``CANITEDIT_RUN``: the folder of the recorded run of deepseek-coder-6.7b-base, 210 files
"""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from collections import Counter
from io import StringIO
from pathlib import Path

import pytest

from exercises.canitedit.metrics import measures, score
from exercises.canitedit.problems import (
    ALL_PROBLEMS,
    FIRST_PAPER,
    load_problems,
)
from exercises.canitedit.report import read_folder, report_on
from exercises.canitedit.results import EVALUATED, read_file, write_file
from exercises.canitedit.tables import report_csv
from tests.support import from_environment
from tests.support.canitedit import evaluated, plain

pytestmark = pytest.mark.long
# pass@1, pass@5, code (SE), changed (SE), v1; then pass@1 of groups and of the 54 problems.
RECORDED = {
    "descriptive": (
        ["41.7619", "53.4647", "0.3416", "0.1462", "1.5444", "0.8170", "0.2419"],
        {
            "corrective": "44.7143",
            "adaptive": "41.8571",
            "perfective": "38.7143",
            "with libraries": "29.7727",
            "without libraries": "44.9398",
        },
        "44.1667",
    ),
    "lazy": (
        ["32.4286", "45.7194", "0.4435", "0.2105", "1.6771", "0.8379", "0.5439"],
        {
            "corrective": "31.4286",
            "adaptive": "41.2857",
            "perfective": "24.5714",
            "with libraries": "16.1364",
            "without libraries": "36.7470",
        },
        "35.1852",
    ),
}


def rows_of(folder: Path, *, v1: bool) -> list[dict[str, str]]:
    scores = read_folder(folder, v1=v1, allow_partial=False)
    rows, _ = report_on([scores], (1, 5), ("change_kind", "libraries"))
    return list(csv.DictReader(StringIO(report_csv(rows))))


def percent(share: str) -> str:
    return f"{100 * float(share):.4f}"


def test_every_published_figure_of_the_recorded_run() -> None:
    folder = from_environment("CANITEDIT_RUN")
    rows = rows_of(folder, v1=False)
    first = rows_of(folder, v1=True)
    for kind, (whole, groups, of_first) in RECORDED.items():
        mine = {row["group"]: row for row in rows if row["instruction"] == kind}
        all_ = mine[""]
        names = ("excess_code", "excess_code_se", "excess_changed", "excess_changed_se")
        found = [percent(all_["pass@1"]), percent(all_["pass@5"])]
        found += [f"{float(all_[name]):.4f}" for name in (*names, "excess_v1")]
        assert found == whole
        assert {name: percent(mine[name]["pass@1"]) for name in groups} == groups
        [other] = [
            row for row in first if row["instruction"] == kind and not row["group"]
        ]
        assert (other["problems"], percent(other["pass@1"])) == ("54", of_first)


def test_statuses_and_programs_of_the_recorded_run() -> None:
    statuses: Counter[str] = Counter()
    distinct: set[tuple[int, str]] = set()
    for path in sorted(from_environment("CANITEDIT_RUN").glob(f"*{EVALUATED}")):
        file = read_file(path)
        for completion in score(file)["completions"]:
            statuses[completion["status"]] += 1
        distinct |= {(file.id, result.program_no_test) for result in file.results}
        assert {one.program_no_test + file.tests for one in file.results} == {
            one["program"] for one in plain(path)["results"]
        }
    assert statuses == {"OK": 1558, "Exception": 2540, "Timeout": 77, "SyntaxError": 25}
    assert len(distinct) == 1955


def test_written_again_the_recorded_run_has_every_key(tmp_path: Path) -> None:
    for path in sorted(from_environment("CANITEDIT_RUN").glob(f"*{EVALUATED}"))[:20]:
        assert plain(write_file(tmp_path, read_file(path))) == plain(path)


def test_the_rows_give_table_1() -> None:
    rows = from_environment("CANITEDIT_ROWS")
    problems = load_problems(str(rows))
    assert {problem.full_name for problem in problems} == ALL_PROBLEMS
    ids = {problem.id for problem in problems if problem.full_name in FIRST_PAPER}
    assert ids == {1, 3, 4, *range(6, 27), *range(28, 42), *range(44, 59), 60}
    argv = [
        sys.executable,
        "-m",
        "exercises.canitedit",
        "stats",
        "--set",
        "problems.v1=true",
        "--set",
        f"problems.source={rows}",
    ]
    done = subprocess.run(
        [*argv, "--format", "json"], capture_output=True, text=True, check=True
    )
    table = json.loads(done.stdout)
    shown = {
        name: f"{table[name]['mean']:.1f} ({table[name]['deviation']:.1f})"
        for name in (
            "lines before",
            "lines after",
            "lines together",
            "Levenshtein distance",
        )
    }
    assert shown == {
        "lines before": "44.7 (38.5)",
        "lines after": "53.6 (40.7)",
        "lines together": "98.3 (78.4)",
        "Levenshtein distance": "361.3 (386.6)",
    }
    libraries = {name: table[name] for name in table if name.startswith("library ")}
    assert libraries == {
        "library numpy": 6,
        "library torch": 2,
        "library z3": 2,
        "library pandas": 1,
    }


def test_gold_changes_what_gold_changes() -> None:
    for problem in load_problems(str(from_environment("CANITEDIT_ROWS"))):
        found = measures(problem.before, problem.after, problem.after)
        assert found["lines"] == 1.0
        assert (found["not_parsing"], found["unchanged"]) == (False, False)
        for row in score(evaluated(problem, good=2, of=2))["completions"]:
            assert (row["code"], row["changed"], row["v1"]) == (0.0, 0.0, 0.0)
