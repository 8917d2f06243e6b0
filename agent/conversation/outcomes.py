"""Limits, end and outcomes of a conversation."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from agent.conversation.reflections import Reflections

Outcome = bool | None
"""True, False, or None for unknown."""


class Ending(str, Enum):
    """Why a conversation stopped."""

    DONE = "done"
    REFLECTIONS_USED = "reflections_used"
    REPLAY_EXHAUSTED = "replay_exhausted"
    CONTEXT = "context"
    REFUSED = "refused"
    BUDGET = "budget"
    TIME = "time"
    FAILED = "failed"


@dataclass(frozen=True)
class ConversationLimits:
    """The limits of a conversation.

    Attributes:
        reflections: the number of messages after the first.
        until_exhausted: continue until a replay has no more replies; no other limit counts.
    """

    reflections: Reflections = field(default_factory=Reflections)
    until_exhausted: bool = False


@dataclass(frozen=True)
class Result:
    """The outcomes of one conversation.

    Attributes:
        edit: all edits of the last reply with edits were applied; None when none had any.
        lint: no new fatal finding in the edited files; None when nothing was edited.
        test: no test fails that did not fail before; None when no test could tell.
        chat_files: files whose contents the model was shown or edited, in that order.
    """

    ending: Ending
    edit: Outcome
    lint: Outcome
    test: Outcome
    chat_files: tuple[str, ...]
    edited_files: tuple[str, ...]
    reflections: int
