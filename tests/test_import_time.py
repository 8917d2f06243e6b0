"""The commands import slow packages only where they use them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[1]
HEAVY = {
    "datasets", "docker", "git", "jsonschema", "litellm", "matplotlib", "networkx", "numpy", "ray",
    "requests", "swebench", "tenacity", "tree_sitter",
}  # fmt: skip


def imported(*words: str) -> set[str]:
    """Return the packages that a Python command imports."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", *words], cwd=TOP, text=True, capture_output=True,
        check=True,
    )  # fmt: skip
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    return {line.rpartition("|")[2].strip().partition(".")[0] for line in lines}


@pytest.mark.parametrize("words", [["harness.py", "--help"], ["-c", "import bench.cli.commands"]])
def test_the_harness_imports_what_is_heavy_only_where_it_is_used(words: list[str]) -> None:
    assert not imported(*words) & HEAVY


def test_a_heavy_import_is_seen() -> None:
    assert imported("-c", "import agent.repomap.build") & HEAVY == {"numpy"}
