"""The check of published ratios, and the chart of 2023 read back from its picture."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean

import pytest

from swe_retry.core.errors import DamagedFileError
from swe_retry.report.plots.style import DARK, LIGHT, Theme, as_svg, drawing
from swe_retry_exercises.exercism.chart import Bar, draw_chart
from swe_retry_exercises.exercism.records import read_records, wrong_ratios
from tests.support import from_environment

GOOD = {"model": "m", "test_cases": 133, "pass_rate_2": 54.1, "pass_num_2": 72}


def test_the_check_of_ratios() -> None:
    for change, faulty in (
        ({}, []),
        ({"pass_rate_2": 54.2}, ["pass_rate_2"]),
        ({"pass_rate_2": 54.19}, ["pass_rate_2"]),
        ({"pass_num_2": 73}, ["pass_rate_2"]),
        ({"pass_rate_1": 50.4}, []),
        ({"pass_rate_1": 50.7}, ["pass_rate_1"]),
        ({"pass_rate_1": 100.8}, ["pass_rate_1"]),
        ({"percent_cases_well_formed": 99.2, "num_with_malformed_responses": 1}, []),
        (
            {"percent_cases_well_formed": 99.2, "num_with_malformed_responses": 2},
            ["percent_cases_well_formed"],
        ),
        (
            {"percent_cases_well_formed": 100.0, "num_malformed_responses": 2},
            ["percent_cases_well_formed"],
        ),
        (
            {"percent_cases_well_formed": 97.0, "num_malformed_responses": 2},
            ["percent_cases_well_formed"],
        ),
        ({"percent_cases_well_formed": 98.5, "num_malformed_responses": 2}, []),
        ({"pass_interval_2": [45.7, 62.4]}, []),
        ({"pass_interval_2": [45.7, 63.4]}, ["pass_interval_2"]),
        ({"test_cases": None}, []),
        (
            {"test_cases": "many", "pass_rate_2": [1], "percent_cases_well_formed": {}},
            [],
        ),
    ):
        assert [key for key, _ in wrong_ratios({**GOOD, **change})] == faulty


@pytest.mark.parametrize(
    "text",
    [
        "- [",
        "a: b",
        "- 1",
        "- &a {model: x}\n- *a",
        "[" * 500,
    ],
    ids=["open", "mapping", "number", "alias", "deep"],
)
def test_broken_records_are_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.yml"
    path.write_text(text)
    with pytest.raises(DamagedFileError, match=r"a\.yml"):
        read_records(path)


@pytest.mark.long
def test_the_published_leaderboards_have_seven_faulty_records() -> None:
    faults = set()
    for path in from_environment("LEADERBOARDS").glob("*_leaderboard.yml"):
        for record in read_records(path):
            for key, _ in wrong_ratios(record):
                faults.add((record["dirname"], key))
    assert faults == {
        ("2024-09-12-19-57-35--o1-mini-whole", "percent_cases_well_formed"),
        ("2024-12-21-19-23-03--polyglot-o1-hard-diff", "pass_rate_2"),
        ("2025-01-31-20-42-47--o3-mini-diff-high", "pass_rate_2"),
        ("2025-02-15-19-51-22--chatgpt4o-feb15-diff", "pass_rate_2"),
        ("2025-02-27-20-26-15--gpt45-diff3", "pass_rate_2"),
        ("2025-06-27-23-53-57--o3-mini-high-diff-arch", "pass_rate_2"),
        ("2024-04-10-13-26-18--refac-gpt-4-turbo-2024-04-09-diff", "pass_rate_1"),
    }


# The counts of the chart of July 2023, of 133 (one of 132): after two tries, after one.
COUNTS: Mapping[str, Mapping[str, tuple[float, float]]] = {
    "gpt-3.5-turbo-0301": {"whole": (72, 61), "diff": (40, 18)},
    "gpt-3.5-turbo-0613": {
        "whole": (53.08, 52),
        "diff": (24, 22),
        "whole-func": (56, 49),
        "diff-func": (61, 41),
    },
    "gpt-3.5-turbo-16k-0613": {
        "whole": (72, 53),
        "diff": (26, 24),
        "whole-func": (54, 45),
        "diff-func": (58, 39),
    },
    "gpt-4-0314": {"whole": (91, 70), "diff": (91, 68)},
    "gpt-4-0613": {
        "whole": (90, 75),
        "diff": (86, 67),
        "whole-func": (77, 41),
        "diff-func": (79, 57),
    },
}
# Ten runs with the published mean, minimum and maximum: 53.08 %, 51.13 %, 54.14 %.
TEN = (68, 72, 71, 71, 71, 71, 71, 70, 70, 71)


def bar(
    model: str,
    edit_format: str,
    last: Sequence[float],
    first: Sequence[float] = (),
    *,
    published: bool = False,
) -> Bar:
    """Return a bar; all shares are in per cent."""
    return {
        "model": model,
        "edit_format": edit_format,
        "last": list(last),
        "first": list(first),
        "published": published,
    }


def bars_of_2023() -> list[Bar]:
    bars = []
    for model, formats in COUNTS.items():
        for edit_format, (last, first) in formats.items():
            column = (model, edit_format)
            of = 133
            if column == ("gpt-3.5-turbo-16k-0613", "whole-func"):
                of = 132
            counts: Sequence[float] = [last]
            if column == ("gpt-3.5-turbo-0613", "whole"):
                counts = TEN
            shares = [100 * count / of for count in counts]
            first_share = 100 * first / of
            bars.append(bar(model, edit_format, shares, [first_share]))
    return bars


TICK = re.compile(r'id="ytick_\d+">.*?<use [^>]*? y="([\d.]+)"', re.S)
MARK = re.compile(r'id="((?:bar|first|whisker)-[\d-]+)">\s*<path d="([^"]+)"')


def heights(svg: str) -> dict[str, list[float]]:
    """Return the values of the marks with an id, by the scale of the axis in the picture."""
    zero, *others = map(float, TICK.findall(svg))
    assert len(others) == 5
    hundred = others[-1]
    marks = {}
    for name, path in MARK.findall(svg):
        values = []
        for y in re.findall(r"[\d.]+ ([\d.]+)", path):
            height = zero - float(y)
            values.append(100 * height / (zero - hundred))
        marks[name] = values
    return marks


def chart_svg(bars: Sequence[Bar], theme: Theme) -> str:
    with drawing(theme):
        return as_svg(draw_chart(bars, theme))


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=lambda theme: theme.name)
def test_the_chart_of_2023_is_read_back_from_its_picture(theme: Theme) -> None:
    near = partial(pytest.approx, abs=0.1)
    bars = bars_of_2023()
    marks = heights(chart_svg(bars, theme))
    positions = []
    for group, formats in enumerate(COUNTS.values(), start=1):
        for number in range(1, len(formats) + 1):
            positions.append(f"{group}-{number}")
    kinds = Counter(name.partition("-")[0] for name in marks)
    assert len(bars) == 16
    assert kinds["bar"] == 16
    assert kinds["whisker"] == 1
    for position, drawn in zip(positions, bars, strict=True):
        heights_of_bar = marks[f"bar-{position}"]
        assert max(heights_of_bar) == near(fmean(drawn["last"]))
        assert min(heights_of_bar) == near(0)
        assert marks[f"first-{position}"] == near(drawn["first"] * 2)
    assert marks["whisker-2-1"] == near([51.13, 54.14])
    assert max(marks["bar-2-1"]) == near(53.08)


def test_the_chart_has_the_colours_and_the_words_of_2023() -> None:
    svg = chart_svg(bars_of_2023(), LIGHT)
    for colour in ("#b3d1e6", "#b3e6a8"):
        assert svg.count(colour) > 5
    for part in ("url(#h", "Percent of exercises completed successfully", ">54 %<"):
        assert part in svg
    assert svg == chart_svg(bars_of_2023(), LIGHT)


@pytest.mark.parametrize("others", [0, 40])
def test_the_legend_covers_nothing(others: int) -> None:
    formats = (
        "whole",
        "diff",
        "diff-fenced",
        "udiff",
        "patch",
        "whole-func",
        "diff-func",
    )
    bars = []
    for name in formats:
        bars.append(bar("a-model-with-a-long-name", name, (100.0,), (50.0,)))
    for number in range(others + 1):
        bars.append(bar(f"m{number}", "diff", (100.0,), published=True))
    with drawing(LIGHT):
        figure = draw_chart(bars, LIGHT)
        figure.draw_without_rendering()
    [axes] = figure.axes
    [legend] = figure.legends
    extent = legend.get_window_extent()
    assert len(axes.texts) == 8 + others
    for part in (axes.patch, axes.yaxis.label, *axes.texts):
        assert part.get_window_extent().y1 <= extent.y0
    assert extent.x1 < 1400  # on the first screen of a wide picture
