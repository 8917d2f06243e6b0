"""The runs that a command line names."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator

from swe_retry.record.keys import is_safe_name
from swe_retry.record.versions import TOP


def find_run(text: str) -> Path:
    """Return the folder of a run by its name, which precedes a folder here, or the path."""
    folder = TOP / "predictions" / text
    if is_safe_name(text) and folder.is_dir():
        return folder.absolute()
    return Path(text)


NamedRun = Annotated[
    Path, BeforeValidator(lambda run: find_run(run) if isinstance(run, str) else run)
]
"""A setting that takes the name or the folder of a run."""
