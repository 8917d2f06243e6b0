"""Runs that version 0.12.0 wrote are read as it read them (tests/data/run-0.12/README.md)."""

from __future__ import annotations

import gzip
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from exercises.tests.commands import CANITEDIT, EDITPACK, EXERCISM
from swe_retry.report.package.commands import package_command
from swe_retry.runner.settings import FolderSettings
from tests.support import TOP, read_json
from tests.support.commands import Preloaded
from tests.support.evaluated import split_of_dataset

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


def run_report(preloaded: Preloaded, *argv: object) -> tuple[int, str]:
    """Return the exit code of ``report.py`` and what it printed."""
    process = preloaded.start(*map(str, argv), script="report.py")
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
def test_verification_finds_nothing_and_the_report_gives_the_same_values(
    runs: Path, preloaded: Preloaded, name: str
) -> None:
    folder = runs / "predictions" / name
    code, printed = run_report(preloaded, "verify", folder)
    assert code == 0, printed
    for derived in ("results.json", "stats.json", "all_preds.jsonl"):
        (folder / derived).unlink()
    settings = f"--set report.page=false --set folders.cache={runs}/cache"
    options = f"--evaluator none {settings}".split()
    options += ["--format", "markdown"]
    code, table = run_report(preloaded, folder, *options)
    assert code in (0, 1), table
    recorded = read_derived(RECORDED / "predictions" / name)
    if name == "evidence":
        # The scripts' dollars were left out, and the winner of all attempts was taken for each.
        del recorded["stats.json"]["bought"]
    assert restrict(read_derived(folder), recorded) == recorded
    assert table == (RECORDED / f"printed/{name}-table.txt").read_text()


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
    options = f"--continue {name} --out {runs} --set folders.cache={runs}/cache"
    process = preloaded.start(*options.split(), cwd=runs)
    printed, _ = process.communicate()
    assert process.wait() == 2
    (line,) = printed.splitlines()
    assert "0.12.0" in line


def test_the_package_is_built_again(runs: Path, tmp_path: Path) -> None:
    package = tmp_path / "package"
    meta = shutil.copytree(RECORDED / "meta", tmp_path / "meta") / "meta.yaml"
    printed: list[str] = []
    with split_of_dataset("lite", "demo"):
        code = package_command(
            runs / "predictions/packaged",
            package,
            printed.append,
            split="lite",
            meta_file=meta,
            folders=FolderSettings(cache=tmp_path / "cache"),
            dataset_name="",
        )
    assert code == 0, printed
    assert read_folder(package) == read_folder(RECORDED / "package")


def read_folder(top: Path) -> dict[str, bytes]:
    """Return the files below a folder; what is compressed holds the time of its writing."""
    files = {}
    for path in filter(Path.is_file, top.rglob("*")):
        data = path.read_bytes()
        if path.suffix == ".gz":
            data = gzip.decompress(data)
        files[path.relative_to(top).as_posix()] = data
    return files


BENCHMARKS = {"exercism": EXERCISM, "canitedit": CANITEDIT}


@pytest.mark.parametrize(
    ("report", "run", "printed"),
    [
        (
            "exercism report --set report.page=false",
            "exercism",
            "exercism-report.txt",
        ),
        ("canitedit report", "canitedit/gpt-4o", "canitedit-report.txt"),
        (
            "canitedit report --format markdown",
            "canitedit/gpt-4o",
            "canitedit-report.md",
        ),
        (
            "canitedit report --set report.by=change_kind",
            "canitedit/gpt-4o",
            "canitedit-by-change-kind.txt",
        ),
    ],
)
def test_the_report_of_exercises_is_the_same(
    runs: Path, report: str, run: str, printed: str
) -> None:
    benchmark, _, options = report.partition(" ")
    text = BENCHMARKS[benchmark].output(f"{options} {runs}/predictions/{run}")
    recorded = (RECORDED / "printed" / printed).read_text()
    assert without_intervals(text) == without_intervals(recorded)


def without_intervals(text: str) -> str:
    """Return a report without intervals of differences, which had another method, and spaces."""
    text = re.sub(r"[+-][0-9.]+ to [+-][0-9.]+", "INTERVAL", text)
    return re.sub(r" +|-{4,}", " ", text)


def test_the_same_rows_of_edits_are_kept(tmp_path: Path) -> None:
    recorded = RECORDED / "editpack"
    filtered = tmp_path / "kept.jsonl"
    data = tmp_path / "data.jsonl"
    dropped = tmp_path / "dropped.jsonl"
    outputs = f"--out {filtered} --dropped {dropped}"
    EDITPACK.output(f"filter {recorded}/rows.jsonl {outputs}")
    EDITPACK.output(f"dedup {filtered} --out {data}")
    for path in (filtered, data, dropped):
        assert path.read_bytes() == (recorded / path.name).read_bytes(), path.name
