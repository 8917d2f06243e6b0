"""What a conversation begins with, what it may use, and how it ends."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, PlainSerializer

from swe_retry.agent.formats.base import Matching, Notation, OnFailure
from swe_retry.agent.prompts import source
from swe_retry.core.settings import Section

CheckOutcome = bool | None
"""True, False, or None for unknown."""
# A topic and its number of messages: ``edit=2``.
_PART = re.compile(r"^\s*([a-z]+)\s*=\s*(\d+)\s*$")


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


@cache
def harness_setup() -> ConversationSetup:
    """Return the setup of SWE-bench: an issue, a map, files that the model asks for."""
    return ConversationSetup(system=source("system"), opening=source("opening"))


class Topic(StrEnum):
    """The reason for a message to the model."""

    LOCATE = "locate"
    EDIT = "edit"
    LINT = "lint"
    TEST = "test"


@dataclass(frozen=True)
class Reflections:
    """The budgets for messages after the first: one for each topic, or ``shared`` for all.

    496 of 865 recorded conversations of the reference agent used up a shared budget of four;
    docs/agent.md gives the reasons for the defaults.
    """

    locate: int = 2
    edit: int = 2
    lint: int = 2
    test: int = 3
    shared: int | None = None

    @classmethod
    def parse(cls, text: str) -> Reflections:
        """Read ``4`` (shared) or ``locate=2,edit=2,lint=2,test=3`` (those left out keep theirs).

        Raises:
            ValueError: the text has another form.
        """
        if text.strip().isdigit():
            return cls(shared=int(text))
        budgets = {}
        topics = [topic.value for topic in Topic]
        for part in text.split(","):
            match = _PART.match(part)
            if not match or match[1] not in topics:
                names = ",".join(f"{topic}=N" for topic in topics)
                raise ValueError(
                    f"{part.strip()!r} is neither a number nor one of {names}"
                )
            budgets[match[1]] = int(match[2])
        return cls(**budgets)

    def of(self, topic: Topic) -> int:
        budget: int = getattr(self, topic.value)
        return budget

    @property
    def total(self) -> int:
        """The messages that may follow the first, all topics together."""
        if self.shared is None:
            return sum(map(self.of, Topic))
        return self.shared

    def __str__(self) -> str:
        if self.shared is not None:
            return str(self.shared)
        return ",".join(f"{topic.value}={self.of(topic)}" for topic in Topic)


def _parse_reflections(value: Any) -> Any:  # noqa: ANN401 - of any source
    if isinstance(value, (str, int)):
        return Reflections.parse(str(value))
    return value


class Builtin(Section):
    """How the builtin agent works."""

    reflections: Annotated[
        Reflections, BeforeValidator(_parse_reflections), PlainSerializer(str)
    ] = Field(
        default=Reflections(),
        description="Send at most so many messages after the first of an attempt, by topic; one "
        "number: in all.",
    )
    map_tokens: int = Field(
        default=2048, ge=0, description="Make the map of the repository this large."
    )
    matching: Matching = Field(
        default=Matching.TOLERANT,
        description="Look for the lines of an edit so: tolerant, or reference, as in the run of "
        "May 2024.",
    )
    on_failed_edit: OnFailure = Field(
        default=OnFailure.KEEP,
        description="Keep or drop the good edits of a reply when others of it fail.",
    )


@dataclass
class ReflectionsUsed:
    """Counts the messages of one conversation against its budgets."""

    budget: Reflections
    used: Counter[Topic] = field(default_factory=Counter)

    def take(self, topic: Topic) -> bool:
        """Use up one message about ``topic``; False when its budget has none left."""
        if self.budget.shared is None:
            left = self.budget.of(topic) - self.used[topic]
        else:
            left = self.budget.shared - self.used.total()
        if left <= 0:
            return False
        self.used[topic] += 1
        return True


@dataclass(frozen=True)
class ConversationLimits:
    """The limits of a conversation.

    Attributes:
        until_exhausted: continue until a replay has no more replies; no other limit counts.
    """

    reflections: Reflections = field(default_factory=Reflections)
    until_exhausted: bool = False


class Ending(StrEnum):
    """Why a conversation stopped."""

    DONE = "done"
    REFLECTIONS_USED = "reflections_used"
    REPLAY_EXHAUSTED = "replay_exhausted"
    CONTEXT = "context"
    REFUSED = "refused"
    BUDGET = "budget"
    LIMIT = "limit"
    TIME = "time"
    FAILED = "failed"

    @property
    def by_itself(self) -> bool:
        """Whether a conversation ended because it was finished, or its budgets were used up."""
        return self in (Ending.DONE, Ending.REFLECTIONS_USED)


@dataclass(frozen=True)
class ReplyCounts:
    """What one reply did to its edit format, to be counted. A reply belongs to one call.

    Attributes:
        truncated: the output limit cut it off, so nothing of it was applied.
        malformed: no part of it could be trusted, so nothing of it was applied.
        edits: its edits, with parts that look like edits and cannot be read.
        failed: those that were not applied, for any reason; includes the next four.
        unreadable: parts that cannot be read, or calls without what they need.
        unsafe: edits of paths that cannot be files of a checkout.
        foreign: edits of other files than those that may be edited.
        ambiguous: edits whose lines are in the file more than once.
        whole_file_blocks: edits that look for all lines of their file as it was before the reply,
            blank lines around them aside.
        unknown_calls: calls of functions that the model was not given, understood or not.
    """

    truncated: bool = False
    malformed: bool = False
    edits: int = 0
    failed: int = 0
    unreadable: int = 0
    unsafe: int = 0
    foreign: int = 0
    ambiguous: int = 0
    whole_file_blocks: int = 0
    unknown_calls: int = 0


@dataclass(frozen=True)
class Result:
    """The outcomes of one conversation.

    Attributes:
        edit: all edits of the last reply with edits were applied; None when none had any.
        lint: no new fatal finding in the edited files; None when nothing was edited.
        test: no test fails that did not fail before; None when no test could tell.
        chat_files: files whose contents the model was shown or edited, in that order.
        reflections: the messages after the first, those of earlier tries included.
        replies: the counts of each reply of this try.
    """

    ending: Ending
    edit: CheckOutcome
    lint: CheckOutcome
    test: CheckOutcome
    chat_files: tuple[str, ...]
    edited_files: tuple[str, ...]
    reflections: int
    replies: tuple[ReplyCounts, ...] = ()
