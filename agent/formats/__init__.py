"""Edit formats by name."""

from __future__ import annotations

from swe_retry.agent.formats.diff import DiffFencedFormat, DiffFormat, DiffFormat2023
from swe_retry.agent.formats.functions import (
    DiffFunctionFormat,
    DiffFunctionFormat2023,
    WholeFunctionFormat,
    WholeFunctionFormat2023,
)
from swe_retry.agent.formats.protocol import EditFormat, Matching, Notation
from swe_retry.agent.formats.reference import ReferenceDiffFormat
from swe_retry.agent.formats.text import PatchFormat, UnifiedDiffFormat
from swe_retry.agent.formats.whole import WholeFormat

_FORMATS: dict[Notation, tuple[type[EditFormat], ...]] = {
    Notation.CURRENT: (
        DiffFormat,
        DiffFencedFormat,
        UnifiedDiffFormat,
        PatchFormat,
        WholeFormat,
        WholeFunctionFormat,
        DiffFunctionFormat,
    ),
    Notation.OF_2023: (
        WholeFormat,
        DiffFormat2023,
        WholeFunctionFormat2023,
        DiffFunctionFormat2023,
    ),
}


def format_names(notation: Notation = Notation.CURRENT) -> tuple[str, ...]:
    """Return the names of all edit formats that ``notation`` has."""
    return tuple(form.name for form in _FORMATS[notation])


def get_format(
    name: str,
    matching: Matching = Matching.TOLERANT,
    notation: Notation = Notation.CURRENT,
) -> EditFormat:
    """Return the edit format ``name``; KeyError when ``notation`` has none of that name.

    The reference agent's matching exists for ``diff`` alone, which its recorded run used.
    """
    is_reference = notation is Notation.CURRENT and matching is Matching.REFERENCE
    if is_reference and name == DiffFormat.name:
        return ReferenceDiffFormat()
    forms = {form.name: form for form in _FORMATS[notation]}
    return forms[name]()
