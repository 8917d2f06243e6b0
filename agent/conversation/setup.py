"""What a conversation begins with, and what it may use."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache

from swe_retry.agent.conversation.limits import ConversationLimits
from swe_retry.agent.formats.protocol import Matching, Notation
from swe_retry.agent.formats.report import OnFailure
from swe_retry.agent.prompts import source


@dataclass(frozen=True)
class ConversationSetup:
    """The messages and files of a conversation, in which one benchmark differs from another.

    The texts are jinja2 templates. Values are filled in as they are: braces in them mean nothing.

    Attributes:
        system: the system message; ``format_rules`` are the rules of the edit format.
        opening: the first message; ``problem`` is the task's message, ``repo_map`` the map, which
            is empty where it does not fit, ``files`` the contents of ``shown_files``.
        followup: a later message with files that changed since they were last sent; ``message`` and
            ``files``. Empty: changed files are not sent again by themselves.
        shown_files: the files shown from the start.
        more_files: a reply may bring further files in, by naming or by editing them, and is asked
            to name some. If not, edits of files other than ``shown_files`` fail.
        as_edited: files are shown with their paths where the edit format has them, not above.
        lint: new findings of the linter are sent to the model.
        test_unedited: the tests run after every reply that is not asked to be corrected, also
            where no file differs; if not, on changed trees only, and once for each tree.
        notation: the markers and functions that the model is told to use.
        with_map: the first message may have the map.
        matching: how the lines of an edit are looked for.
        on_failure: whether the good edits of a reply are kept when others of it fail.
        image_urls: addresses of images, which go with the first message to a model that takes
            them.
    """

    system: str
    opening: str
    followup: str = ""
    shown_files: tuple[str, ...] = ()
    more_files: bool = True
    as_edited: bool = False
    lint: bool = True
    test_unedited: bool = False
    notation: Notation = Notation.CURRENT
    with_map: bool = True
    limits: ConversationLimits = field(default_factory=ConversationLimits)
    matching: Matching = Matching.TOLERANT
    on_failure: OnFailure = OnFailure.KEEP
    image_urls: tuple[str, ...] = ()


@cache
def harness_setup() -> ConversationSetup:
    """Return the setup of SWE-bench: an issue, a map, files that the model asks for."""
    return ConversationSetup(system=source("system"), opening=source("opening"))
