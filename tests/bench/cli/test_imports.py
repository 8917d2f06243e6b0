"""What the commands that only look import: large libraries would make them slow."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench.runs import TOP

LARGE = {"datasets", "docker", "litellm", "matplotlib", "numpy", "ray", "swebench", "tree_sitter"}


@pytest.mark.parametrize(
    "words",
    [
        ["harness.py", "--help"],
        ["harness.py", "--version"],
        ["harness.py", "--status", "--run", "x"],
        ["report.py", "--help"],
    ],
)
def test_a_command_that_looks_imports_no_large_library(tmp_path: Path, words: list[str]) -> None:
    script, *options = words
    done = subprocess.run(
        [sys.executable, "-X", "importtime", str(TOP / script), *options], cwd=tmp_path,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    imported = {line.rpartition("|")[2].strip() for line in lines}
    assert "typer" in imported
    assert not imported & LARGE
