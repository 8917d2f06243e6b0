"""No verdicts are not 0 %, and tables, JSON and comparisons only read files."""

from __future__ import annotations

import shutil
from decimal import Decimal
from pathlib import Path

import pytest

from swe_retry.report.plots.style import new_figure, percent_axis
from tests.support import contents_below, read_json
from tests.support.evaluated import TEXTKIT, UNITS
from tests.support.reported import replay, report_run
from tests.support.reporting import compare, comparisons, write_values
from tests.support.rundata import an_attempt, an_instance


@pytest.fixture(scope="module")
def demo_out(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Path:
    out = tmp_path_factory.mktemp("out")
    replay(out, cache, TEXTKIT, UNITS)
    return out


@pytest.fixture
def run(demo_out: Path, tmp_path: Path) -> Path:
    return shutil.copytree(demo_out, tmp_path / "r") / "predictions/r"


def test_no_verdicts_are_not_zero_percent(run: Path, cache: Path) -> None:
    text = report_run(run, cache, page=True).text
    assert "resolved           –  not evaluated" in text
    assert "0.0 %" not in text
    assert "interval" not in text
    assert "UNOFFICIAL" not in text
    stats = read_json(run / "stats.json")
    assert stats["scores"]["selected"]["share"] is None
    assert stats["by_attempt"]
    for row in stats["by_attempt"]:
        assert row["score"]["share"] is None
    table = report_run(run, cache, format="markdown").text
    assert " 0.0 % to" not in table
    assert "selected instances: not evaluated" in table
    assert "| Total |  | 2 | 100.0 % | – | – | – |" in table
    page = (run / "report/report.html").read_text()
    assert "0.0 % to" not in page
    assert "<img" not in page
    assert not (run / "report/figures").exists()


def test_a_comparison_without_common_verdicts_has_no_p_value(
    run: Path, cache: Path, tmp_path: Path
) -> None:
    other = replay(tmp_path / "s", cache, TEXTKIT, run="s")
    before = contents_below(tmp_path)
    text = "\n".join(compare(run, other))
    assert "p = 1" not in text
    assert "0 of 0" not in text
    reason = "not evaluated: no instance has a verdict in both runs"
    assert f"McNemar's exact test: {reason}" in text
    (comparison,) = comparisons(run, other)
    for name in ("p_value", "difference", "interval"):
        assert comparison[name] is None
    # It evaluates nothing: it writes its page alone, without a picture.
    after = contents_below(tmp_path)
    assert before.items() <= after.items()
    new = after.keys() - before
    assert new
    for path in new:
        assert path.is_relative_to(tmp_path / "r/comparisons")
    assert not list(tmp_path.rglob("*.svg"))


def write_compared(
    out: Path, name: str, *instances: tuple[str, str, bool | None]
) -> Path:
    """Write a run of ids, patches and verdicts; another model left each empty patch."""
    written = []
    for instance_id, patch, resolved in instances:
        model = "m" if patch else "silent"
        attempt = an_attempt(model=model, model_patch=patch, cost=Decimal(1))
        written.append(
            an_instance(
                instance_id,
                model_patch=patch,
                status="plausible" if patch else "empty",
                attempts=(attempt,),
                resolved=resolved,
            )
        )
    return write_values(out / "predictions" / name, *written)


EVALUATED = (("a__a-1", "p", True), ("a__a-2", "p", True), ("a__a-3", "p", False))


@pytest.mark.parametrize(
    "instances",
    [
        # Not evaluated at all.
        [("a__a-1", "", None), ("a__a-2", "", None), ("a__a-3", "q", None)],
        # Evaluated on what the other run lacks, by its verdict or by its prediction.
        [("a__a-1", "", None), ("a__a-3", "q", None), ("b__b-1", "q", True)],
    ],
)
def test_empty_predictions_of_a_run_without_an_evaluation_are_no_difference(
    tmp_path: Path, instances: list[tuple[str, str, bool | None]]
) -> None:
    a = write_compared(tmp_path, "a", *EVALUATED)
    b = write_compared(tmp_path, "b", *instances)
    text = "\n".join(compare(a, b))
    assert "points" not in text
    assert "not evaluated: no instance has a verdict in both runs" in text
    (comparison,) = comparisons(a, b)
    assert comparison["difference"] is None
    assert comparison["only_a"] == []
    page = (tmp_path / "comparisons/a--vs--b/report.html").read_text()
    assert "percentage points" not in page
    assert 'data-agreement="differ"' not in page


def test_empty_predictions_of_a_run_that_was_evaluated_are_failures(
    tmp_path: Path,
) -> None:
    a = write_compared(tmp_path, "a", *EVALUATED)
    instances = [("a__a-1", "", None), ("a__a-2", "q", None), ("a__a-3", "q", True)]
    b = write_compared(tmp_path, "b", *instances)
    (comparison,) = comparisons(a, b)
    assert comparison["only_a"] == ["a__a-1"]
    assert comparison["only_b"] == ["a__a-3"]
    page = (tmp_path / "comparisons/a--vs--b/report.html").read_text()
    assert page.count('data-agreement="differ"') == 2
    # A run without any patch needs no evaluator.
    c = write_compared(tmp_path, "c", *[(name, "", None) for name, _, _ in EVALUATED])
    (comparison,) = comparisons(a, c)
    assert comparison["only_a"] == ["a__a-1", "a__a-2"]


def test_no_model_has_a_score_in_a_run_that_was_not_evaluated(
    tmp_path: Path, cache: Path
) -> None:
    instances = [("a__a-1", "", None), ("a__a-2", "p", None), ("a__a-3", "", None)]
    run = write_compared(tmp_path, "r", *instances)
    printed = report_run(run, cache, format="markdown", page=True)
    assert "| silent | 2 | – | – |" in printed.text
    stats = read_json(run / "stats.json")
    for rows in ("by_model", "by_repository", "by_year"):
        for row in stats[rows]:
            assert row["evaluated"] == 0
            assert row["resolved"]["share"] is None
    assert stats["scores"]["evaluated"]["of"] == 0
    assert set(stats["plausible"].values()) == {0, None}
    assert stats["failures"]["not_evaluated"] == [
        {"reason": "not evaluated yet", "count": 1}
    ]
    page = (run / "report/report.html").read_text()
    assert "0.0 %" not in page
    assert "✗ no patch" in page


def test_a_free_run_has_no_price_per_resolved_instance(
    tmp_path: Path, cache: Path
) -> None:
    attempt = an_attempt(cost=Decimal(0), outcomes_known=False)
    free = an_instance("a__a-1", attempts=(attempt,), cost=Decimal(0))
    failed = an_instance(
        "a__a-2",
        resolved=False,
        attempts=(attempt,),
        cost=Decimal(0),
    )
    run = write_values(tmp_path / "r", free, failed)
    printed = report_run(run, cache, page=True)
    assert "resolved           1  50.0 % of the selected" in printed.text
    (cost,) = printed.starting("cost")
    assert cost.split() == ["cost", "$0.00"]
    assert "$0.00 per" not in (run / "report/report.html").read_text()


def test_a_format_changes_only_what_is_printed(run: Path, cache: Path) -> None:
    report_run(run, cache)
    before = contents_below(run)
    for format in ("text", "markdown", "json"):
        report_run(run, cache, format=format)
        assert contents_below(run) == before


@pytest.mark.parametrize(
    "high",
    [0.0, 0.004, 0.03, 0.11, 0.5, 0.87, 1.4],
)
@pytest.mark.parametrize(
    "low",
    [0.0, -0.02, -0.7, -1.3],
)
def test_labels_of_an_axis_differ(low: float, high: float) -> None:
    figure, axes = new_figure()
    percent_axis(axes.xaxis, low, high)
    figure.canvas.draw()
    labels = [tick.get_text() for tick in axes.get_xticklabels()]
    assert len(set(labels)) == len(labels) >= 2
    assert not {"120%", "\N{MINUS SIGN}0%"} & set(labels)
