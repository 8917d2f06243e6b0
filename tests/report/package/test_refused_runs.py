"""Runs that cannot be packaged, and their messages."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from swe_retry.cli.report import main
from swe_retry.core.errors import InfrastructureError, UserError
from swe_retry.instances.dataset import Dataset
from swe_retry.report.package import commands
from tests.report.package.conftest import Refusal, readme_of
from tests.support import read_json
from tests.support.evaluated import (
    IDS,
    RESOLVED,
    ROW,
    Build,
    change_json,
    entry_of,
    write_verdicts,
)

Spoil = Callable[[Path], object]


def test_an_incomplete_run_is_packaged_only_when_asked_for(
    build: Build, refusal: Refusal, run: Path
) -> None:
    (run / f"{IDS[0]}.json").unlink()
    (run / f"verdicts/{IDS[1]}.json").unlink()
    refused = refusal()
    assert re.search(f"1 of the 6 .* no prediction, as {IDS[0]}.*partial", refused)
    code, folder, lines = build(partial=True)
    assert code == 0, lines
    assert read_json(entry_of(folder) / "results/results.json") == {
        "no_generation": [IDS[0]],
        "no_logs": [IDS[1]],
        "resolved": [IDS[2]],
    }
    text = readme_of(folder).replace("\n", " ")
    assert "Without a patch: 1; without an evaluation's report: 1." in text


def removes(name: str) -> Spoil:
    return lambda run: (run / name).unlink()


def report_of(run: Path) -> Path:
    return run.parent.parent / f"logs/r/{IDS[0]}.report.json"


def contradict(run: Path) -> None:
    path = report_of(run)
    change_json(path, lambda data: data[IDS[0]].update(resolved=False))


def set_dataset(run: Path) -> None:
    name = "SWE-bench/SWE-bench_Verified"
    path = run / "run.json"
    change_json(path, lambda data: data["dataset"].update(name=name))


@pytest.mark.parametrize(
    ("spoil", "problem"),
    [
        (
            lambda run: write_verdicts(run, RESOLVED, "local"),
            "evaluated by local, which is not official",
        ),
        (lambda run: shutil.rmtree(run / "verdicts"), "the run is not evaluated"),
        (removes(f"verdicts/{IDS[2]}.json"), "not evaluated: evaluate the run"),
        (removes("run.json"), "no run.json"),
        (removes(f"{IDS[1]}.md"), "is missing: a package needs the trajectory"),
        (contradict, "the verdict says resolved, but .* does not"),
        (lambda run: report_of(run).write_text("{}"), "is not a report on"),
        (set_dataset, "submit it with --split verified, not lite"),
    ],
)
def test_a_run_that_gives_no_package_leaves_nothing(
    spoil: Spoil,
    problem: str,
    refusal: Refusal,
    run: Path,
    tmp_path: Path,
) -> None:
    spoil(run)
    assert re.search(problem, refusal())
    names = [path.name for path in tmp_path.iterdir()]
    assert sorted(names) == ["meta", "out"]


def test_the_split_decides_which_ids_a_package_has(
    refusal: Refusal, rows_file: Callable[..., Path]
) -> None:
    """The data set that the run was made on, or that is named, does not."""
    others = [{**ROW, "instance_id": f"x__y-{number}"} for number in range(6)]
    rows = rows_file(others)
    assert f"{IDS[0]}, " in refusal(rows=rows)
    assert "are not in the dataset of --split lite" in refusal(rows=rows, partial=True)
    named = refusal(rows=rows, dataset="demo")
    assert named.startswith("--dataset demo is not the dataset of --split lite")


def test_the_rows_are_those_that_the_leaderboard_tests(
    refusal: Refusal, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(name: str, split: str) -> Dataset:
        if name == "lite":
            raise InfrastructureError("the hub cannot be reached; --dataset demo")
        raise UserError(f"{name}, {split}")

    monkeypatch.setattr(commands, "load_dataset", load)
    change_json(run / "run.json", lambda data: data["dataset"].update(split="dev"))
    lite = commands.SPLITS["lite"]
    assert refusal(rows=lite) == f"{lite}, test"
    assert refusal(rows=lite, dataset="lite@v1") == "lite@v1, test"
    assert refusal(rows=lite, dataset="lite").startswith("the ids of --split lite are")


def test_a_package_that_is_there_is_not_written_over(
    build: Build, refusal: Refusal
) -> None:
    _, folder, _ = build()
    readme = entry_of(folder) / "README.md"
    before = readme.stat().st_mtime_ns
    assert "exists already" in refusal(name="Other")
    _, other, _ = build(target="other")
    assert entry_of(other).is_dir()
    assert readme.stat().st_mtime_ns == before


@pytest.mark.parametrize(
    "arguments",
    [["package", "run", "d"], []],
)
def test_the_command_line_names_what_is_missing(
    arguments: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["report.py", *arguments])
    assert main() == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert error.count("\n") == 1
