"""The way to the first call: short, and as docs/architecture.md begins with it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from tests.support import TOP
from tests.support.provider import Answer, Provider

MAX_FRAMES = 20
MAX_FILES = 9


def test_the_way_to_the_first_call_is_short_and_documented(
    tmp_path: Path, cache: Path, provider: Provider
) -> None:
    provider.will_answer(Answer("There is nothing to change."))
    options = (
        "--dataset demo --instances demo__units-1 --environment none --run way "
        f"--models openai/gpt-4o --tries 1 --out {tmp_path} --api-base {provider.url} "
        f"--set folders.cache={cache} --set calls.retries=0"
    )
    process = subprocess.run(
        [
            sys.executable,
            "-m",
            "tests.support.waytrace",
            "harness.py",
            *options.split(),
        ],
        cwd=TOP,
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode in (0, 1), process.stderr
    frames = [tuple(frame) for frame in json.loads(process.stdout.splitlines()[-1])]
    assert frames == documented_frames()
    assert not [name for _, name in frames if "<lambda>" in name]
    assert len(frames) <= MAX_FRAMES
    assert len({file for file, _ in frames}) <= MAX_FILES


def documented_frames() -> list[tuple[str, str]]:
    """Return the files and functions of the list that the page begins with."""
    page = (TOP / "docs" / "architecture.md").read_text()
    lines = re.findall(r"^\d+\. `([\w/.]+)`, `([\w.<>]+)`: ", page, re.MULTILINE)
    return [(file, name) for file, name in lines]
