"""The report on folders: figures, faults, differences, and the forms in which it is printed."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Sequence
from functools import partial
from io import StringIO
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks.exercises import hold
from exercises.tests.commands import CANITEDIT
from exercises.tests.support.canitedit import (
    evaluated,
    plain,
    problems,
    write_folder,
    write_plain,
)
from swe_retry.core.errors import UserError
from swe_retry.report.plots.picture import draw_picture
from swe_retry_exercises.canitedit.metrics import ScoreRow
from swe_retry_exercises.canitedit.problems import FIRST_PAPER, TABLE_3
from swe_retry_exercises.canitedit.report import read_folder, report_on
from swe_retry_exercises.canitedit.results import write_file
from swe_retry_exercises.canitedit.settings import GroupBy
from swe_retry_exercises.canitedit.tables import (
    draw_scores,
    report_csv,
    report_json,
    report_text,
)
from swe_retry_exercises.charts import write_chart

WORD_COUNT = "1002_word_count_instruction_lazy.results.json.gz"
PARTIAL = "--set report.allow_partial=true"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six problems: 4, 3, 2, 1, 0 and 4 good completions of 4; lazy ones fewer."""
    folder = tmp_path_factory.mktemp("runs") / "small-model"
    return write_folder(folder, good=(4, 3, 2, 1, 0, 4), of=4)


@pytest.fixture
def folder_copy(folder: Path, tmp_path: Path) -> Path:
    """A copy that a test may change."""
    return Path(shutil.copytree(folder, tmp_path / "copy"))


Report = tuple[list[ScoreRow], list[ScoreRow]]


def report_of(*folders: Path, by: tuple[GroupBy, ...] = ()) -> Report:
    """Return the rows of a report and its differences."""
    scores = []
    for folder in folders:
        scores.append(read_folder(folder, v1=False, allow_partial=False))
    return report_on(scores, ks=(1, 2), by=by)


def scores_of(folder: Path) -> list[ScoreRow]:
    """Return the scores of a folder that may be partial."""
    return read_folder(folder, v1=False, allow_partial=True)


def test_the_figures_of_a_folder(folder: Path) -> None:
    rows, _ = report_of(folder, by=("change_kind",))
    totals = [row for row in rows if not row["by"]]
    means = {}
    for row in totals:
        shares = (row["pass@1"], row["pass@2"])
        means[row["instruction"]] = [round(share, 6) for share in shares]
    # 14 of 24; two of four drawn: 1, 1, 5/6, 1/2, 0, 1.
    assert means == {
        "descriptive": [0.583333, 0.722222],
        "lazy": [0.375, 0.555556],
    }
    first = totals[0]
    assert first["problems"] == 6
    assert first["completions"] == 24
    assert first["m"] == 5
    assert first["excess_code"] == 0.0
    assert first["unchanged"] == pytest.approx(10 / 24)
    assert first["problem_set"] == "6 problems"
    assert first["folder"] == str(folder)
    assert [row["group"] for row in rows if row["instruction"] == "lazy"] == [
        "",
        "adaptive",
        "corrective",
        "perfective",
    ]


def test_differences_pair_the_problems(folder: Path, tmp_path: Path) -> None:
    better = write_folder(tmp_path / "better", good=(4,) * 6, of=4)
    _, differences = report_of(folder, better)
    by_pair = {}
    for row in differences:
        if row["k"] == 1:
            by_pair[row["a"], row["b"]] = row
    assert list(by_pair) == [
        ("small-model, lazy", "small-model, descriptive"),
        ("better, lazy", "better, descriptive"),
        ("small-model, descriptive", "better, descriptive"),
        ("small-model, lazy", "better, lazy"),
    ]
    row = by_pair["small-model, descriptive", "better, descriptive"]
    assert row["problems"] == 6
    assert row["left_out"] == 0
    difference = 10 / 24
    assert row["difference"] == pytest.approx(difference)
    assert 0 < row["low"] < difference
    assert difference < row["high"] < 1
    same = by_pair["better, lazy", "better, descriptive"]
    assert same["low"] == 0.25
    assert same["high"] == 0.25


def test_folders_of_one_name_are_told_apart(folder: Path, tmp_path: Path) -> None:
    twin = Path(shutil.copytree(folder, tmp_path / folder.name))
    rows, _ = report_of(folder, twin)
    names = dict.fromkeys(row["model"] for row in rows)
    assert list(names) == [str(folder), str(twin)]


def test_the_order_of_files_does_not_matter(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "x" / folder.name
    other.mkdir(parents=True)
    for path in sorted(folder.iterdir(), reverse=True):
        shutil.copy(path, other)
    rows, differences = report_of(folder)
    other_rows, other_differences = report_of(other)
    assert differences == other_differences
    for row in (*rows, *other_rows):
        del row["folder"]
    assert rows == other_rows


def faults(path: Path) -> str:
    """Return the refusal of a folder, which is what a partial report says of it."""
    with pytest.raises(UserError) as caught:
        read_folder(path, v1=False, allow_partial=False)
    error = str(caught.value)
    problems = scores_of(path)[0]["faults"]
    fix = "report.allow_partial=true reports it so"
    assert error == f"{path} is incomplete: {problems}; {fix}"
    assert "\n" not in error
    return error


def test_published_problems_are_expected_together(tmp_path: Path) -> None:
    names = sorted(FIRST_PAPER, key=number_of)
    write_renamed(tmp_path, names[:50])
    missing = "50 of 54 problems with lazy instructions (no 56_interference_vars, "
    assert missing in faults(tmp_path)
    write_renamed(tmp_path, ["120_summary_statistics"])
    assert "51 of 105 problems with lazy" in faults(tmp_path)
    published = read_folder(tmp_path, v1=True, allow_partial=True)
    assert len(published) == 50


def number_of(name: str) -> int:
    """Return the number that the name of a problem begins with."""
    number, _, _ = name.partition("_")
    return int(number)


def write_renamed(folder: Path, names: Sequence[str]) -> None:
    """Write evaluated files of problems of other names."""
    problem = problems()[0]
    for name in names:
        values = {"id": number_of(name), "full_name": name}
        renamed = problem.model_copy(update=values)
        write_file(folder, evaluated(renamed))


def test_mixed_sampling_is_refused_with_the_numbers(folder_copy: Path) -> None:
    file = evaluated(problems()[1], good=1, of=4, temperature=0.8)
    write_file(folder_copy, file)
    expected = "mixed temperature: 0.2 in 11 files, 0.8 in 1 file"
    assert expected in faults(folder_copy)
    scores = scores_of(folder_copy)
    rows, _ = report_on([scores], ks=(1,), by=())
    assert [row["temperature"] for row in rows] == [None, None]
    assert [row["top_p"] for row in rows] == [0.95, 0.95]


def test_numbers_of_completions_must_be_equal(folder_copy: Path) -> None:
    file = evaluated(problems()[1], good=1, of=3)
    write_file(folder_copy, file)
    expected = "completions: 4 in 11 files, 3 in 1 file"
    assert expected in faults(folder_copy)


def test_broken_files_are_named(folder_copy: Path) -> None:
    (folder_copy / WORD_COUNT).write_bytes(b"broken")
    error = faults(folder_copy)
    cause = f"{WORD_COUNT} is broken (it is not a complete gzip file"
    assert f"1 file cannot be used ({cause}" in error
    assert "5 of 6 problems with lazy" in error


def test_a_file_under_another_name_is_no_second_one(folder_copy: Path) -> None:
    shutil.copy(folder_copy / WORD_COUNT, folder_copy / "copy.results.json.gz")
    error = f"copy.results.json.gz holds what belongs into {WORD_COUNT}"
    assert error in faults(folder_copy)


def test_what_is_not_evaluated_is_named(folder_copy: Path) -> None:
    value = plain(folder_copy / WORD_COUNT)
    del value["results"]
    write_plain(folder_copy / "1007_more_instruction_lazy.json.gz", value)
    error = "1 file not evaluated (1007_more_instruction_lazy)"
    assert error in faults(folder_copy)


def test_a_folder_without_results_is_refused(tmp_path: Path) -> None:
    for path, problem in {
        tmp_path: "has no file",
        tmp_path / "none": "is not a folder",
    }.items():
        error = CANITEDIT.refusal(f"report {path} {PARTIAL}")
        assert error.startswith(f"error: {path}")
        assert problem in error


def test_a_missing_file_is_counted_and_text_shows_what_is_partial(
    folder_copy: Path,
) -> None:
    (folder_copy / "1003_stack_instruction_lazy.results.json.gz").unlink()
    missing = "5 of 6 problems with lazy instructions (no 1003_stack)"
    assert missing in faults(folder_copy)
    assert missing in CANITEDIT.refusal(f"report {folder_copy}")
    options = "--set report.k=1,5 --set report.by=topic"
    out = CANITEDIT.output(f"report {folder_copy} {PARTIAL} {options}")
    assert "copy: 6 problems, temperature 0.2, top_p 0.95, max_tokens 3072" in out
    assert f"partial: copy: {missing}" in out
    assert "58.33 (" in out
    assert "topic: Data Science" in out


def test_markdown_has_the_published_rows_beside_ours(folder: Path) -> None:
    text = markdown_of(folder)
    assert "| this report | small-model |  | 6 | 58.33 | 37.50 | 0.00 | 0.00 |" in text
    row = "| EditCoder | 6.7b | 54 (other problems) | 52.59 | 38.46 | 0.40 | 0.03 |"
    assert f"| first paper, open {row}" in text
    assert len(TABLE_3) == 20
    assert text.count("54 (other problems)") == 20


def markdown_of(folder: Path) -> str:
    rows, differences = report_of(folder)
    return report_text(rows, differences, markdown=True)


def test_the_54_problems_stand_beside_the_published_ones(tmp_path: Path) -> None:
    write_renamed(tmp_path / "m", sorted(FIRST_PAPER))
    text = markdown_of(tmp_path / "m")
    assert "other problems" not in text
    assert "m: the 54 of the first paper, " in text
    assert "| this report | m |  | 54 | – | 50.00 | – | 0.00 |" in text


def test_csv_and_json_have_all_digits(folder: Path) -> None:
    rows, differences = report_of(folder, by=("libraries",))
    lines = StringIO(report_csv(rows))
    csv_rows = list(csv.DictReader(lines))
    assert len(csv_rows) == 2 * (1 + 3)
    first, second, *_ = csv_rows
    assert float(first["pass@1"]) == pytest.approx(14 / 24, abs=1e-15)
    assert first["truncated"] == ""
    assert first["partial"] == "False"
    assert second["group"] == "statistics"
    value = json.loads(report_json(rows, differences))
    assert value["rows"] == rows
    assert value["differences"] == differences
    assert list(value["rows"][0]) == list(first)
    lazy_row = value["rows"][4]
    assert lazy_row["instruction"] == "lazy"
    assert lazy_row["by"] == ""
    assert lazy_row["pass@2"] == pytest.approx(5 / 9, abs=1e-15)
    assert lazy_row["truncated"] is None


def test_names_cannot_change_a_table_or_a_sheet(folder: Path, tmp_path: Path) -> None:
    odd = tmp_path / "=1+1|<b>\x1b[31m"
    shutil.copytree(folder, odd)
    rows, differences = report_of(odd)
    markdown = report_text(rows, differences, markdown=True)
    assert "| =1+1\\|&lt;b> |" in markdown
    assert report_csv(rows).splitlines()[1].startswith("'=1+1|<b>,")
    assert "\x1b" not in report_text(rows, differences, markdown=False)


def test_the_plot_shows_each_score(folder: Path, tmp_path: Path) -> None:
    rows, _ = report_of(folder)
    draw = partial(draw_scores, rows)
    picture = draw_picture("scores", "", "", draw)
    light, dark = write_chart(picture, tmp_path / "plot.svg")
    assert dark.name == "plot-dark.svg"
    for path in (light, dark):
        root = ElementTree.fromstring(path.read_text())
        elements = root.iter("{http://www.w3.org/2000/svg}text")
        texts = {"".join(element.itertext()) for element in elements}
        assert {"small-model", "58.3 %", "37.5 %", "descriptive", "lazy"} <= texts
    [png] = write_chart(picture, tmp_path / "plot.png")
    assert png.read_bytes().startswith(b"\x89PNG")


def test_mistakes_are_one_line(folder: Path) -> None:
    report = f"report {folder}"
    for line, problem in {
        "": "there is no command ''; choose ",
        "score": "there is no command 'score'; choose ",
        "report": "no folder given",
        f"{report} {folder}": "a folder is given twice",
        f"{report} --set report.k=0": "report.k 0: must be at least 1",
        f"{report} --set report.k=1,x": "report.k x: must be a valid integer",
        f"{report} --set report.by=size": "report.by size: must be 'change_kind', 'topic', "
        "'libraries' or 'length'",
        f"{report} --format xml": "'xml' is not one of 'text', 'markdown',",
        f"{report} --chart a.pdf": "--chart a.pdf: give a name that ends in .svg",
        f"{report} --set report.k=2 --chart a.svg": "shows pass@1; add 1 to report.k",
        f"{report} --set problems.v1=true": "has no file *.results.json.gz of these problems",
        "stats --set problems.source=none.jsonl": "none.jsonl does not exist",
    }.items():
        assert problem in CANITEDIT.refusal(line)


def test_the_benchmark_holds_all_files(folder: Path) -> None:
    figures = hold(folder)
    assert figures["completions"] == 48
    assert figures["peak_bytes"] > 1_000_000


def test_help_lists_the_commands() -> None:
    lines = CANITEDIT.output("--help").splitlines()
    commands = [" ".join(line.split()) for line in lines]
    assert "stats Describe the data set in a table." in commands
    assert "--workers" in CANITEDIT.output("report --help")
