"""No verdicts are not 0 %, and tables, JSON and comparisons only read files."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from bench.cli.commands import run_command
from environments.base import EnvironmentKind
from reports.compare import compare_command
from reports.evaluation.settings import EvaluatorKind
from reports.named_runs import stores_of
from reports.plots.style import new_figure, percent_axis
from reports.report import report_command
from reports.settings import ReportFormat
from tests.reports.test_verify import ONE, SIX
from tests.support import runs
from tests.support.evaluated import report_settings


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Path:
    place = tmp_path_factory.mktemp("done")
    config = runs.config(environment=EnvironmentKind.NONE)
    run_command(config, runs.options(place, cache, ONE, SIX), lambda _: None)
    return place


@pytest.fixture
def out(done: Path, tmp_path: Path) -> Path:
    return shutil.copytree(done, tmp_path, dirs_exist_ok=True)


def shown(
    folders: list[Path],
    cache: Path,
    format: ReportFormat = "text",
    **changes: Any,
) -> str:
    said: list[str] = []
    settings = report_settings(cache, **{"page": True, **changes})
    report_command(folders, settings, said.append, format=format)
    return "\n".join(said)


def compared(folders: list[Path], *, as_json: bool = False) -> str:
    result: list[str] = []
    compare_command(stores_of(folders), print, result.append, as_json=as_json)
    return "\n".join(result)


def files(out: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}


def test_no_verdicts_are_not_zero_percent(out: Path, cache: Path) -> None:
    folder = out / "predictions/r"
    said = shown([folder], cache)
    assert "resolved           –  not evaluated" in said
    assert "0.0 %" not in said and "interval" not in said and "UNOFFICIAL" not in said
    stats = json.loads((folder / "stats.json").read_text())
    assert stats["scores"]["selected"]["share"] is None
    assert [row["score"]["share"] for row in stats["by_attempt"]] == [None] * len(
        stats["by_attempt"]
    )
    table = shown([folder], cache, format="markdown")
    assert " 0.0 % to" not in table and "selected instances: not evaluated" in table
    assert "| Total |  | 2 | 100.0 % | – | – | – |" in table
    page = (folder / "report/report.html").read_text()
    assert "0.0 % to" not in page and "<img" not in page
    assert not (folder / "report/figures").exists()


def test_a_comparison_without_common_verdicts_has_no_p_value(
    out: Path, cache: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = tmp_path_factory.mktemp("other")
    config = runs.config(environment=EnvironmentKind.NONE, run="s")
    run_command(config, runs.options(other, cache, ONE), lambda _: None)
    folders = [out / "predictions/r", other / "predictions/s"]
    said = compared(folders)
    assert "p = 1" not in said and "0 of 0" not in said
    assert (
        "McNemar's exact test: not evaluated: no instance has a verdict in both runs"
        in said
    )
    assert not list((out / "comparisons").rglob("*.svg"))
    (found,) = json.loads(compared(folders, as_json=True))["comparisons"]
    assert (found["p_value"], found["difference"], found["interval"]) == (
        None,
        None,
        None,
    )


def test_a_free_run_has_no_price_per_resolved_instance(out: Path, cache: Path) -> None:
    said = shown([out / "predictions/r"], cache, evaluator=EvaluatorKind.LOCAL)
    (cost,) = [line.split() for line in said.splitlines() if line.startswith("cost")]
    assert "resolved           1  50.0 % of the selected" in said
    assert cost == ["cost", "$0.00"]
    page = (out / "predictions/r/report/report.html").read_text()
    assert "$0.00 per" not in page


@pytest.mark.parametrize("format", ["text", "markdown", "json"])
def test_a_format_changes_only_what_is_printed(
    out: Path, cache: Path, format: ReportFormat
) -> None:
    shown([out / "predictions/r"], cache, page=False)
    before = files(out)
    shown([out / "predictions/r"], cache, page=False, format=format)
    assert files(out) == before


def test_a_comparison_evaluates_nothing(out: Path, cache: Path, tmp_path: Path) -> None:
    config = runs.config(environment=EnvironmentKind.NONE, run="s")
    run_command(config, runs.options(tmp_path, cache, ONE, SIX), lambda _: None)
    folders = [out / "predictions/r", tmp_path / "predictions/s"]
    before = files(out)
    compared(folders)
    new = {path.relative_to(out).parts[0] for path in files(out).keys() - before.keys()}
    assert new == {"comparisons"}
    assert {path: data for path, data in files(out).items() if path in before} == before


@pytest.mark.parametrize("high", [0.0, 0.004, 0.03, 0.11, 0.5, 0.87, 1.4])
@pytest.mark.parametrize("low", [0.0, -0.02, -0.7, -1.3])
def test_labels_of_an_axis_differ(low: float, high: float) -> None:
    figure, axes = new_figure()
    percent_axis(axes.xaxis, low, high)
    figure.canvas.draw()
    labels = [tick.get_text() for tick in axes.get_xticklabels()]
    assert len(set(labels)) == len(labels) >= 2
    assert not {"120%", "\N{MINUS SIGN}0%"} & set(labels)
