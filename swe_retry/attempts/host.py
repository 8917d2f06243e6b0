"""What a run does for the agent of one attempt."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from swe_retry.attempts.checkouts import Checkouts
from swe_retry.attempts.outcomes import TreeChecks
from swe_retry.llm.gate import Gate
from swe_retry.runner.jobs import JobContext
from swe_retry.runner.progress.state import WorkStep


@dataclass(frozen=True)
class AttemptHost:
    """The host of an attempt of a run; see ``swe_retry.agent.protocol.Host``.

    Attributes:
        show: shows a step of the attempt to the user.
    """

    context: JobContext
    checkouts: Checkouts
    checks: TreeChecks
    show: Callable[[WorkStep], None]
    draw_map: Callable[[], str]
    open_gate: Callable[[], Gate]

    def let_others_work(self) -> AbstractContextManager[None]:
        self.show(WorkStep.STARTING)
        return self.context.slot.given_back()

    def note_call(self) -> None:
        self.show(WorkStep.ASKING)

    def settle_checkout(self) -> None:
        self.checks.checkout.settle()

    def allow_reuse(self) -> None:
        self.checkouts.allow_reuse()

    def check_killed(self) -> None:
        self.context.worker.stop.check_at_once()

    def review_tree(self) -> str:
        return self.checks.describe_problem()
