"""What became of the edits of a reply, and the message to the model about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from swe_retry.agent.formats.edits import Fault
from swe_retry.core.plaintext import some

_MAX_EXPLAINED = 20
_MAX_LISTED = 500


class OnFailure(StrEnum):
    """Whether the good edits of a reply are kept when others fail."""

    KEEP = "keep"
    ROLL_BACK = "roll-back"


@dataclass(frozen=True)
class EditResult:
    """The result of one edit.

    Attributes:
        problem: the reason for the model why it was not applied; empty when it was.
        fault: None for an edit that was applied, or that failed for any other reason.
        landed_in: the changed file; not ``path`` when the lines were found in another file.
        step: the step of the matching that found the place; empty without a search.
    """

    path: str
    problem: str = ""
    fault: Fault | None = None
    landed_in: str = ""
    step: str = ""

    @property
    def applied(self) -> bool:
        return not self.problem


@dataclass(frozen=True)
class ApplyReport:
    """New contents by path (None: the file is gone), and one result per edit, in their order.

    Attributes:
        moved: new path to old path of renamed files.
        rolled_back: good edits were undone because others failed.
    """

    contents: dict[str, str | None]
    results: tuple[EditResult, ...]
    moved: Mapping[str, str] = field(default_factory=dict)
    rolled_back: bool = False

    @property
    def failures(self) -> tuple[EditResult, ...]:
        failures = []
        for result in self.results:
            if not result.applied:
                failures.append(result)
        return tuple(failures)

    @property
    def groups(self) -> list[tuple[str, ...]]:
        """The paths that change together: a move makes the new file and removes the old one."""
        groups: list[tuple[str, ...]] = list(self.moved.items())
        in_moves = {*self.moved, *self.moved.values()}
        for path in self.contents:
            if path not in in_moves:
                groups.append((path,))
        return groups

    def without(
        self, problems: Mapping[str, str], fault: Fault | None = None
    ) -> ApplyReport:
        """Return the report without the files of ``problems``, whose edits fail for these."""
        contents = dict(self.contents)
        for path in problems:
            contents.pop(path, None)
        moved = {new: old for new, old in self.moved.items() if new in contents}
        results = []
        for result in self.results:
            problem = problems.get(result.landed_in)
            if problem:
                result = EditResult(result.path, problem, fault)
            results.append(result)
        return replace(self, contents=contents, moved=moved, results=tuple(results))


def after_failures(report: ApplyReport, on_failure: OnFailure) -> ApplyReport:
    """Return ``report``, without the applied edits where ``on_failure`` rolls them back."""
    if on_failure is OnFailure.ROLL_BACK and report.failures:
        return replace(report, contents={}, moved={}, rolled_back=True)
    return report


def feedback(report: ApplyReport) -> str:
    """Return the message to the model about ``report``; empty when every edit was applied."""
    if not report.failures:
        return ""
    applied = []
    failed = {}
    for number, result in enumerate(report.results, 1):
        if result.applied:
            applied.append(f"{number} ({result.landed_in})")
        else:
            failed[number] = result
    numbers = list(failed)
    total = len(report.results)
    parts = [f"# {len(failed)} of {total} edits could not be applied."]
    for number in numbers[:_MAX_EXPLAINED]:
        parts.append(f"## Edit {number} of {total}: {failed[number].problem}")
    others = [str(number) for number in numbers[_MAX_EXPLAINED:]]
    if others:
        names = some(others, _MAX_LISTED)
        parts.append(f"## The edits {names} could not be applied either.")
    if report.rolled_back:
        rest = "# So none of the reply's edits was kept: send all of them again, corrected."
    elif not applied:
        rest = "Reply with corrected versions of these edits."
    else:
        names = some(applied, _MAX_LISTED)
        rest = (
            f"# The other {len(applied)} were applied and are in the files now, so do not send "
            f"them again: {names}.\nReply with corrected versions of the edits above only."
        )
    return "\n\n".join([*parts, rest])
