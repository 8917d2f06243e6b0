"""The edits of a reply, as values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

Reader = Callable[[str], str | None]
"""Returns the text of a file with ``\\n`` line ends, None when there is no such file."""


class Fault(StrEnum):
    """Why an edit was not applied, where that is counted; its ``problem`` is for the model."""

    UNREADABLE = "unreadable"
    UNSAFE = "unsafe"
    FOREIGN = "foreign"
    AMBIGUOUS = "ambiguous"
    UNSEEN = "unseen"


Replacement = tuple[str, str]
"""The old and the new lines of a change, as texts."""


@dataclass(frozen=True)
class SearchReplace:
    """Replace the lines ``search`` of the file ``path`` with ``replace`` (texts with newlines).

    Attributes:
        readings: other ways to read the block, as (search, replace), tried after the first.
        appends: the lines go to the end of the file.
        blank_end: one blank line at the end of either section may be decoration.
        line: where the lines begin (from 1), as the reply says; only decides between places,
            unless there is nothing to search for.
        headers: lines that come before the place, outermost first (the ``@@`` lines of V4A).
        at_end: the lines are the last ones of the file.
        again: other edits of the file, in another notation, may be the same change.
    """

    path: str
    search: str
    replace: str
    readings: tuple[Replacement, ...] = ()
    appends: bool = False
    blank_end: bool = False
    line: int | None = None
    headers: tuple[str, ...] = ()
    at_end: bool = False
    again: bool = False


@dataclass(frozen=True)
class WholeFile:
    """The complete new content of ``path``.

    Attributes:
        new: the file must not be there yet.
        likely: only words beside the content name the file, so it may be a part or a quotation.
    """

    path: str
    content: str
    new: bool = False
    likely: bool = False


@dataclass(frozen=True)
class DeleteFile:
    """Remove ``path``; only if it holds ``content``, where that is given."""

    path: str
    content: str | None = None


@dataclass(frozen=True)
class MoveFile:
    """Rename the file ``path`` to ``to``."""

    path: str
    to: str


@dataclass(frozen=True)
class Unreadable:
    """A part of a reply that looks like an edit and cannot be read.

    Attributes:
        content: the lines in question; where the file has them, they are a quotation, no edit.
    """

    path: str
    problem: str
    fault: Fault = Fault.UNREADABLE
    content: str = ""


Edit = SearchReplace | WholeFile | DeleteFile | MoveFile | Unreadable


Part = Edit | list[str]
"""A part of a reply: an edit, or the lines between edits."""


def quoted_texts(edit: Edit) -> list[str]:
    """Return the old lines that ``edit`` quotes, by each of its readings."""
    if isinstance(edit, SearchReplace):
        return [edit.search, *(search for search, _ in edit.readings)]
    if isinstance(edit, DeleteFile) and edit.content:
        return [edit.content]
    return []
