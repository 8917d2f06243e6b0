"""The versions that a run records, and where the code lies."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from swe_retry.core.git import git_result

HARNESS_VERSION = "0.13.0"
CODE = Path(__file__).resolve().parents[2]
CHECKOUT = CODE if (CODE / "pyproject.toml").exists() else None
"""The project's folder; None where its packages are installed."""
TOP = CHECKOUT or Path()
"""The folder that ``predictions/`` and ``logs/`` lie in by default."""
_RECORDED = ("litellm", "swebench", "datasets", "pyflakes")


@cache
def versions() -> Mapping[str, str]:
    """Return the versions that a run records."""
    from importlib.metadata import version

    packages = {name: version(name) for name in _RECORDED}
    # Without a repository of its own, git would answer for one that the code lies in.
    revision = None
    if (CODE / ".git").exists():
        revision = git_result("rev-parse", "HEAD", cwd=CODE)
    return {
        "harness": HARNESS_VERSION,
        "harness_commit": revision.stdout.decode().strip()
        if revision and not revision.returncode
        else "",
        **packages,
    }
