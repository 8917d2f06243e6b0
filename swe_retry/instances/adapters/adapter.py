"""The protocol of adapters, and what they read rows with.

An adapter turns a row of one task set into an ``Instance``. It receives the columns in ``visible``
alone: ``split_row`` (``swe_retry.instances.split``) cuts the others away, so hidden data
cannot pass.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import ClassVar

from swe_retry.core.data import read_yaml
from swe_retry.core.errors import UserError
from swe_retry.core.jsontypes import JsonMapping
from swe_retry.instances.instance import Instance

Row = JsonMapping
TEST_SETUP = "test_setup"
"""Takes the place of the column ``eval_script``: its ``TestSetup`` or None."""

CONDA = ("source /opt/miniconda3/bin/activate", "conda activate testbed")
"""Activates the environment of images that follow SWE-bench's for Python."""

TEST_COMMANDS: dict[str, dict[str, str]] = read_yaml(__file__, "commands.yaml")

REQUIRED = ("instance_id", "repo", "base_commit", "problem_statement")
VISIBLE = frozenset({*REQUIRED, "created_at"})
"""What most sets need, and what they show."""

# A day or a month, and the time behind it.
_DATE = re.compile(r"\s*(\d{4}-\d\d(?:-\d\d)?)(?:[T ](\S+))?")
# Numbers of seconds of the years after 5000 are milliseconds.
_MAX_SECONDS = 1e11


def own_id(row: Row) -> str:
    name = row.get("instance_id")
    return name if isinstance(name, str) else ""


def columns(names: str) -> frozenset[str]:
    """Return the set of words."""
    return frozenset(names.split())


class SetAdapter(ABC):
    """How the rows of one task set are read.

    Attributes:
        marks: groups of columns, each as words; a row that has all of a group may be of the set.
        required: columns that may not be missing or empty.
        visible: the columns that ``read`` receives.
    """

    name: ClassVar[str]
    marks: ClassVar[tuple[str, ...]]
    required: ClassVar[tuple[str, ...]] = REQUIRED
    visible: ClassVar[frozenset[str]]

    @abstractmethod
    def read(self, row: Row) -> Instance:
        """Return the instance of a row, of which only the visible columns are there."""

    def fits(self, row: Row) -> bool:
        """Return whether a row with the marks is of the set."""
        return True

    def identify(self, row: Row) -> str:
        """Return the id by which the harness knows a row; never fails, and may see all columns."""
        return own_id(row)

    def recognizes(self, row: Row) -> bool:
        """Return whether ``row`` is of the set, by its columns; some may still be missing."""
        for marks in self.marks:
            if columns(marks) <= row.keys():
                return self.fits(row)
        return False

    def common_fields(self, row: Row) -> Instance:
        """Return what the columns say that all sets share; ``image`` is empty."""
        return Instance(
            instance_id=self.identify(row),
            repo=text(row, "repo"),
            base_commit=text(row, "base_commit"),
            problem_statement=text(row, "problem_statement"),
            version=str(row.get("version") or ""),
            image="",
            created_at=date_of(row.get("created_at")),
        )


def text(row: Row, key: str) -> str:
    value = row.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise UserError(f"`{key}` is not a text")
    return value


def lines(row: Row, key: str) -> tuple[str, ...]:
    """Return the texts of a list, of its JSON text, or of one text; empty if it is missing."""
    value = row.get(key)
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            value = json.loads(value)
        except ValueError as error:
            raise UserError(f"`{key}` is not a list: {error}") from error
    if value is None or value == "":
        return ()
    if isinstance(value, str):
        return (value,)
    is_sequence = isinstance(value, Sequence)
    if not is_sequence or not all(isinstance(part, str) for part in value):
        raise UserError(f"`{key}` is not a list of texts")
    return tuple(value)


def mapping(row: Row, key: str) -> Row:
    """Return an object of the row, or of its JSON text; empty if it is missing."""
    value = row.get(key)
    if isinstance(value, str) and value:
        try:
            value = json.loads(value)
        except ValueError as error:
            raise UserError(f"`{key}` is not an object: {error}") from error
    if not value:
        return {}
    if not isinstance(value, Mapping):
        raise UserError(f"`{key}` is not an object")
    return value


def date_of(value: object) -> str:
    """Return a date of a row in ISO 8601 with UTC: of a text, a date, seconds or milliseconds.

    Empty for anything else.
    """
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        seconds: float = value
        if abs(value) > _MAX_SECONDS:
            seconds = value / 1000
        try:
            return datetime.fromtimestamp(seconds, UTC).isoformat()
        except (ValueError, OverflowError, OSError):
            return ""
    match = _DATE.match(str(value or ""))
    if match is None:
        return ""
    day, time = match.groups()
    return f"{day}T{time}" if time else day


def eval_image(owner: str, instance_id: str, separator: str = "_1776_") -> str:
    name = instance_id.replace("__", separator).lower()
    return f"{owner}/sweb.eval.x86_64.{name}"
