"""Budgets for the messages after the first, by topic."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from enum import Enum

_PART = re.compile(r"^\s*([a-z]+)\s*=\s*(\d+)\s*$")


class Topic(str, Enum):
    """The reason for a message to the model."""

    LOCATE = "locate"
    EDIT = "edit"
    LINT = "lint"
    TEST = "test"


@dataclass(frozen=True)
class Reflections:
    """The budgets: one for each topic, or ``shared`` for all together.

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
        given: dict[str, int] = {}
        for part in text.split(","):
            match = _PART.match(part)
            if not match or match[1] not in {topic.value for topic in Topic}:
                names = ",".join(f"{topic.value}=N" for topic in Topic)
                raise ValueError(f"{part.strip()!r} is neither a number nor one of {names}")
            given[match[1]] = int(match[2])
        return cls(**given)

    def of(self, topic: Topic) -> int:
        return {
            Topic.LOCATE: self.locate,
            Topic.EDIT: self.edit,
            Topic.LINT: self.lint,
            Topic.TEST: self.test,
        }[topic]

    @property
    def most(self) -> int:
        """The messages that may follow the first, all topics together."""
        return sum(self.of(topic) for topic in Topic) if self.shared is None else self.shared

    def __str__(self) -> str:
        if self.shared is not None:
            return str(self.shared)
        return ",".join(f"{topic.value}={self.of(topic)}" for topic in Topic)


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
        self.used[topic] += left > 0
        return left > 0
