"""One instance of a run and its verdict."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from reports.data.attemptdata import AttemptData
from reports.evaluation.evaluators.base import Verdict, VerdictStatus


@dataclass(frozen=True)
class InstanceData:
    """One predicted instance.

    Attributes:
        repo: ``owner/name``; derived from the id if the dataset row is not available.
        year: of the issue's pull request; None if unknown.
        status: a value of ``InstanceStatus``.
        attempt: the number of the attempt that the prediction file names, with or without a patch.
        winner: the same number; None if the patch is empty.
        model: of that attempt; None if unknown.
        patch: the predicted patch; empty if nothing was generated.
        raw_patch: the patch with excluded files, such as edits to tests.
        verdict: on ``patch``; None if there is none.
        plausible: None in runs of other harnesses, which do not say.
        resolved: None if it was not evaluated; False for an empty patch.
        cost: dollars of all attempts; None if unknown.
        gold_files: files of the gold patch; None if unknown.
        map_files: files in the repository maps that models were shown; None if unknown.
        image: the name of the image for its tests, even if none ran in it.
        origin: in a combined run, the run that it comes from; else empty.
        edits_test_configuration: whether the patch changes how existing tests run.
        test_note: what limits the outcome of its tests.
        patch_known: False if the files of another harness hold no patch.
    """

    instance_id: str
    repo: str
    year: int | None
    status: str
    reason: str
    plausible: bool | None
    attempt: int
    winner: int | None
    model: str | None
    patch: str
    raw_patch: str
    attempts: tuple[AttemptData, ...]
    verdict: Verdict | None
    resolved: bool | None
    cost: Decimal | None
    gold_files: tuple[str, ...] | None
    map_files: tuple[str, ...] | None = None
    image: str = ""
    origin: str = ""
    edits_test_configuration: bool = False
    test_note: str = ""
    patch_known: bool = True

    @property
    def may_resolve(self) -> bool:
        """Whether there is a patch, or may be one."""
        return bool(self.patch.strip()) or not self.patch_known

    @property
    def chosen(self) -> AttemptData | None:
        """The attempt that the prediction file names; None if no file describes it."""
        return next((a for a in self.attempts if a.attempt == self.attempt), None)

    def resolved_by(self, attempt: AttemptData) -> bool | None:
        """Return whether one of its attempts resolves it; None without a verdict.

        If the verdict on the prediction is official, unofficial ones on attempts do not count.
        """
        if not attempt.patch_known:
            return self.resolved if attempt is self.chosen else None
        if not attempt.submittable_patch.strip():
            return False
        if attempt.submittable_patch == self.patch:
            return self.resolved
        official = self.verdict is not None and self.verdict.official
        if attempt.verdict is None or (official and not attempt.verdict.official):
            return None
        return resolved_of(attempt.verdict)


def resolved_of(verdict: Verdict | None) -> bool | None:
    """Return what ``verdict`` says; None if there is none or nothing was evaluated."""
    if verdict is None or verdict.status is VerdictStatus.NOT_EVALUATED:
        return None
    return verdict.status is VerdictStatus.RESOLVED
