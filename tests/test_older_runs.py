"""Runs that version 0.12.0 wrote are read as it read them (tests/data/run-0.12/README.md)."""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support import TOP, read_json
from tests.support.commands import Preloaded

RECORDED = TOP / "tests/data/run-0.12"
EVALUATED = ("demo", "full-suite", "evidence", "history", "feedback", "combined")
NOT_EVALUATED = ("own", "packaged")
RUNS = (*EVALUATED, *NOT_EVALUATED)


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A copy of the runs, with the folders ``predictions`` and ``logs``."""
    for name in ("predictions", "logs"):
        shutil.copytree(RECORDED / name, tmp_path / name)
    return tmp_path


def run_report(preloaded: Preloaded, *words: object) -> tuple[int, str]:
    """Return the exit code of ``report.py`` and what it printed."""
    process = preloaded.start(*map(str, words), script="report.py")
    printed, _ = process.communicate()
    return process.wait(), printed


def read_derived(folder: Path) -> dict[str, Any]:
    """Return what the report derives from a run."""
    lines = (folder / "all_preds.jsonl").read_text().splitlines()
    return {
        "results.json": read_json(folder / "results.json"),
        "stats.json": read_json(folder / "stats.json"),
        "all_preds.jsonl": [json.loads(line) for line in lines],
    }


def restrict(value: Any, other: Any) -> Any:
    """Return a JSON value without the keys that ``other`` lacks: statistics are added."""
    if isinstance(value, dict) and isinstance(other, dict):
        return {key: restrict(value[key], other[key]) for key in value if key in other}
    return value


@pytest.mark.parametrize("name", RUNS)
def test_the_report_gives_the_same_values(
    runs: Path, preloaded: Preloaded, name: str
) -> None:
    folder = runs / "predictions" / name
    for derived in ("results.json", "stats.json", "all_preds.jsonl"):
        (folder / derived).unlink()
    settings = ("report.page=false", f"folders.cache={runs / 'cache'}")
    options = ["--evaluator", "none"]
    for setting in settings:
        options += ["--set", setting]
    code, printed = run_report(preloaded, folder, *options)
    assert code in (0, 1), printed
    recorded = read_derived(RECORDED / "predictions" / name)
    assert restrict(read_derived(folder), recorded) == recorded
    table = run_report(preloaded, folder, "--format", "markdown", *options)[1]
    assert table == (RECORDED / f"printed/{name}-table.txt").read_text()


@pytest.mark.parametrize("name", RUNS)
def test_verification_finds_nothing(
    runs: Path, preloaded: Preloaded, name: str
) -> None:
    folder = runs / "predictions" / name
    code, printed = run_report(preloaded, "verify", folder)
    assert code == 0, printed


def test_a_statistic_that_version_lacked_is_no_difference(
    runs: Path, preloaded: Preloaded
) -> None:
    folder = runs / "predictions" / "demo"
    stats = read_json(folder / "stats.json")
    del stats["effort"]["reflections"]
    (folder / "stats.json").write_text(json.dumps(stats))
    code, printed = run_report(preloaded, "verify", folder)
    assert code == 0, printed
    assert "not checked, as version 0.12.0 differs in it" in printed
    assert "reflections" in printed
    stats["effort"]["calls"]["known"] += 1
    (folder / "stats.json").write_text(json.dumps(stats))
    code, printed = run_report(preloaded, "verify", folder)
    assert code == 1
    assert "effort.calls.known" in printed


@pytest.mark.parametrize("name", ["demo", "own"])
def test_it_is_not_continued(runs: Path, preloaded: Preloaded, name: str) -> None:
    words = (
        "--continue",
        name,
        "--out",
        str(runs),
        "--set",
        "folders.cache=" + str(runs / "cache"),
    )
    process = preloaded.start(*words, cwd=runs)
    printed, _ = process.communicate()
    assert process.wait() == 2
    (line,) = printed.splitlines()
    assert "0.12.0" in line


def test_the_package_is_built_again(
    runs: Path, preloaded: Preloaded, tmp_path: Path
) -> None:
    package = tmp_path / "package"
    meta = shutil.copytree(RECORDED / "meta", tmp_path / "meta") / "meta.yaml"
    options = ("--split", "lite", "--meta", meta, "--dataset", "demo")
    run = runs / "predictions/packaged"
    code, printed = run_report(preloaded, "package", run, package, *options)
    assert code == 0, printed
    assert read_folder(package) == read_folder(RECORDED / "package")


def read_folder(top: Path) -> dict[str, bytes]:
    """Return the files below a folder; what is compressed holds the time of its writing."""
    files = {}
    for path in top.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            name = path.relative_to(top).as_posix()
            files[name] = gzip.decompress(data) if path.suffix == ".gz" else data
    return files


def run_exercises(benchmark: str, *words: object) -> str:
    """Return what a command of a benchmark printed."""
    command = [sys.executable, "-m", f"exercises.{benchmark}", *map(str, words)]
    return subprocess.run(
        command, cwd=TOP, capture_output=True, text=True, check=True
    ).stdout


def test_the_report_of_exercism_is_the_same(runs: Path) -> None:
    options = ("--set", "report.page=false")
    printed = run_exercises(
        "exercism", "report", runs / "predictions/exercism", *options
    )
    assert printed == (RECORDED / "printed/exercism-report.txt").read_text()


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("report.txt", ()),
        ("report.md", ("--format", "markdown")),
        ("by-change-kind.txt", ("--set", "report.by=change_kind")),
    ],
)
def test_the_report_of_canitedit_is_the_same(
    runs: Path,
    name: str,
    options: tuple[str, ...],
) -> None:
    printed = run_exercises(
        "canitedit", "report", runs / "predictions/canitedit/gpt-4o", *options
    )
    assert printed == (RECORDED / f"printed/canitedit-{name}").read_text()


def test_the_same_rows_of_edits_are_kept(tmp_path: Path) -> None:
    recorded = RECORDED / "editpack"
    kept = tmp_path / "kept.jsonl"
    data = tmp_path / "data.jsonl"
    dropped = tmp_path / "dropped.jsonl"
    run_exercises(
        "editpack",
        "filter",
        recorded / "rows.jsonl",
        "--out",
        kept,
        "--dropped",
        dropped,
    )
    run_exercises("editpack", "dedup", kept, "--out", data)
    for path in (kept, data, dropped):
        assert path.read_bytes() == (recorded / path.name).read_bytes(), path.name
