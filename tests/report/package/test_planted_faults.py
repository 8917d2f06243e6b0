"""The check of a package finds a planted fault of every kind."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path

import pytest

from swe_retry.report.package import validation
from tests.report.package.conftest import Faults
from tests.support import text_between
from tests.support.evaluated import (
    ID,
    KEY,
    ROW,
    change_json,
    change_patch,
    diff,
    say_in,
)

DOCUMENT = Path(__file__).parents[3] / "docs/submission.md"
Plant = Callable[[Path], object]
Fault = tuple[Plant, str, str]
PLAIN_DIFF = "--- a/tests/test_x.py\n+++ b/tests/test_x.py\n@@ -1 +1 @@\n-a\n+b\n"


def output_of(run: Path) -> Path:
    (path,) = (run.parent.parent / "logs/r").glob(f"{ID}.*.eval.log")
    return path


def adds(text: str) -> Plant:
    return lambda run: change_patch(run, lambda patch: patch + text)


def says(text: str, position: int = 1) -> Plant:
    return lambda run: say_in(run, text, position=position)


def patches(text: str) -> Plant:
    return lambda run: change_patch(run, lambda _: text)


def fill_transcripts(run: Path) -> None:
    for path in run.glob("demo__*.md"):
        path.write_bytes(bytes(290_000))


def end_output_with_key(run: Path) -> None:
    """Write a key across the end of the first 64 KiB."""
    padding = b"x" * 65_499
    output_of(run).write_bytes(padding + b" " + KEY.encode())


def allow_web(run: Path) -> None:
    change_json(
        run / "run.json",
        lambda data: data["config"].update(agent_allow_web=True),
    )


FAULTS: dict[str, Fault] = {
    "no test output": (
        lambda run: output_of(run).unlink(),
        "missing",
        "test_output.txt.gz",
    ),
    "half a character": (
        patches("\udc80"),
        "unreadable",
        "not UTF-8",
    ),
    "a huge file": (
        lambda run: (run / f"{ID}.md").write_bytes(bytes(300_001)),
        "size",
        f"{ID}.md",
    ),
    "much in all": (
        fill_transcripts,
        "size",
        "GitHub asks",
    ),
    "a key in a trajectory": (says(KEY), "secret", "a key of Anthropic"),
    "a key in a test output": (
        end_output_with_key,
        "secret",
        "test_output.txt.gz",
    ),
    "an edited test": (
        adds(diff("tests/test_new.py")),
        "test edit",
        "tests/test_new.py",
    ),
    "new test configuration": (
        adds(diff("bank/conftest.py")),
        "test edit",
        "bank/conftest.py",
    ),
    "an edited test in a plain diff": (
        patches(PLAIN_DIFF),
        "test edit",
        "tests/test_x.py",
    ),
    "a patch that does not apply": (
        adds(diff("bank/account.py", "no such line")),
        "patch",
        "not apply",
    ),
    "a patch of no file": (
        patches("fix it"),
        "patch",
        "names no file",
    ),
    "an open box": (
        allow_web,
        "readme",
        "open",
    ),
    "the gold patch": (says(ROW["patch"]), "trace", "the gold patch"),
    "the hidden tests": (says(ROW["test_patch"]), "trace", "the hidden tests"),
    "the name of a hidden test": (
        says(f"Make {ROW['FAIL_TO_PASS'][0]} pass."),
        "trace",
        "the hidden tests",
    ),
    "the lists of tests": (
        says("FAIL_TO_PASS: see below"),
        "trace",
        "lists of tests",
    ),
    "the hidden tests after the model's word": (
        says(ROW["test_patch"], position=3),
        "trace",
        "the hidden tests",
    ),
    "the hidden tests beside the messages": (
        lambda run: change_json(
            run / f"trajectories/{ID}.json",
            lambda data: data.update(title=ROW["test_patch"]),
        ),
        "trace",
        "hidden tests",
    ),
}


# What is planted in one package gives messages that differ. Patches come first: their verdicts
# are written with all test outputs.
PACKAGES = (
    (
        "an edited test",
        "new test configuration",
        "no test output",
        "a huge file",
        "a key in a trajectory",
        "an open box",
        "the gold patch",
        "the hidden tests",
        "the lists of tests",
    ),
    (
        "an edited test in a plain diff",
        "a key in a test output",
        "much in all",
        "the name of a hidden test",
    ),
    ("a patch that does not apply", "the hidden tests after the model's word"),
    ("a patch of no file", "the hidden tests beside the messages"),
    ("half a character",),
)


@pytest.mark.parametrize(
    "names",
    PACKAGES,
    ids=lambda names: names[0],
)
def test_planted_faults_are_found(
    names: Sequence[str],
    run: Path,
    faults: Faults,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(validation, "MAX_FILE_BYTES", 300_000)
    monkeypatch.setattr(validation, "MAX_TOTAL_BYTES", 1_500_000)
    for name in names:
        plant, _, _ = FAULTS[name]
        plant(run)
    lines = faults()
    for name in names:
        _, kind, problem = FAULTS[name]
        of_kind = [line for line in lines if line.startswith(f"{kind}: ")]
        assert any(problem in line for line in of_kind), (name, lines)
    for line in lines:
        assert "\n" not in line
        assert "; " in line
        assert len(line) < 1500


def test_a_key_in_the_meta_is_found(faults: Faults) -> None:
    lines = faults(name="ghp_" + "a1" * 18)
    assert len(lines) == 2, "in the README and in metadata.yaml"
    for line in lines:
        assert "contains a token of GitHub; redact it" in line


def test_a_day_to_come_is_a_fault(faults: Faults) -> None:
    assert faults(date="2999-01-31") == [
        "name: entry/evaluation/lite/29990131_retry_scripted: its date 2999-01-31 is in the "
        "future; use the day of the submission"
    ]


def test_every_kind_of_fault_is_planted() -> None:
    table = text_between(DOCUMENT.read_text(), "| kind | found |", "\n\n")
    documented = re.findall(r"^\| `([a-z ]+)` \|", table, re.MULTILINE)
    planted = {kind for _, kind, _ in FAULTS.values()}
    assert planted == set(documented) - {"name"}
    assert sorted(chain(*PACKAGES)) == sorted(FAULTS)
