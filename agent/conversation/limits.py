"""The settings of the builtin agent, and the messages that a conversation may use."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated

from pydantic import BeforeValidator, Field, PlainSerializer

from swe_retry.agent.formats.protocol import Matching
from swe_retry.agent.formats.report import OnFailure
from swe_retry.core.settings import Section

# A topic and its number of messages: ``edit=2``.
_PART = re.compile(r"^\s*([a-z]+)\s*=\s*(\d+)\s*$")


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
    def parse(cls, value: Reflections | str | int) -> Reflections:
        """Read ``4`` (shared) or ``locate=2,edit=2,lint=2,test=3`` (those left out keep theirs).

        Raises:
            ValueError: the text has another form.
        """
        if isinstance(value, Reflections):
            return value
        text = str(value)
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

    def left(self, topic: Topic, used: Counter[Topic]) -> int:
        """Return how many messages about ``topic`` may follow those that are ``used``."""
        if self.shared is None:
            return self.of(topic) - used[topic]
        return self.shared - used.total()

    def __str__(self) -> str:
        if self.shared is not None:
            return str(self.shared)
        return ",".join(f"{topic.value}={self.of(topic)}" for topic in Topic)


class Builtin(Section):
    """How the builtin agent works."""

    reflections: Annotated[
        Reflections, BeforeValidator(Reflections.parse), PlainSerializer(str)
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


@dataclass(frozen=True)
class ConversationLimits:
    """The limits of a conversation.

    Attributes:
        until_exhausted: continue until a replay has no more replies; no other limit counts.
    """

    reflections: Reflections = field(default_factory=Reflections)
    until_exhausted: bool = False
