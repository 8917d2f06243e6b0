"""Edit formats by name."""

from __future__ import annotations

from typing import Any

from agent.formats.base import EditFormat
from agent.formats.diff import DiffFormat
from agent.formats.whole import WholeFormat

_FORMATS: tuple[EditFormat[Any], ...] = (DiffFormat(), WholeFormat())


def format_names() -> tuple[str, ...]:
    """Return the names of all edit formats."""
    return tuple(form.name for form in _FORMATS)


def get_format(name: str) -> EditFormat[Any]:
    """Return the edit format ``name``; KeyError when there is none."""
    return {form.name: form for form in _FORMATS}[name]
