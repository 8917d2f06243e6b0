"""Runs for the tests of pages, one with an attack in every untrusted text, and a browser."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.redaction import Redactor
from reports.data.rundata import read_run
from reports.pages.comparison import Compared
from reports.pages.write import write_comparison, write_pages
from reports.statistics.collect import collect
from reports.statistics.comparing import compare
from reports.statistics.denominators import split_of
from runs.storage.store import RunStore
from tests.support.requirements import BROWSERS

# One text with the ways out of an element, an attribute, a style, a comment and a script.
ATTACK = (
    "</pre></title></style></script><script>document.title='hacked'</script>"
    "\"'><img src=x onerror=\"document.title='hacked'\"><!-- "
    "<svg onload=document.title='hacked'> javascript:document.title='hacked' {{ 7*7 }} &lt;b&gt;"
)
HOSTILE_IDS = ("own__thing-1", "own__thing-2", "own__thing-3")


def write_hostile_run(folder: Path) -> Path:
    """Write a run whose texts are all attacks, and return its folder."""
    run = folder / "predictions" / "hostile"
    (run / "trajectories").mkdir(parents=True)
    (run / "verdicts").mkdir()
    logs = folder / "logs" / "hostile"
    logs.mkdir(parents=True)
    _write(run / "run.json", _described())
    for number, name in enumerate(HOSTILE_IDS, 1):
        stem = f"own__thing-{number}"
        prediction = _prediction(name)
        _write(run / f"{stem}.json", prediction)
        _write(run / "trajectories" / f"{stem}.json", _trajectory(name))
        _write(
            run / "verdicts" / f"{stem}.json", _verdict(name, prediction["model_patch"])
        )
        (logs / f"{stem}.{_label()}.eval.log").write_text(ATTACK)
    return run


def _write(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value))


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


def make_pages(
    run: Path,
    issues: Mapping[str, str] | None = None,
    redact: Redactor | None = None,
) -> Path:
    """Write the pictures and the pages of a run, and return the first page."""
    store = RunStore.of_folder(run)
    data = read_run(store)
    stats = collect(data, split_of("", "", 0))
    return write_pages(store, data, stats, issues=issues, redact=redact)


def make_comparison(
    out: Path,
    runs: Sequence[Path],
    names: Sequence[str] = (),
    redact: Redactor | None = None,
) -> Path:
    """Write the page of a comparison of runs and return it; ``names`` replace theirs."""
    read = [read_run(RunStore.of_folder(run)) for run in runs]
    named = [
        replace(run, name=name)
        for run, name in zip(read, names or [r.name for r in read], strict=True)
    ]
    stats = [collect(run, split_of("", "", 0)) for run in named]
    compared = [Compared(*parts) for parts in zip(named, stats, strict=True)]
    found = [compare(a, b) for a, b in combinations(named, 2)]
    return write_comparison(out, compared, found, redact or Redactor())


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
