"""Edit formats by name."""

from __future__ import annotations

from agent.formats.base import EditFormat, Matching
from agent.formats.diff import DiffFencedFormat, DiffFormat
from agent.formats.diff_func import DiffFunctionFormat
from agent.formats.patch import PatchFormat
from agent.formats.reference import ReferenceDiffFormat
from agent.formats.udiff import UnifiedDiffFormat
from agent.formats.whole import WholeFormat
from agent.formats.whole_func import WholeFunctionFormat

_FORMATS: tuple[type[EditFormat], ...] = (
    DiffFormat,
    DiffFencedFormat,
    UnifiedDiffFormat,
    PatchFormat,
    WholeFormat,
    WholeFunctionFormat,
    DiffFunctionFormat,
)


def format_names() -> tuple[str, ...]:
    """Return the names of all edit formats."""
    return tuple(form.name for form in _FORMATS)


def get_format(name: str, matching: Matching = Matching.TOLERANT) -> EditFormat:
    """Return the edit format ``name``; KeyError when there is none.

    The reference agent's matching exists for ``diff`` alone, which its recorded run used.
    """
    if name == DiffFormat.name and matching is Matching.REFERENCE:
        return ReferenceDiffFormat()
    return {form.name: form for form in _FORMATS}[name]()
