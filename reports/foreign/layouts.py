"""The layouts in which a run can be written."""

from __future__ import annotations

from enum import Enum


class ExportLayout(str, Enum):
    """A layout by its name for the user."""

    ATIF = "atif"
    MINI = "mini"
