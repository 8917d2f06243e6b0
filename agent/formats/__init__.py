"""Edit formats by name, and which one a model gets when nobody says."""

from __future__ import annotations

import re
from typing import Any

from agent.formats.base import EditFormat
from agent.formats.diff import DiffFormat
from agent.formats.whole import WholeFormat

_FORMATS: tuple[EditFormat[Any], ...] = (DiffFormat(), WholeFormat())
# Weaker models garble SEARCH blocks; these have shown that they can write them.
_DIFF_FAMILIES = re.compile(r"(^|[/.-])(gpt-[45]|chatgpt-4|o[134](-|$)|claude)", re.IGNORECASE)


def format_names() -> tuple[str, ...]:
    """Return the names of all edit formats."""
    return tuple(form.name for form in _FORMATS)


def get_format(name: str) -> EditFormat[Any]:
    """Return the edit format ``name``; KeyError when there is none."""
    return {form.name: form for form in _FORMATS}[name]


def default_format(model: str) -> str:
    """Return the edit format for a litellm model name: ``diff`` for GPT-4 and Claude classes."""
    return "diff" if _DIFF_FAMILIES.search(model) else "whole"
