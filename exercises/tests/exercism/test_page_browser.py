"""The page of exercises in a real headless Chromium: filters, sorting, and no error."""

from __future__ import annotations

from pathlib import Path

import pytest

from exercises.tests.commands import EXERCISM
from exercises.tests.support.exercism import result, write_run
from tests.support.pages import open_browser

pytestmark = pytest.mark.browser
VISIBLE = """\
return Array.from(document.querySelectorAll('#instances tbody tr'))
  .filter(row => row.offsetParent !== null).map(row => row.dataset.id)"""
CHOOSE = """\
const box = document.querySelector(`select[name=${arguments[0]}]`);
box.value = arguments[1]; box.dispatchEvent(new Event('change', {bubbles: true}));"""


def test_filters_and_sorting(tmp_path: Path) -> None:
    first = [result("python/a"), result("python/b"), result("rust/c", (False,))]
    second = [result("python/a", edit_format="whole")]
    for key in ("python/b", "rust/c"):
        second.append(result(key, (False,), edit_format="whole"))
    run = write_run(tmp_path / "r", [*first, *second])
    EXERCISM.output(f"report {run}")
    with open_browser() as browser:
        browser.get((run / "report" / "report.html").as_uri())
        assert browser.execute_script(VISIBLE) == ["python/a", "python/b", "rust/c"]
        browser.execute_script(
            "document.querySelectorAll('#instances th button')[1].click()"
        )
        assert browser.execute_script(VISIBLE) == ["rust/c", "python/b", "python/a"]
        browser.execute_script(CHOOSE, "agreement", "some columns")
        assert browser.execute_script(VISIBLE) == ["python/b"]
        status = browser.execute_script(
            "return document.getElementById('shown').textContent"
        )
        assert status == "1 of 3 exercises"
        browser.execute_script(CHOOSE, "agreement", "")
        browser.execute_script(CHOOSE, "language", "rust")
        assert browser.execute_script(VISIBLE) == ["rust/c"]
        browser.set_window_size(1000, 1500)
        browser.save_screenshot(str(tmp_path / "page.png"))
        assert browser.get_log("browser") == []


BROKEN = """\
return Array.from(document.querySelectorAll('td')).filter(cell => {
  const range = document.createRange(); range.selectNodeContents(cell);
  return new Set(Array.from(range.getClientRects(), box => box.top)).size > 1;
}).map(cell => cell.textContent)"""
CUT = """\
return Array.from(document.querySelectorAll('.scroll'))
  .map(one => one.scrollWidth - one.clientWidth)"""


NAMES = """\
return Array.from(document.querySelectorAll('td'))
  .map(cell => getComputedStyle(cell, '::before').content)"""
LEGEND = """\
const box = document.querySelector('figure img');
const svg = atob(box.src.split(',')[1]);
const group = svg.slice(svg.indexOf('id="legend_1"'));
const right = Math.max(...Array.from(group.matchAll(/x="([0-9.]+)"/g), match => +match[1]));
const width = +svg.match(/viewBox="0 0 ([0-9.]+)/)[1];
return box.getBoundingClientRect().left + right / width * box.width"""


def test_tables_and_chart_of_many_rows_have_the_room_of_the_window(
    tmp_path: Path,
) -> None:
    formats = ("whole", "diff", "diff-fenced", "udiff", "patch")
    every = [
        result(f"python/e{n}", edit_format=name) for n in range(3) for name in formats
    ]
    run = write_run(tmp_path / "r", every)
    records = tmp_path / "o.yml"
    records.write_text(
        "".join(
            f"- {{model: gpt-4-turbo-2024-04-{n}, edit_format: diff, pass_rate_2: 50.5,"
            " total_cost: 0.0113}\n"
            for n in range(98)
        )
    )
    EXERCISM.output(f"report {run} --published {records}")
    with open_browser() as browser:
        browser.set_window_size(1900, 1000)
        browser.get((run / "report" / "report.html").as_uri())
        assert browser.execute_script(BROKEN) == []
        assert browser.execute_script(CUT) == [0, 0]
        browser.set_window_size(1600, 1000)
        assert browser.execute_script(CUT) == [0, 0]
        browser.set_window_size(1000, 1000)
        # Names alone break.
        assert all("@" in text for text in browser.execute_script(BROKEN))
        page, chart = browser.execute_script(
            "const root = document.documentElement, chart = document.querySelector('figure');"
            "return [root.scrollWidth - root.clientWidth, chart.scrollWidth - chart.clientWidth]"
        )
        # The chart scrolls, and keeps the size of its words.
        assert page == 0
        assert chart > 1000
        phone = {"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": True}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
        # A row is a card, whose cells name their columns.
        assert browser.execute_script(CUT) == [0, 0]
        names = browser.execute_script(NAMES)
        assert names[:3] == ['"column"', '"completed"', '"try 1"']
        assert any(name.startswith('"gpt-4o@diff') for name in names)
        # The legend is at the left, where the chart begins.
        assert browser.execute_script(LEGEND) < 390
