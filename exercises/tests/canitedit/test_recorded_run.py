"""Long: the published rows and a run that others recorded give the published figures.

Environment variables:

- ``CANITEDIT_ROWS``: the 105 rows, ``.jsonl`` or ``.parquet``
- ``CANITEDIT_RUN``: the folder of the recorded run of deepseek-coder-6.7b-base, 210 files
"""

from __future__ import annotations

import csv
import json
from collections import Counter
from io import StringIO
from pathlib import Path

import pytest

from exercises.tests.commands import CANITEDIT
from exercises.tests.support.canitedit import evaluated, plain
from swe_retry_exercises.canitedit.metrics import measures, score
from swe_retry_exercises.canitedit.problems import (
    ALL_PROBLEMS,
    FIRST_PAPER,
    load_problems,
)
from swe_retry_exercises.canitedit.report import read_folder, report_on
from swe_retry_exercises.canitedit.results import EVALUATED, read_file, write_file
from swe_retry_exercises.canitedit.tables import report_csv
from tests.support import from_environment

pytestmark = pytest.mark.long
FIGURES = "pass@1 pass@5 excess_code excess_code_se excess_changed excess_changed_se"
# Those figures and ExcessCode v1; then pass@1 of groups and of the 54 problems.
RECORDED = {
    "descriptive": (
        "41.7619 53.4647 0.3416 0.1462 1.5444 0.8170 0.2419",
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
        "32.4286 45.7194 0.4435 0.2105 1.6771 0.8379 0.5439",
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


def rows_of(folder: Path, *, v1: bool) -> dict[tuple[str, str], dict[str, str]]:
    """Return the rows of the report by instruction and group, shares in per cent."""
    scores = read_folder(folder, v1=v1, allow_partial=False)
    rows, _ = report_on([scores], (1, 5), ("change_kind", "libraries"))
    by_group = {}
    for row in csv.DictReader(StringIO(report_csv(rows))):
        for name in ("pass@1", "pass@5"):
            row[name] = str(100 * float(row[name]))
        by_group[row["instruction"], row["group"]] = row
    return by_group


def rounded(value: str) -> str:
    return f"{float(value):.4f}"


def test_every_published_figure_of_the_recorded_run() -> None:
    folder = from_environment("CANITEDIT_RUN")
    rows = rows_of(folder, v1=False)
    first_rows = rows_of(folder, v1=True)
    names = [*FIGURES.split(), "excess_v1"]
    for kind, (figures, groups, of_first) in RECORDED.items():
        total = rows[kind, ""]
        assert [rounded(total[name]) for name in names] == figures.split()
        for group, share in groups.items():
            assert rounded(rows[kind, group]["pass@1"]) == share
        first = first_rows[kind, ""]
        assert first["problems"] == "54"
        assert rounded(first["pass@1"]) == of_first


def test_statuses_and_programs_of_the_recorded_run() -> None:
    statuses: Counter[str] = Counter()
    distinct: set[tuple[int, str]] = set()
    for path in recorded_paths():
        file = read_file(path)
        statuses.update(row["status"] for row in score(file)["completions"])
        programs = {result.program_no_test for result in file.results}
        distinct.update((file.id, program) for program in programs)
        written = {result["program"] for result in plain(path)["results"]}
        assert {program + file.tests for program in programs} == written
    assert statuses == {
        "OK": 1558,
        "Exception": 2540,
        "Timeout": 77,
        "SyntaxError": 25,
    }
    assert len(distinct) == 1955


def recorded_paths() -> list[Path]:
    return sorted(from_environment("CANITEDIT_RUN").glob(f"*{EVALUATED}"))


def test_written_again_the_recorded_run_has_every_key(tmp_path: Path) -> None:
    for path in recorded_paths()[:20]:
        written = write_file(tmp_path, read_file(path))
        assert plain(written) == plain(path)


def test_the_rows_give_table_1() -> None:
    source = from_environment("CANITEDIT_ROWS")
    problems = load_problems(str(source))
    assert {problem.full_name for problem in problems} == ALL_PROBLEMS
    ids = set()
    for problem in problems:
        if problem.full_name in FIRST_PAPER:
            ids.add(problem.id)
    assert ids == {1, 3, 4, *range(6, 27), *range(28, 42), *range(44, 59), 60}
    settings = f"--set problems.v1=true --set problems.source={source}"
    table = json.loads(CANITEDIT.output(f"stats {settings} --format json"))
    for name, (mean, deviation) in {
        "lines before": ("44.7", "38.5"),
        "lines after": ("53.6", "40.7"),
        "lines together": ("98.3", "78.4"),
        "Levenshtein distance": ("361.3", "386.6"),
    }.items():
        assert f"{table[name]['mean']:.1f}" == mean
        assert f"{table[name]['deviation']:.1f}" == deviation
    libraries = {}
    for name, count in table.items():
        if name.startswith("library "):
            libraries[name] = count
    assert libraries == {
        "library numpy": 6,
        "library torch": 2,
        "library z3": 2,
        "library pandas": 1,
    }


def test_gold_changes_what_gold_changes() -> None:
    for problem in load_problems(str(from_environment("CANITEDIT_ROWS"))):
        values = measures(problem.before, problem.after, problem.after)
        assert values["lines"] == 1.0
        assert values["not_parsing"] is False
        assert values["unchanged"] is False
        for row in score(evaluated(problem, good=2, of=2))["completions"]:
            assert row["code"] == 0.0
            assert row["changed"] == 0.0
            assert row["v1"] == 0.0
