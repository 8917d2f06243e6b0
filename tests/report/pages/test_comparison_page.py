"""The page of a comparison: its content, and its behaviour in a browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pytest

from swe_retry.core.errors import UserError
from tests.report.pages.test_pages_browser import (
    cells,
    enter_frame,
    find,
    no_script_ran,
    run_js,
    set_theme,
    wait,
)
from tests.support import text_between
from tests.support.pages import (
    ATTACK,
    HOSTILE_NAME,
    Texts,
    make_comparison,
    make_pages,
    open_browser,
    texts,
    write_hostile_run,
)
from tests.support.reporting import write_values
from tests.support.rundata import an_instance, old_prediction, write_run

if TYPE_CHECKING:
    from selenium.webdriver.chrome.webdriver import WebDriver

# What both resolved, only one, neither, and what one of them has no verdict on.
A = {
    "own__a-1": True,
    "own__a-2": True,
    "own__b-1": False,
    "own__b-2": False,
    "own__c-1": True,
}
B = {
    "own__a-1": True,
    "own__a-2": False,
    "own__b-1": True,
    "own__b-2": False,
}


def write_runs(out: Path, *, evaluated: bool = True) -> list[Path]:
    runs = []
    for name, verdicts in (("run a", A), ("run#b", B)):
        files = []
        for instance, resolved in verdicts.items():
            file = old_prediction(instance, 1, resolved=resolved)
            if not evaluated:
                del file["resolved"]
            files.append(file)
        run = write_run(out / "predictions" / name, files)
        runs.append(run)
    return runs


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a comparison of two runs that have pages of their own."""
    out = tmp_path_factory.mktemp("compared")
    # Pages of a time before the verdicts have no pictures.
    for run in write_runs(out, evaluated=False):
        make_pages(run)
    return make_comparison(*write_runs(out))


def test_what_is_compared_stands_in_the_page(page: Path) -> None:
    text = texts(page)
    for part in (
        "Comparison of run a and run#b",
        "resolved by run#b",
        "2 of 4, 50.0\u00a0%",
        "+0.0 percentage points",
        "points (Newcombe, paired)",
        "p = 1",
        "left out: a verdict in only one run",
        "Provenance of the run run a",
    ):
        assert part in text
    assert (page.parent / "figures" / "comparison.svg").is_file()
    assert (page.parent / "figures" / "comparison.png").is_file()


ROW = re.compile(r'<tr role="row" data-id="(.*?)".*?</tr>', re.S)


def rows(page: Path) -> list[tuple[str, list[str], list[str]]]:
    """Return the id, the texts behind it and the keys of verdicts of each instance."""
    instances = []
    for row in ROW.finditer(page.read_text()):
        html = row[0]
        keys = re.findall(r'data-unit="[^"]*" data-key="(.*?)"', html)
        text = "".join(Texts(html).texts)
        instances.append((row[1], text.split("\n")[2:], keys))
    return instances


def test_instances_that_differ_come_first(page: Path) -> None:
    agreements = [(name, lines[0]) for name, lines, _ in rows(page)]
    assert agreements == [
        ("own__a-2", "differ"),
        ("own__b-1", "differ"),
        ("own__c-1", "a verdict is missing"),
        ("own__a-1", "same"),
        ("own__b-2", "same"),
    ]
    keys = {name: keys for name, _, keys in rows(page)}
    assert keys["own__a-2"] == ["resolved", "not_resolved"]
    assert keys["own__c-1"] == ["resolved", "no_prediction"]
    heading = "<h3>run a and run#b</h3>"
    table = text_between(page.read_text(), heading, "</table>")
    numbers = re.findall(r'<td [^>]*class="number">(.*?)</td>', table)
    assert numbers == ["1"] * 4
    heads = re.findall(r'<td data-head="[^"]*">(.*?)</td>', table)
    assert heads == ["resolved by run a", "not by run a"]


def test_three_runs_are_compared_each_with_each(tmp_path: Path) -> None:
    third = [old_prediction("zz__z-1", 1, resolved=True)]
    runs = write_runs(tmp_path)
    runs.append(write_run(tmp_path / "predictions" / "c", third))
    page = make_comparison(*runs)
    titles = re.findall(r"<section>\n<h3>(.*?)</h3>", page.read_text())
    assert titles == ["run a and run#b", "run a and c", "run#b and c"]
    assert "Comparison of run a, run#b and c" in texts(page)
    assert "not evaluated: no instance has a verdict in both runs" in texts(page)
    agreements = {name: lines[0] for name, lines, _ in rows(page)}
    assert list(agreements)[:2] == ["own__a-2", "own__b-1"]
    assert agreements["zz__z-1"] == "a verdict is missing"


def test_links_lead_to_pages_that_are_there(page: Path, tmp_path: Path) -> None:
    links = Texts(page.read_text()).links
    of_reports = [link for link in links if "report.html" in link]
    assert len(of_reports) == 2 + len(A) + len(B)
    for link in links:
        path, _, fragment = link.partition("#")
        if path:
            assert (page.parent / unquote(path)).is_file()
        else:
            assert f'id="{fragment}"' in page.read_text()
    alone = make_comparison(*write_runs(tmp_path))
    links = Texts(alone.read_text()).links
    assert "report.html" not in "".join(links)


def test_names_of_folders_stay_short(tmp_path: Path) -> None:
    runs = []
    for number in range(3):
        name = "x" * 140 + str(number)
        instance = an_instance("own__a-1", resolved=None)
        runs.append(write_values(tmp_path / "predictions" / name, instance))
    of_two = make_comparison(*runs[:2]).parent.name
    of_three = make_comparison(*runs).parent.name
    assert of_two != of_three
    assert len(of_two) <= 200
    assert len(of_three) <= 200


def test_a_run_is_not_compared_with_itself(tmp_path: Path) -> None:
    run, _ = write_runs(tmp_path)
    with pytest.raises(UserError, match="given twice"):
        make_comparison(run, run)


def test_hostile_texts_make_no_elements_and_secrets_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("API_KEY", "very-secret")
    runs = [
        write_hostile_run(tmp_path, f"{HOSTILE_NAME} very-secret"),
        write_hostile_run(tmp_path, "other"),
    ]
    report = make_comparison(*runs)
    seen = Texts(report.read_text())
    assert seen.elements.count("script") == 1
    assert "svg" not in seen.elements
    assert f"{HOSTILE_NAME} [API_KEY]" in "".join(seen.texts)
    assert ATTACK in "".join(seen.texts)
    assert "very-secret" not in report.read_text()


@pytest.fixture(scope="module")
def browser() -> Iterator[WebDriver]:
    with open_browser() as driver:
        yield driver


@pytest.fixture
def opened_page(browser: WebDriver, page: Path) -> Iterator[WebDriver]:
    """The page, opened; at the end the browser's console must be empty."""
    browser.get("about:blank")
    browser.get_log("browser")
    browser.get(page.as_uri())
    yield browser
    browser.switch_to.default_content()
    assert browser.get_log("browser") == []


@pytest.mark.browser
def test_sorting_and_filters(opened_page: WebDriver) -> None:
    assert cells(opened_page, 0)[:2] == ["own__a-2", "own__b-1"]
    find(opened_page, "#instances th:nth-child(3) button").click()
    verdicts = cells(opened_page, 2)
    order = ["✗ not resolved", "✓ resolved"]
    assert verdicts == sorted(verdicts, key=order.index)
    find(opened_page, "select[name=agreement] option[value=differ]").click()
    assert sorted(cells(opened_page, 0)) == ["own__a-2", "own__b-1"]
    assert find(opened_page, "#shown").text == "2 of 5 instances"
    find(opened_page, "input[name=words]").send_keys("b-1")
    assert cells(opened_page, 0) == ["own__b-1"]
    find(opened_page, "#filters button").click()
    wait(
        opened_page,
        "return document.getElementById('shown').textContent.startsWith('5 of 5')",
    )
    assert len(cells(opened_page, 0)) == 5


@pytest.mark.browser
def test_a_verdict_opens_the_instance_in_the_page_of_its_run(
    opened_page: WebDriver,
) -> None:
    find(opened_page, "tr[data-id='own__b-1'] td:nth-child(4) a").click()
    enter_frame(opened_page)
    assert find(opened_page, "h1").text == "own__b-1"
    opened_page.switch_to.default_content()
    assert "run%23b/report/report.html#own__b-1" in opened_page.current_url


@pytest.mark.browser
def test_the_keyboard_reaches_everything(opened_page: WebDriver) -> None:
    from selenium.webdriver import ActionChains, Keys

    reached = []
    for _ in range(40):
        ActionChains(opened_page).send_keys(Keys.TAB).perform()
        html = run_js(opened_page, "return document.activeElement.outerHTML")
        reached.append(str(html))
    for part in (
        'name="words"',
        'name="agreement"',
        ">Verdicts</button>",
        "#own__b-2",
        "<summary",
    ):
        assert any(part in element for element in reached), part


@pytest.mark.browser
def test_the_picture_is_drawn_in_both_themes(opened_page: WebDriver) -> None:
    seen = set()
    for theme in ("light", "dark"):
        set_theme(opened_page, theme)
        script = "return getComputedStyle(document.body).color + document.images[0].currentSrc"
        seen.add(run_js(opened_page, script))
    opened_page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    assert len(seen) == 2


@pytest.mark.browser
@pytest.mark.parametrize("width", [320, 390, 1280])
def test_nothing_is_wider_than_the_screen(opened_page: WebDriver, width: int) -> None:
    metrics = {
        "width": width,
        "height": 800,
        "deviceScaleFactor": 1,
        "mobile": width < 500,
    }
    opened_page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    try:
        width_of_page = run_js(
            opened_page,
            "return document.documentElement.scrollWidth",
        )
        assert width_of_page <= width
    finally:
        opened_page.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@pytest.mark.browser
def test_hostile_texts_run_no_script(browser: WebDriver, tmp_path: Path) -> None:
    runs = [write_hostile_run(tmp_path, f"{HOSTILE_NAME} {n}") for n in (1, 2)]
    for run in runs:
        make_pages(run)
    report = make_comparison(*runs)
    browser.get_log("browser")
    browser.get(report.as_uri())
    no_script_ran(browser, scripts=1)
    assert "<script>" in find(browser, "body").text
    assert browser.get_log("browser") == []
    [picture] = (report.parent / "figures").glob("*.svg")
    browser.get(picture.as_uri())
    assert (
        run_js(browser, "return document.querySelectorAll('script, [onload]').length")
        == 0
    )
    assert run_js(browser, "return document.querySelector('parsererror') === null")
