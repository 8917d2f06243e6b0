"""Pure: the status of an attempt by its outcomes, which decides what is plausible."""

from __future__ import annotations

from swe_retry.record.records import NEVER_PLAUSIBLE, Attempt, AttemptStatus


def status_by(
    attempt: Attempt,
    ended: AttemptStatus | None = None,
    *,
    unknown_is_failed: bool = False,
) -> AttemptStatus:
    """Return the status that follows from the outcomes of an attempt.

    Args:
        ended: how it ended, if otherwise than by its outcomes.
        unknown_is_failed: as in May 2024, when an unknown outcome was a failed one.
    """
    edit = attempt.edit_outcome
    lint = attempt.lint_outcome
    tests = attempt.test_outcome
    passed = tests is not False
    if unknown_is_failed:
        passed = tests is True
    if attempt.usable and edit and lint and passed and ended not in NEVER_PLAUSIBLE:
        if tests:
            return AttemptStatus.PLAUSIBLE
        return AttemptStatus.PLAUSIBLE_UNTESTED
    if ended is not None:
        return ended
    if edit is False:
        return AttemptStatus.EDIT_FAILED
    if not attempt.applies:
        return AttemptStatus.ERROR
    if not attempt.usable:
        return AttemptStatus.EMPTY
    if lint is False:
        return AttemptStatus.LINT_FAILED
    if tests is False or (edit and lint):
        return AttemptStatus.TESTS_FAILED
    return AttemptStatus.EDIT_FAILED
