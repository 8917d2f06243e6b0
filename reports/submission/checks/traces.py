"""Find traces of an instance's hidden half in the texts that a model was shown.

A model that solves an issue writes lines of the gold patch itself. So a line counts only if it was
not first written by the model, and, because repositories repeat lines, only if it is not in the
base commit. Without a mirror to look that up, more than half of a field's lines must be shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from reports.submission.checks.conversations import Trajectory
from reports.submission.checks.hidden import Hidden, StandInBase


def traces(
    trajectory: Trajectory, fields: Sequence[Hidden], patch: str, base: StandInBase | None
) -> Iterator[tuple[str, str]]:
    """Yield each hidden field with a trace in ``trajectory``, and an example.

    Args:
        trajectory: one file.
        fields: the instance's hidden fields.
        patch: the prediction.
        base: returns the lines that are in the base commit; None without a mirror.
    """
    for hidden in fields:
        marks = [line for line in hidden.marks if trajectory.shows(line, patch)]
        lines = [line for line in hidden.lines if trajectory.shows(line, patch)]
        found = evidence(hidden, marks, lines, base)
        if found:
            yield hidden.what, found[0]


def evidence(
    hidden: Hidden, marks: list[str], lines: list[str], base: StandInBase | None
) -> list[str]:
    """Return which of the marks and lines that were shown count.

    Args:
        hidden: their field.
        marks, lines: of the field, that a trajectory shows.
        base: returns the lines that are in the base commit; None without a mirror.
    """
    if not marks and not lines:
        return []
    if base is not None:
        known = base([*marks, *lines])
        return [line for line in (*marks, *lines) if line not in known]
    most = 2 * len(lines) > len(hidden.lines)
    return [*marks, *(lines if most else [])]
