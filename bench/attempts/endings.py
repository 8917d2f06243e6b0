"""Pure: the status of an attempt, from its conversation's ending and its patch."""

from __future__ import annotations

from collections.abc import Sequence

from agent.conversation.outcomes import ConversationLimits, Ending
from bench.attempts.candidates import BROKEN, AttemptStatus
from bench.attempts.predicted import Examined
from bench.regression.configuration.testconfig import ConfigurationEdits

_NAMED = 3
_EARLY = {
    Ending.REFUSED: AttemptStatus.ERROR,
    Ending.CONTEXT: AttemptStatus.CONTEXT,
    Ending.BUDGET: AttemptStatus.BUDGET,
    Ending.TIME: AttemptStatus.TIMEOUT,
    Ending.FAILED: AttemptStatus.ERROR,
}


def status_of(found: Examined, ending: Ending, limits: ConversationLimits) -> AttemptStatus | None:
    """Return the status of a patch that is never plausible, else how the conversation ended."""
    early = ended_early(ending, limits)
    if early in BROKEN or not found.applies:
        return early
    if found.differing:
        return AttemptStatus.TREE_DIFFERS
    if found.edits is ConfigurationEdits.ALL:
        return AttemptStatus.ONLY_TEST_CONFIGURATION
    return early


def faults_of(found: Examined, lost: Sequence[str]) -> str:
    """Return in words what is wrong with a tree; ``lost`` are its files in submodules."""
    words = [f"not predicted, in a submodule: {_some(lost)}"] if lost else []
    if found.differing:
        words.append(f"the tested tree is not the predicted one: {_some(found.differing)}")
    return "; ".join(words)


def _some(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
    return ", ".join(map(ascii, paths[:_NAMED])) + more


def ended_early(ending: Ending, limits: ConversationLimits) -> AttemptStatus | None:
    """Return the status of a conversation that did not end by its outcomes."""
    if ending in _EARLY:
        return _EARLY[ending]
    exhausted = ending is Ending.REPLAY_EXHAUSTED and not limits.until_exhausted
    return AttemptStatus.REPLAY_EXHAUSTED if exhausted else None
