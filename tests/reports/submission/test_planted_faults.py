"""The check of a built package finds a planted fault of every kind."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest

from reports.submission import validation
from tests.support.evaluated import (
    ID,
    KEY,
    ROW,
    Change,
    Package,
    append,
    change_json,
    diff,
)

DOCUMENT = Path(__file__).parents[3] / "docs/submission.md"
Plant = Callable[[Package], object]
Fault = tuple[Plant, str, str]


def edit_patch(package: Package, text: str) -> None:
    package.change_prediction(
        lambda row: row.update(model_patch=row["model_patch"] + text)
    )


def huge(package: Package) -> None:
    with (package.artifacts / "trajs" / f"{ID}.md").open("r+") as stream:
        stream.truncate(10**9)


def log_with(text: bytes) -> Plant:
    def plant(package: Package) -> None:
        (package.logs / "test_output.txt.gz").write_bytes(gzip.compress(text))

    return plant


def in_trajectory(change: Change) -> Plant:
    return lambda package: change_json(package.trajectory, change)


def in_prediction(change: Change) -> Plant:
    return lambda package: package.change_prediction(change)


FAULTS: dict[str, Fault] = {
    "no test output": (
        lambda p: (p.logs / "test_output.txt.gz").unlink(),
        "missing",
        "test_output.txt.gz",
    ),
    "half a character": (
        in_prediction(lambda row: row.update(model_patch="\udc80")),
        "unreadable",
        "not UTF-8",
    ),
    "a huge file": (huge, "size", f"{ID}.md"),
    "much in all": (
        lambda p: [
            (p.artifacts / f"x{n}").write_bytes(bytes(290_000)) for n in range(7)
        ],
        "size",
        "GitHub asks",
    ),
    "a key in a trajectory": (lambda p: p.say(KEY), "secret", "a key of Anthropic"),
    "a key in a test output": (
        log_with(b"x" * 65_499 + b" " + KEY.encode()),
        "secret",
        "test_output.txt.gz",
    ),
    "a key in the readme": (
        lambda p: append(p.entry / "README.md", "ghp_" + "a1" * 18),
        "secret",
        "GitHub",
    ),
    "an edited test": (
        lambda p: edit_patch(p, diff("tests/test_new.py")),
        "test edit",
        "tests/test_new.py",
    ),
    "new test configuration": (
        lambda p: edit_patch(p, diff("bank/conftest.py")),
        "test edit",
        "bank/conftest.py",
    ),
    "an edited test in a plain diff": (
        in_prediction(
            lambda row: row.update(
                model_patch="--- a/tests/test_x.py\n+++ b/tests/test_x.py\n@@ -1 +1 @@\n-a\n+b\n"
            )
        ),
        "test edit",
        "tests/test_x.py",
    ),
    "a patch that does not apply": (
        lambda p: edit_patch(p, diff("bank/account.py", "no such line")),
        "patch",
        "not apply",
    ),
    "a patch of no file": (
        in_prediction(lambda row: row.update(model_patch="fix it")),
        "patch",
        "names no file",
    ),
    "an open box": (
        lambda p: append(p.entry / "README.md", "- [ ] more\n"),
        "readme",
        "open",
    ),
    "the gold patch": (lambda p: p.say(ROW["patch"]), "trace", "the gold patch"),
    "the hidden tests": (
        lambda p: p.say(ROW["test_patch"]),
        "trace",
        "the hidden tests",
    ),
    "the name of a hidden test": (
        lambda p: p.say(f"Make {ROW['FAIL_TO_PASS'][0]} pass."),
        "trace",
        "the hidden tests",
    ),
    "the lists of tests": (
        lambda p: p.say("FAIL_TO_PASS: see below"),
        "trace",
        "lists of tests",
    ),
    "the hidden tests after the model's word": (
        lambda p: p.say(ROW["test_patch"], place=3),
        "trace",
        "the hidden tests",
    ),
    "the hidden tests beside the messages": (
        in_trajectory(lambda d: d.update(title=ROW["test_patch"])),
        "trace",
        "hidden tests",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found(
    name: str, package: Package, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant, kind, words = FAULTS[name]
    monkeypatch.setattr(validation, "MAX_FILE_BYTES", 300_000)
    monkeypatch.setattr(validation, "MAX_TOTAL_BYTES", 2_000_000)
    plant(package)
    mirrors = kind in ("patch", "trace")  # nothing else asks them
    lines = [line for line in package.findings(mirrors) if line.startswith(f"{kind}: ")]
    assert any(words in line for line in lines), lines
    assert all("\n" not in line and "; " in line and len(line) < 1500 for line in lines)


def test_a_day_to_come_is_a_fault(package: Package) -> None:
    assert package.findings(today=date(2026, 1, 30)) == [
        "name: entry/evaluation/lite/20260131_retry_scripted: its date 2026-01-31 is in the "
        "future; use the day of the submission"
    ]


def test_every_kind_of_fault_is_planted() -> None:
    table = DOCUMENT.read_text().partition("| kind | found |")[2].partition("\n\n")[0]
    documented = re.findall(r"^\| `([a-z ]+)` \|", table, re.MULTILINE)
    assert {kind for _, kind, _ in FAULTS.values()} == {*documented} - {"name"}
