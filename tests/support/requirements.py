"""What a marked test needs of the machine; each function gives the reason to skip, or ""."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec

from swe_retry.environments.docker.engine import engine_answers

BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@cache
def missing_engine() -> str:
    if engine_answers():
        return ""
    return "no Docker engine answers"


def missing_ray() -> str:
    if find_spec("ray"):
        return ""
    return "Ray is not installed (make setup-ray)"


def missing_browser() -> str:
    if not any(map(shutil.which, BROWSERS)):
        return "no Chromium is installed (Debian: chromium)"
    if not shutil.which("chromedriver"):
        return "no chromedriver is installed (Debian: chromium-driver)"
    return ""


MISSING: dict[str, Callable[[], str]] = {
    "browser": missing_browser,
    "docker": missing_engine,
    "ray": missing_ray,
}
