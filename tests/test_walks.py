"""The walks of docs/architecture.md are those that the texts take through the demo."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from swe_retry.demo.setup import DEMO_DATASET
from tests.support import TOP

pytestmark = pytest.mark.system
ID = "demo__units-1"
TASK = DEMO_DATASET / "tasks" / ID
# Attribute, last file of the walk, greatest number of files.
WALKS = (
    ("problem_statement", "agent/conversation/context.py", 10),
    ("model_patch", "swe_retry/report/evaluation/local.py", 9),
)
# They get a text to write it down, or to compute something of it, and do not pass it on.
READERS = {
    "agent/mentions.py",
    "agent/formats/reading/fences.py",
    "agent/prompts/__init__.py",
    "swe_retry/attempts/prepare.py",
    "swe_retry/attempts/transcript.py",
    "swe_retry/testing/testconfig.py",
    "swe_retry/llm/chat.py",
    "swe_retry/record/layouts.py",
    "swe_retry/report/statistics/collect.py",
}


def test_walks(tmp_path: Path) -> None:
    statement = (TASK / "problem_statement.md").read_text().strip()
    # A line of the chosen candidate that the gold patch does not have.
    line = '+    unit = text.lstrip("0123456789. ") or "m"'
    assert line not in (TASK / "gold.patch").read_text()
    harness = (
        f"harness.py --dataset demo --instances {ID} --environment local "
        f"--models scripted-a,scripted-b --replay {DEMO_DATASET / 'replies'} --run walks "
        f"--set folders.out={tmp_path}"
    )
    report = f"report.py {tmp_path}/predictions/walks --evaluator local"
    request = {
        "texts": {"problem_statement": statement, "model_patch": line},
        "commands": [harness.split(), report.split()],
    }
    process = subprocess.run(
        [sys.executable, "-m", "tests.support.valuetrace"],
        input=json.dumps(request),
        cwd=TOP,
        capture_output=True,
        text=True,
        check=True,
    )
    traced = json.loads(process.stdout.splitlines()[-1])
    documented = walks()
    for attribute, end, limit in WALKS:
        seen = traced[attribute]
        way = [file for file in seen[: seen.index(end) + 1] if is_on_the_way(file)]
        assert sorted(way) == sorted(documented[attribute])
        assert len(way) <= limit


def walks() -> dict[str, list[str]]:
    """Return the files of each walk that is named by an attribute."""
    page = (TOP / "docs" / "architecture.md").read_text()
    paragraphs = re.finditer(r"^\*\*`(\w+)`.*?(?=\n\n)", page, re.M | re.S)
    return {match[1]: re.findall(r"`([\w/]+\.py)`", match[0]) for match in paragraphs}


def is_on_the_way(file: str) -> bool:
    """Leave out core, libraries, templates, the map, and what only reads the text."""
    elsewhere = file.startswith(("swe_retry/core/", ".venv/", "agent/repomap/"))
    return file.endswith(".py") and not elsewhere and file not in READERS
