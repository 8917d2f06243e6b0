"""Pictures: text as text, every number shown, and names of any kind."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from xml.etree import ElementTree

import pytest

from core.redaction import Redactor
from reports.plots.style import DARK, LIGHT, Theme, label
from reports.plots.write import (
    AttemptBar,
    FigureData,
    RepositoryBar,
    Score,
    draw_figures,
    write_figures,
)
from reports.statistics.collect import Confusion, LimitedRun
from reports.statistics.comparing import RunComparison, compare_verdicts
from reports.statistics.methods import Interval, Share
from tests.support import TOP

WEIRD = "a$b$_^{x}\\frac<&\"'>\x00\x1b[31m日本\u202e"


def limited(attempts: int, dollars: str, resolved: int) -> LimitedRun:
    share = Share.made(resolved, 300)
    return LimitedRun(attempts, share, False, Decimal(dollars), 0, None, None)


def difference(a: str, b: str, value: float, interval: Interval) -> RunComparison:
    return replace(compare_verdicts(a, {}, b, {}), difference=value, interval=interval)


def everything(name: str = "gpt-4o") -> FigureData:
    score = Score(name, Share.made(79, 300), official=True)
    return FigureData(
        attempts=(
            AttemptBar(1, 61, 140, 7, 61 / 300),
            AttemptBar(2, 18, 31, 0, 79 / 300),
        ),
        steps=(limited(1, "300.5", 61), limited(2, "909.25", 79)),
        repositories=(
            RepositoryBar(name, name, 3, 12),
            RepositoryBar("b/b", "_opus", 1, 7),
        ),
        confusion=Confusion(60, 120, 19, 101, 1 / 3, 60 / 79),
        scores=(score, Score("run2", Share.made(0, 0), official=False)),
        differences=(difference(name, "run2", -0.05, Interval(-0.1, 0.02)),),
    )


def words(svg: str) -> list[str]:
    """Return the texts of an SVG, which must be well formed."""
    found = ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")
    return ["".join(element.itertext()) for element in found]


def test_texts_are_texts() -> None:
    by_name = {picture.name: picture for picture in draw_figures(everything())}
    expected = {
        "score-by-attempt": ["resolved", "not resolved", "not evaluated", "26.3%"],
        "cost-against-score": ["1", "2", "score"],
        "models-by-repository": ["gpt-4o", "_opus", "3/12", "1/7", "b/b"],
        "plausible-resolved": ["plausible", "not plausible", "120", "66.7% of 180"],
        "comparison": ["gpt-4o", "26.3% (79/300)", "-5.0 points", "less gpt-4o"],
    }
    assert by_name.keys() == expected.keys()
    for name, wanted in expected.items():
        for svg in (by_name[name].light, by_name[name].dark):
            assert set(wanted) <= {
                line for text in words(svg) for line in text.splitlines()
            }


def test_names_of_any_kind_can_be_drawn() -> None:
    for picture in draw_figures(everything(WEIRD)):
        for svg in (picture.light, picture.dark):
            assert words(svg)
            assert "\x1b" not in svg


def test_an_empty_part_gives_no_picture() -> None:
    assert draw_figures(FigureData()) == ()
    free = FigureData(steps=(limited(1, "0", 150),))
    assert draw_figures(free) == ()
    alone = FigureData(scores=everything().scores[:1])
    assert draw_figures(alone) == ()


def test_files_are_written_for_print(tmp_path: Path) -> None:
    pictures = write_figures(everything(), tmp_path)
    names = {
        f"{picture.name}.{kind}" for picture in pictures for kind in ("svg", "png")
    }
    assert {path.name for path in tmp_path.iterdir()} == names
    for picture in pictures:
        assert (tmp_path / f"{picture.name}.svg").read_text() == picture.light
        png = (tmp_path / f"{picture.name}.png").read_bytes()
        assert png.startswith(b"\x89PNG")
        width = struct.unpack(">I", png[16:20])[0]
        assert width >= 800


def test_secrets_in_names_are_removed(tmp_path: Path) -> None:
    redact = Redactor({"KEY": "very-secret"})
    for picture in write_figures(everything("very-secret"), tmp_path, redact):
        assert "very-secret" not in picture.light + picture.dark + picture.words


@pytest.mark.filterwarnings("error")
def test_runs_that_do_not_differ_can_be_compared() -> None:
    same = difference("a", "b", 0.0, Interval(0.0, 0.0))
    [picture] = draw_figures(
        FigureData(scores=everything().scores, differences=(same,))
    )
    assert "+0.0 points" in words(picture.light)


def test_long_names_keep_their_ends() -> None:
    short = label("openrouter/anthropic/claude-3-opus-20240229-with-more")
    assert len(short) <= 30
    assert short.startswith("openrouter/")
    assert short.endswith("-with-more")
    assert label("a/b") == "a/b"


def luminance(colour: str) -> float:
    """Return the relative luminance (WCAG 2.2) of ``#rrggbb``."""
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [
        p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", [LIGHT, DARK])
def test_colours_differ_without_their_hue(theme: Theme) -> None:
    assert contrast(theme.ink, theme.paper) >= 7
    assert contrast(theme.good, theme.bad) >= 2
    assert contrast(theme.good, theme.paper) >= 3


def test_a_configuration_in_the_current_folder_does_not_count(tmp_path: Path) -> None:
    (tmp_path / "matplotlibrc").write_text("lines.linewidth: 99\n")
    code = "import matplotlib; from reports.plots.style import LIGHT, drawing\n"
    code += "with drawing(LIGHT):\n    print(matplotlib.rcParams['lines.linewidth'])\n"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(TOP)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "1.5\n"
