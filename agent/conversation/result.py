"""How a conversation ended, and its outcomes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

CheckOutcome = bool | None
"""True, False, or None for unknown."""


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
