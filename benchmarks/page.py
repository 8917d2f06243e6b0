"""Measure the milliseconds until the page of a large run shows its table, and opens an instance.

``python -m benchmarks.page [FOLDER]`` writes an invented run of 300 instances with six attempts
each (``benchmarks.generated_run``) to FOLDER or a temporary folder, makes its pages, and opens them
from the disk in headless Chromium (Debian's ``chromium`` and ``chromium-driver``, with selenium).
Every time is the median of five.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.browser import open_browser
from benchmarks.generated_run import write_run
from reports.data.rundata import read_run
from reports.pages.write import write_pages
from reports.statistics.collect import collect
from reports.statistics.denominators import split_of
from runs.storage.store import RunStore

if TYPE_CHECKING:
    from selenium.webdriver.remote.webdriver import WebDriver

_TIMES = 5


def main(folder: Path) -> None:
    """Write the run and its pages, and print sizes and times."""
    run = write_run(folder)
    started = time.perf_counter()
    report = make_pages(run)
    print(f"pages written    {time.perf_counter() - started:7.1f} s")
    files = [path for path in report.parent.rglob("*") if path.is_file()]
    print(f"size             {sum(path.stat().st_size for path in files) / 1e6:7.1f} MB")
    print(f"first page       {report.stat().st_size / 1e6:7.1f} MB")
    with open_browser() as browser:
        _print("first table", lambda: first_table(browser, report))
        _print("opened instance", lambda: opened_instance(browser))


def make_pages(run: Path) -> Path:
    """Write the pages of the run in ``run`` and return the first."""
    store = RunStore.of_folder(run)
    data = read_run(store)
    stats = collect(data, split_of("lite", "test", 0))
    return write_pages(store, data, stats)


def _print(name: str, measure: Callable[[], float]) -> None:
    times = [measure() for _ in range(_TIMES)]
    print(f"{name:16s} {statistics.median(times):7.0f} ms")


def first_table(browser: WebDriver, report: Path) -> float:
    """Open the page and return the milliseconds until its rows are laid out."""
    browser.get("about:blank")
    started = time.perf_counter()
    browser.get(report.as_uri())
    browser.execute_script(
        "return document.querySelector('#instances tbody').getBoundingClientRect().height"
    )
    return 1000 * (time.perf_counter() - started)


def opened_instance(browser: WebDriver) -> float:
    """Open and close the next instance, and return the milliseconds until it was loaded."""
    took = browser.execute_async_script(
        """
        const done = arguments[0];
        const links = document.querySelectorAll("#instances tbody a");
        const link = links[Math.floor(Math.random() * links.length)];
        const started = performance.now();
        new MutationObserver((changes, observer) => {
          const frame = document.querySelector("#page iframe");
          if (!frame) return;
          observer.disconnect();
          frame.addEventListener("load", () => requestAnimationFrame(() => {
            const took = performance.now() - started;
            document.getElementById("close").click();
            done(took);
          }));
        }).observe(document.getElementById("page"), { childList: true });
        link.click();
        """
    )
    return float(took)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as name:
            main(Path(name))
