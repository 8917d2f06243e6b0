"""Attempts with the outcomes that a test is about."""

from __future__ import annotations

from typing import Any

from swe_retry.record.records import Attempt, AttemptStatus
from swe_retry.record.status_rule import status_by


def diff(text: str = "p", path: str = "a.py") -> str:
    """Return a patch that adds a line; the empty patch where the line is blank."""
    if not text.strip():
        return ""
    head = f"diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n"
    return f"{head}@@ -1 +1,2 @@\n 1\n+{text}\n"


def make_candidate(
    attempt: int = 1,
    edit: bool | None = True,
    lint: bool | None = True,
    test: bool | None = True,
    patch: str = "p",
    ended: AttemptStatus | None = None,
    **fields: Any,
) -> Attempt:
    """Return an attempt with the status that follows; ``patch`` is the line that it adds."""
    candidate = Attempt(
        attempt=attempt,
        model_patch=diff(patch),
        edit_outcome=edit,
        lint_outcome=lint,
        test_outcome=test,
        **fields,
    )
    return candidate.but(status=status_by(candidate, ended))
