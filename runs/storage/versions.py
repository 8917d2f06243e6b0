"""The versions that a run records."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.metadata import version
from pathlib import Path

HARNESS_VERSION = "0.11.0"
CONTINUES = frozenset({"0.7.0", "0.8.0", "0.9.0", "0.10.0"})
"""The versions whose runs this one continues."""
_RECORDED = ("litellm", "swebench", "datasets", "pyflakes")


def continues(version: object) -> bool:
    """Tell whether a run of ``version`` of the harness can be continued by this one."""
    return version == HARNESS_VERSION or (isinstance(version, str) and version in CONTINUES)


@cache
def versions() -> Mapping[str, str]:
    """Return the versions that a run records."""
    packages = {name: version(name) for name in _RECORDED}
    return {"harness": HARNESS_VERSION, "harness_commit": _harness_commit(), **packages}


@cache
def _harness_commit() -> str:
    from git import InvalidGitRepositoryError, Repo

    try:
        return Repo(Path(__file__).resolve().parents[2]).head.commit.hexsha
    except (InvalidGitRepositoryError, ValueError):
        return ""
