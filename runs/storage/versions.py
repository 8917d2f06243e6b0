"""The versions that a run records."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.metadata import version
from pathlib import Path

from core.git import git_result

HARNESS_VERSION = "0.12.0"
_RECORDED = ("litellm", "swebench", "datasets", "pyflakes")


@cache
def versions() -> Mapping[str, str]:
    """Return the versions that a run records."""
    packages = {name: version(name) for name in _RECORDED}
    top = Path(__file__).resolve().parents[2]
    # Without a repository of its own, git would answer for one that the code lies in.
    found = git_result("rev-parse", "HEAD", cwd=top) if (top / ".git").exists() else None
    return {
        "harness": HARNESS_VERSION,
        "harness_commit": found.stdout.decode().strip() if found and not found.returncode else "",
        **packages,
    }
