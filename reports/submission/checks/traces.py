"""Traces of the hidden half of an instance in what was shown to a model.

A model that solves an issue writes lines of the gold patch itself. So a line counts where somebody
else says it first; and because a repository repeats itself, only where the base commit does not
hold it. Without a mirror to look that up, more than half of a field's lines must be shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from reports.submission.checks.conversations import Trajectory
from reports.submission.checks.hidden import Hidden

StandInBase = Callable[[Sequence[str]], frozenset[str]]


def traces(
    trajectory: Trajectory, fields: Sequence[Hidden], patch: str, base: StandInBase | None
) -> Iterator[tuple[str, str]]:
    """Yield the hidden fields of which ``trajectory`` shows a trace, each with an example.

    Args:
        trajectory: one file.
        fields: the instance's.
        patch: the prediction.
        base: tells which lines stand in the base commit; None when no mirror is at hand.
    """
    for hidden in fields:
        marks = [line for line in hidden.marks if trajectory.shows(line, patch)]
        lines = [line for line in hidden.lines if trajectory.shows(line, patch)]
        found = _counted(hidden, marks, lines, base)
        if found:
            yield hidden.what, found[0]


def _counted(
    hidden: Hidden, marks: list[str], lines: list[str], base: StandInBase | None
) -> list[str]:
    if not marks and not lines:
        return []
    if base is not None:
        known = base([*marks, *lines])
        return [line for line in (*marks, *lines) if line not in known]
    most = 2 * len(lines) > len(hidden.lines)
    return [*marks, *(lines if most else [])]
