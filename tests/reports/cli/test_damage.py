"""Damaged files of runs and packages are reported with their names, without a traceback."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from core.errors import UserError
from reports.cli.options import EvaluatorKind, ReportOptions
from reports.command_line import report_command
from reports.submission.commands import validate_command
from tests.reports.damaged_runs import Figures, package_damages, run_damages
from tests.reports.evaluated_demo import Made, make

ONE, OTHER = "demo__bank-1", "demo__units-1"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Made:
    return make(tmp_path_factory.mktemp("damaged"), cache)


@pytest.fixture
def run(made: Made, tmp_path: Path) -> Path:
    shutil.copytree(made.out, tmp_path / "out")
    return tmp_path / "out/predictions/r"


def total(figures: Figures, what: str) -> int:
    return sum(count for (_, column), count in figures.counts.items() if column == what)


@pytest.mark.parametrize(
    ("damages", "count"),
    [
        (run_damages, 20),
        (package_damages, 16),
        pytest.param(run_damages, 1000, marks=pytest.mark.long),
        pytest.param(package_damages, 1000, marks=pytest.mark.long),
    ],
)
def test_each_damage_is_reported_or_changes_nothing(made: Made, damages: Any, count: int) -> None:
    # Generous: other processes may keep this one from its processor.
    figures = damages(made, 7, range(count), most=30.0)
    assert figures.faults == []
    assert total(figures, "damages") == count
    # Where two intact files contradict each other, the other one may be named.
    assert total(figures, "file named") >= 0.99 * total(figures, "reported") > count / 2


def verify(run: Path, cache: Path) -> tuple[int, list[str]]:
    options = ReportOptions(EvaluatorKind.NONE, "", "", 1, 60.0, cache, None, verify=True)
    said: list[str] = []
    return report_command([run], options, said.append), said


def test_all_broken_files_of_a_run_are_named_with_their_places(run: Path, cache: Path) -> None:
    broken = {
        "run.json": ('{"starts": 5}', "'starts': Input should be a valid list"),
        f"{ONE}.json": (
            '{"instance_id":\n 5}',
            "is not a prediction: 'instance_id': Input should be a valid string",
        ),
        f"trajectories/{OTHER}.json": ('{\n\n"attempts": [}', "line 3"),
    }
    for name, (content, _) in broken.items():
        (run / name).write_text(content)
    code, said = verify(run, cache)
    assert code == 1
    for name, (_, words) in broken.items():
        assert (
            sum(text.startswith(f"predictions/r/{name}: ") and words in text for text in said) == 1
        )


def rename_within(path: Path, name: str) -> None:
    data = json.loads(path.read_text())
    path.write_text(json.dumps({**data, "instance_id": name}))


@pytest.mark.parametrize(
    ("file", "words"),
    [
        (f"{ONE}.json", f"and {{run}}/{OTHER}.json are both predictions of {OTHER}"),
        (f"trajectories/{ONE}.json", f"is the trajectory of '{OTHER}', and not of {ONE}"),
        (f"verdicts/{ONE}.json", f"is the verdict on '{OTHER}', and not on {ONE}"),
    ],
)
def test_a_file_about_another_instance_is_refused(
    run: Path, cache: Path, file: str, words: str
) -> None:
    rename_within(run / file, OTHER)
    code, said = verify(run, cache)
    assert code == 1
    expected = words.format(run=run)
    assert any(t.startswith(f"predictions/r/{file}: ") and expected in t for t in said), said
    options = ReportOptions(EvaluatorKind.NONE, "", "", 1, 60.0, cache, None, page=False)
    with pytest.raises(UserError, match=file.replace(".", r"\.")):
        report_command([run], options, said.append)


def test_runs_with_such_files_are_not_combined(run: Path, cache: Path, tmp_path: Path) -> None:
    other = shutil.copytree(run, tmp_path / "out/predictions/s")
    rename_within(other / f"{ONE}.json", "../../x")
    options = ReportOptions(EvaluatorKind.NONE, "", "", 1, 60.0, cache, None, name="both")
    with pytest.raises(UserError, match=rf"s/{ONE}\.json is not .*'\.\./\.\./x' cannot be an id"):
        report_command([run, other], options, lambda _: None)
    assert not (tmp_path / "out/predictions/both").exists()


def test_a_damaged_ledger_is_used_without_the_line(run: Path, cache: Path) -> None:
    ledger = run / "ledger.jsonl"
    first, *rest = ledger.read_text().splitlines(keepends=True)
    ledger.write_text("".join(["[" * 100_000 + "\n", first, first, *rest]))
    options = ReportOptions(EvaluatorKind.NONE, "", "", 1, 60.0, cache, None, page=False)
    said: list[str] = []
    report_command([run], options, said.append)
    assert sum(line.startswith(f"note: {ledger}, line 1: it is nested") for line in said) == 1
    assert sum(line.startswith(f"note: {ledger}, line 3: it is the same") for line in said) == 1
    code, said = verify(run, cache)
    assert code == 1
    assert [line.split(": ")[:2] for line in said[:2]] == [
        ["predictions/r/ledger.jsonl", "line 1"], ["predictions/r/ledger.jsonl", "line 3"],
    ]  # fmt: skip


@pytest.fixture
def package(made: Made, tmp_path: Path) -> Path:
    return shutil.copytree(made.package, tmp_path / "package")


def validated(package: Path, made: Made) -> list[str]:
    said: list[str] = []
    assert validate_command(package, made.packaging, said.append) == 1
    return said


@pytest.mark.parametrize("content", ["[" * 60_000, "[" * 30_000, "a:\n  - " * 8_000])
def test_metadata_of_brackets_are_refused_at_once(made: Made, package: Path, content: str) -> None:
    (metadata,) = package.rglob("metadata.yaml")
    metadata.write_text(content)
    started = time.process_time()
    said = validated(package, made)
    assert time.process_time() - started < 10, "it took more than a minute in version 0.5"
    assert any("metadata.yaml: is not YAML" in line for line in said)


def test_a_package_that_contradicts_itself_names_both_places(made: Made, package: Path) -> None:
    predictions = package / "artifacts/all_preds.jsonl"
    predictions.write_text(predictions.read_text() + predictions.read_text().splitlines()[0])
    rename_within(package / f"artifacts/trajs/{OTHER}.json", ONE)
    said = validated(package, made)
    both = "all_preds.jsonl:7: 2 predictions for", "the other is at artifacts/all_preds.jsonl:1"
    assert any(all(words in line for words in both) for line in said)
    words = f"{OTHER}.json: instance_id: is the trajectory of '{ONE}', but is named {OTHER}"
    assert any(words in line for line in said)
