"""Runs for the tests of pages, one with an attack in every untrusted text, and a browser."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support import write_json
from tests.support.reporting import compare, report
from tests.support.requirements import BROWSERS

# One text with the ways out of an element, an attribute, a style, a comment and a script.
ATTACK = (
    "</pre></title></style></script><script>document.title='hacked'</script>"
    "\"'><img src=x onerror=\"document.title='hacked'\"><!-- "
    "<svg onload=document.title='hacked'> javascript:document.title='hacked' {{ 7*7 }} &lt;b&gt;"
)
# Names of folders hold no slash.
HOSTILE_NAME = ATTACK.replace("/", "|")[:200]
HOSTILE_IDS = ("own__thing-1", "own__thing-2", "own__thing-3")


class Texts(HTMLParser):
    """Collects the texts, element names and link targets of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.elements: list[str] = []
        self.links: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.elements.append(tag)
        self.links += [str(value) for name, value in attrs if name == "href"]

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def texts(path: Path) -> str:
    return "".join(Texts(path.read_text()).texts)


def write_hostile_run(folder: Path, name: str = "hostile") -> Path:
    """Write a run whose texts are all attacks, and return its folder."""
    run = folder / "predictions" / name
    (run / "trajectories").mkdir(parents=True)
    (run / "verdicts").mkdir()
    logs = folder / "logs" / name
    logs.mkdir(parents=True)
    write_json(run / "run.json", _described())
    for number, name in enumerate(HOSTILE_IDS, 1):
        stem = f"own__thing-{number}"
        prediction = _prediction(name)
        write_json(run / f"{stem}.json", prediction)
        write_json(run / "trajectories" / f"{stem}.json", _trajectory(name))
        write_json(
            run / "verdicts" / f"{stem}.json", _verdict(name, prediction["model_patch"])
        )
        (logs / f"{stem}.{_label()}.eval.log").write_text(ATTACK)
    return run


def _label() -> str:
    return "a-model"


def _described() -> dict[str, Any]:
    return {
        "run": ATTACK,
        "dataset": {"name": ATTACK, "split": ATTACK},
        "config": {"models": [{"name": ATTACK, ATTACK: ATTACK}]},
        "versions": {ATTACK: ATTACK},
        "started": ATTACK,
        "selected": [*HOSTILE_IDS, "own__thing-4"],
    }


def _patch() -> str:
    return (
        f"diff --git a/{ATTACK} b/x.py\n--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@ {ATTACK}\n"
        f"-{ATTACK}\n+{ATTACK}\n"
    )


def _result(name: str) -> dict[str, Any]:
    return {
        "instance_id": name,
        "model_name_or_path": _label(),
        "model_patch": _patch(),
        "model": ATTACK,
        "cost": 0.5,
        "added_files": [ATTACK],
        "edited_files": [ATTACK],
        "edit_outcome": True,
        "lint_outcome": True,
        "test_outcome": False,
        "try": 1,
        "attempt": 1,
        "status": ATTACK,
    }


def _prediction(name: str) -> dict[str, Any]:
    return {**_result(name), "reason": ATTACK, "all_results": [_result(name)]}


def _trajectory(name: str) -> dict[str, Any]:
    call = {"name": ATTACK, "arguments": ATTACK}
    messages = [
        {
            "role": "user",
            "content": f"Map\n<issue>\n{ATTACK}\n</issue>\n\nWhich files?",
        },
        {"role": ATTACK, "content": ATTACK, "tool_calls": [call]},
    ]
    attempt = {
        "attempt": 1,
        "try": 1,
        "model": ATTACK,
        "edit_format": ATTACK,
        "status": ATTACK,
        "messages": messages,
        "calls": [{"content": "", "model": ATTACK, "cost": 0.5, "usage": None}],
        "error": ATTACK,
        "dropped_files": [ATTACK],
    }
    return {
        "instance_id": name,
        "status": ATTACK,
        "reason": ATTACK,
        "attempts": [attempt],
    }


def _verdict(name: str, patch: str) -> dict[str, Any]:
    return {
        "instance_id": name,
        "status": "unresolved",
        "evaluator": ATTACK,
        "reason": ATTACK,
        "repo": ATTACK,
        "patch_sha256": hashlib.sha256(patch.encode()).hexdigest(),
    }


def make_pages(run: Path, **options: Any) -> Path:
    """Report on a run, and return the first of its pages."""
    report(run, page=True, **options)
    return run / "report" / "report.html"


def make_comparison(*runs: Path) -> Path:
    """Compare runs and return the page about it."""
    *_, last = compare(*runs)
    return Path(last.removeprefix("page").strip())


if TYPE_CHECKING:
    from selenium.webdriver.chrome.webdriver import WebDriver


@contextmanager
def open_browser() -> Iterator[WebDriver]:
    """Open a headless browser that records its console, and close it."""
    from selenium.webdriver import Chrome, ChromeOptions
    from selenium.webdriver.chrome.service import Service

    options = ChromeOptions()
    options.binary_location = next(
        path for name in BROWSERS if (path := shutil.which(name))
    )
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
