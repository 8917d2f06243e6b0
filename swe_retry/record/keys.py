"""Keys of jobs, by which the files of a run are named."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, StrictStr

from swe_retry.core.hashing import fitting_name

RUN_FILE, RESULTS_FILE, STATS_FILE = OWN_FILES = (
    "run.json",
    "results.json",
    "stats.json",
)
"""The files of a run that lie among its predictions."""
_SAFE_KEY = re.compile(r"\w[\w.+-]*")
_LONGEST = 60


def is_safe_name(name: object) -> bool:
    """Return whether ``name`` may name a file or a folder."""
    if not isinstance(name, str) or not _SAFE_KEY.fullmatch(name):
        return False
    return fitting_name(name) == name


def is_safe_key(name: object) -> bool:
    """Return whether ``name`` may be the key of a job: its files must not be those of the run."""
    return is_safe_name(name) and f"{name}.json".lower() not in OWN_FILES


def quoted_name(value: object) -> str:
    """Return a value of a broken file as one short line of ASCII."""
    return ascii(value)[:_LONGEST]


def _checked_key(name: str) -> str:
    if not is_safe_key(name):
        raise ValueError(f"{quoted_name(name)} cannot be an id")
    return name


SafeKey = Annotated[StrictStr, AfterValidator(_checked_key)]
"""The key of a job in a file of which nothing is known."""
