"""What the instances of a run tell about each other: when to stop, and which to choose. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from swe_retry.attempts.choose import CandidateChoice, finish_choice
from swe_retry.attempts.evidence.choice import choose_by_evidence, facts_of
from swe_retry.attempts.evidence.facts import RIGHT, InstanceFacts
from swe_retry.record.evidence import BeliefFit
from swe_retry.record.result import InstanceResult

FIRST_FIT = 25
"""How many instances must have ended before anything is fitted to them."""


@dataclass
class RunFit:
    """What the instances that ended tell about those that start.

    It is fitted when 25, 50, 100 and so on have ended, so all fits together take twice the time
    of the last.

    Attributes:
        right: the share of right attempts that is expected.
        current: None before the first fit.
    """

    right: float = RIGHT
    current: BeliefFit | None = None
    _facts: dict[str, InstanceFacts] = field(default_factory=dict)
    _due: int = field(default_factory=lambda: FIRST_FIT)

    def now(self) -> RunFit:
        """Return what is known now, without the instances that it was fitted to."""
        return RunFit(self.right, self.current)

    @property
    def missing(self) -> int:
        """How many instances are to end before the next fit."""
        return self._due - len(self._facts)

    def add_result(self, result: InstanceResult) -> None:
        """Count a result; one that was not chosen by evidence says nothing."""
        facts = facts_of_result(result)
        if facts is not None:
            self.add(result.instance_id, facts)

    def add(self, instance_id: str, facts: InstanceFacts) -> None:
        """Count an instance, once if it is done again, and fit when it is time."""
        from swe_retry.attempts.evidence.fit import fit_run

        self._facts[instance_id] = facts
        if self.missing > 0:
            return
        self.current = fit_run(list(self._facts.values()), self.right)
        self._due *= 2


def choose_again(
    results: Iterable[InstanceResult],
    right: float,
    *,
    require_tests: bool,
) -> Iterator[tuple[str, CandidateChoice]]:
    """Yield the instances whose choice differs with a fit to all of them, with the choice.

    Args:
        results: of a run; those that were not chosen by evidence stay as they are.
        right: the share of right attempts that is expected.
    """
    from swe_retry.attempts.evidence.fit import fit_run

    chosen = []
    facts = []
    for result in results:
        of_instance = facts_of_result(result)
        if of_instance is not None:
            chosen.append(result)
            facts.append(of_instance)
    if not chosen:
        return
    fit = fit_run(facts, right)
    for result in chosen:
        choice = choose_by_evidence(
            result.attempts,
            result.evidence,
            fit,
            require_tests=require_tests,
        )
        choice = finish_choice(choice, result.attempts)
        if choice.winner and choice.belief != result.belief:
            yield result.instance_id, choice


def facts_of_result(result: InstanceResult) -> InstanceFacts | None:
    """Return what a belief follows from; None of a result that was not chosen by evidence."""
    if result.evidence and result.belief:
        return facts_of(result.evidence, result.attempts)
    return None


def with_choice(result: InstanceResult, choice: CandidateChoice) -> InstanceResult:
    """Return a result with another choice, which has a winner, among its attempts."""
    winner = choice.winner
    assert winner is not None
    return result.but(
        model_patch=winner.model_patch,
        attempt=winner.attempt,
        status=choice.status,
        reason=choice.reason,
        belief=choice.belief,
    )
