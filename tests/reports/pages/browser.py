"""The system's Chromium, headless and driven by selenium; nothing is downloaded."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from selenium.webdriver.chrome.webdriver import WebDriver

_BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def missing_browser() -> str:
    """Return the missing requirement of browser tests; empty if there is none."""
    if not any(map(shutil.which, _BROWSERS)):
        return "no Chromium is installed (Debian: chromium)"
    if not shutil.which("chromedriver"):
        return "no chromedriver is installed (Debian: chromium-driver)"
    return ""


@contextmanager
def open_browser() -> Iterator[WebDriver]:
    """Open a headless browser that records its console, and close it."""
    from selenium.webdriver import Chrome, ChromeOptions
    from selenium.webdriver.chrome.service import Service

    options = ChromeOptions()
    options.binary_location = next(path for name in _BROWSERS if (path := shutil.which(name)))
    # Containers have no user namespaces and little shared memory.
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    browser = Chrome(options=options, service=Service(shutil.which("chromedriver")))
    try:
        browser.set_script_timeout(60)
        yield browser
    finally:
        browser.quit()
