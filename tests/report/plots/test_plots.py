"""Pictures: text as text, every number shown, and names of any kind."""

from __future__ import annotations

import base64
import os
import re
import struct
import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal
from html import unescape
from itertools import islice
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from swe_retry.core.redaction import Redactor
from swe_retry.report.plots.picture import Picture
from swe_retry.report.plots.run import run_pictures
from swe_retry.report.plots.style import DARK, LIGHT, Theme, label
from swe_retry.report.statistics.collect import collect
from swe_retry.report.statistics.denominators import split_of
from swe_retry.results.rundata import InstanceData
from tests.support import TOP
from tests.support.pages import make_comparison, make_pages
from tests.support.reporting import write_values
from tests.support.rundata import a_run, an_attempt, an_instance

WEIRD = "a$b$_^{x}\\frac<&\"'>\x00\x1b[31m日本\u202e"
FAILED = {"status": "tests_failed", "test_outcome": False, "model_patch": "q"}


def evaluated_instances(
    name: str = "gpt-4o", other: str = "_opus"
) -> list[InstanceData]:
    """Return instances of two models, of which ``name`` made the first attempts."""
    first = an_attempt(model=name)
    second = an_attempt(2, model=other)
    tried = first.but(**FAILED)
    kinds: list[dict[str, Any]] = [
        {},
        {},
        {"resolved": False},
        {"status": "fallback"},
    ]
    instances = []
    for number, kind in enumerate(kinds):
        instance = an_instance(
            f"x__b-{number}",
            repo="x/b",
            attempts=(first,),
            **kind,
        )
        instances.append(instance)
    unevaluated = an_instance("b__b-7", resolved=None, attempts=(first,))
    late = an_instance(
        "b__b-9",
        repo="b/b",
        attempt=2,
        attempts=(tried, second),
    )
    empty = late.but(
        instance_id="b__b-8",
        model_patch="",
        status="empty",
        verdict=None,
    )
    return [*instances, unevaluated, late, empty]


def svg_texts(svg: str) -> list[str]:
    """Return the texts of an SVG, which must be well formed."""
    elements = ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")
    return ["".join(element.itertext()) for element in elements]


def svg_lines(svg: str) -> set[str]:
    lines = set()
    for text in svg_texts(svg):
        lines.update(text.splitlines())
    return lines


def pictures(page: Path) -> dict[str, tuple[str, str]]:
    """Return the alternative text and the dark form of each picture of a page, by its name."""
    by_name = {}
    for figure in re.findall(r"<figure>.*?</figure>", page.read_text(), re.S):
        name = re.search(r'href="figures/(.*?)\.svg"', figure)
        code = re.search(r'srcset="data:image/svg\+xml;base64,(.*?)"', figure)
        alt = re.search(r'alt="(.*?)"', figure, re.S)
        assert name
        assert code
        assert alt
        dark = base64.b64decode(code[1]).decode()
        by_name[name[1]] = (unescape(alt[1]), dark)
    return by_name


def draw_pictures(*instances: InstanceData) -> Iterator[Picture]:
    """Yield the pictures of a run; each is drawn when it is taken."""
    run = a_run(*instances)
    stats = collect(run, split_of("", "", 0))
    return run_pictures(run, stats, Redactor())


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("drawn") / "r"
    run = write_values(folder, *evaluated_instances(), described={})
    return make_pages(run)


def test_texts_are_texts(page: Path) -> None:
    expected = {
        "score-by-attempt": ["resolved", "not resolved", "not evaluated", "57.1 %"],
        "cost-against-score": ["1", "2", "score", "$2"],
        "models-by-repository": ["gpt-4o", "_opus", "3/4", "1/2", "b/b", "x/b"],
        "plausible-resolved": ["plausible", "not plausible", "3", "75.0 % of 4"],
    }
    assert pictures(page).keys() == expected.keys()
    for name, labels in expected.items():
        light = (page.parent / f"figures/{name}.svg").read_text()
        _, dark = pictures(page)[name]
        assert light != dark
        for svg in (light, dark):
            assert set(labels) <= svg_lines(svg)


def test_the_alternative_text_has_every_number(page: Path) -> None:
    alternatives = {name: alt for name, (alt, _) in pictures(page).items()}
    assert alternatives["score-by-attempt"] == (
        "Score by attempt: attempt 1: 3 resolved, 1 not, 1 not evaluated, score so far "
        "42.9 %; attempt 2: 1 resolved, 1 not, 0 not evaluated, score so far 57.1 %"
    )
    assert alternatives["cost-against-score"] == (
        "Cost against score: 1 attempt: $7.00, 42.9 %; 2 attempts: $9.00, 57.1 %"
    )
    assert alternatives["models-by-repository"] == (
        "Models by repository: x/b, gpt-4o: 3 of 4; b/b, _opus: 1 of 2"
    )
    assert alternatives["plausible-resolved"] == (
        "Plausible against resolved: plausible: 3 resolved, 1 not; "
        "not plausible: 1 resolved, 1 not"
    )


def test_an_empty_part_gives_no_picture(tmp_path: Path) -> None:
    instances = evaluated_instances()[:4]
    unknown = [instance.but(verdict=None) for instance in instances]
    page = make_pages(write_values(tmp_path / "unknown", *unknown))
    assert pictures(page) == {}
    assert "There is nothing to draw." in page.read_text()
    free_attempt = an_attempt(cost=Decimal(0))
    free = an_instance(attempts=(free_attempt,), cost=Decimal(0))
    unpriced = an_instance(attempts=(an_attempt(cost=None),))
    run = write_values(tmp_path / "free", free)
    for instance in (free, unpriced):
        attempt = instance.attempts[0].but(outcomes_known=False)
        silent = instance.but(attempts=(attempt,))
        names = [picture.name for picture in draw_pictures(silent)]
        assert names == ["score-by-attempt", "models-by-repository"]
    alone = make_comparison(tmp_path / "unknown", run)
    assert pictures(alone) == {}


def test_a_huge_number_of_an_attempt_is_one_bar() -> None:
    number = 10**12
    attempt = an_attempt(number)
    late = an_instance("a__a-1", attempt=number, attempts=(attempt,))
    picture = next(draw_pictures(late, an_instance("a__a-2")))
    assert f"{picture.title}: {picture.description}" == (
        "Score by attempt: attempt 1: 1 resolved, 0 not, 0 not evaluated, score so far "
        f"50.0 %; attempt {number}: 1 resolved, 0 not, 0 not evaluated, score so far 100.0 %"
    )


@pytest.mark.parametrize("cost", ["0.0000000001", "1e28"])
def test_costs_of_any_size_can_be_drawn(cost: str) -> None:
    attempt = an_attempt(cost=Decimal(cost))
    instance = an_instance(attempts=(attempt,))
    first_two = islice(draw_pictures(instance), 2)
    assert "cost-against-score" in [picture.name for picture in first_two]


def test_files_are_written_for_print(page: Path) -> None:
    folder = page.parent / "figures"
    expected = set()
    for name in pictures(page):
        expected |= {f"{name}.svg", f"{name}.png"}
        svg = (folder / f"{name}.svg").read_bytes()
        light = base64.b64encode(svg).decode()
        assert f'src="data:image/svg+xml;base64,{light}"' in page.read_text()
        png = (folder / f"{name}.png").read_bytes()
        assert png.startswith(b"\x89PNG")
        (width,) = struct.unpack(">I", png[16:20])
        assert width >= 800
    assert {path.name for path in folder.iterdir()} == expected


def test_names_of_any_kind_can_be_drawn_and_lose_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("API_KEY", "very-secret-and-longer-than-a-label-may-be")
    secret = os.environ["API_KEY"]
    instances = evaluated_instances(secret, WEIRD)
    run = write_values(tmp_path / f"of {secret}", *instances)
    other = write_values(tmp_path / f"more of {secret}", *instances)
    run_page = make_pages(run)
    assert len(pictures(run_page)) == 4
    for page in (run_page, make_comparison(run, other)):
        svgs = [path.read_text() for path in page.parent.rglob("*.svg")]
        assert any("[API_KEY]" in svg for svg in svgs)
        for alternative, dark in pictures(page).values():
            svgs.append(dark)
            assert "very-secret" not in alternative
        for svg in svgs:
            assert svg_texts(svg)
            assert "\x1b" not in svg
            assert "very-secret" not in svg


@pytest.mark.filterwarnings("error")
def test_runs_can_be_compared(tmp_path: Path) -> None:
    first = write_values(tmp_path / "a", *evaluated_instances())
    second = write_values(tmp_path / "b", *evaluated_instances())
    page = make_comparison(first, second)
    svg = (page.parent / "figures/comparison.svg").read_text()
    expected = {"a", "b", "57.1 % (4/7)", "+0.0 points"}
    assert expected <= svg_lines(svg)
    assert pictures(page)["comparison"][0] == (
        "Comparison of runs: a: 57.1 % (25.0 % to 84.2 %); b: 57.1 % (25.0 % to 84.2 %); "
        "b less a: 0.0 % (-28.6 % to 28.6 %)"
    )


def test_long_names_keep_their_ends() -> None:
    short = label("openrouter/anthropic/claude-3-opus-20240229-with-more")
    assert len(short) <= 30
    assert short.startswith("openrouter/")
    assert short.endswith("-with-more")
    assert label("a/b") == "a/b"


def luminance(colour: str) -> float:
    """Return the relative luminance (WCAG 2.2) of ``#rrggbb``."""
    weights = (0.2126, 0.7152, 0.0722)
    total = 0.0
    for byte, weight in zip(bytes.fromhex(colour[1:]), weights, strict=True):
        part = byte / 255
        linear = ((part + 0.055) / 1.055) ** 2.4
        if part <= 0.04045:
            linear = part / 12.92
        total += weight * linear
    return total


def contrast(first: str, other: str) -> float:
    low, high = sorted([luminance(first), luminance(other)])
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", [LIGHT, DARK])
def test_colours_differ_without_their_hue(theme: Theme) -> None:
    assert contrast(theme.ink, theme.paper) >= 7
    assert contrast(theme.good, theme.bad) >= 2
    assert contrast(theme.good, theme.paper) >= 3


def test_a_configuration_in_the_current_folder_does_not_count(tmp_path: Path) -> None:
    (tmp_path / "matplotlibrc").write_text("lines.linewidth: 99\n")
    code = (
        "import matplotlib; from swe_retry.report.plots.style import LIGHT, drawing\n"
    )
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
