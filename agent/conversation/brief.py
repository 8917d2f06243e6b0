"""The texts, files and checks of a conversation: what differs between one benchmark and another."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from agent.formats.base import Notation
from agent.prompts import source


@dataclass(frozen=True)
class Brief:
    """What a conversation begins with, and what its messages hold.

    The texts are jinja2 templates. Values are filled in as they are: braces in them mean nothing.

    Attributes:
        system: the system message; ``format_rules`` are the rules of the edit format.
        opening: the first message; ``problem`` is the task's message, ``repo_map`` the map, which
            is empty where it does not fit, ``files`` the contents of ``shown``.
        again: a later message with files that changed since they were last sent; ``message`` and
            ``files``. Empty: changed files are not sent again by themselves.
        shown: the files shown from the start.
        more_files: a reply may bring further files in, by naming or by editing them, and is asked
            to name some. If not, edits of files other than ``shown`` fail.
        as_edited: files are shown with their paths where the edit format has them, not above.
        lint: new findings of the linter are sent to the model.
        test_unedited: the tests run after every reply that is not asked to be corrected, also
            where no file differs; if not, on changed trees only, and once for each tree.
        notation: the markers and functions that the model is told to use.
    """

    system: str
    opening: str
    again: str = ""
    shown: tuple[str, ...] = ()
    more_files: bool = True
    as_edited: bool = False
    lint: bool = True
    test_unedited: bool = False
    notation: Notation = Notation.CURRENT


@cache
def harness_brief() -> Brief:
    """Return the brief of the retry harness: an issue, a map, files that the model asks for."""
    return Brief(system=source("system"), opening=source("opening"))
