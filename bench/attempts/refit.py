"""Choose again when a run ends, with what its instances tell about each other. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bench.attempts.choose import CandidateChoice, finish_choice
from bench.attempts.evidence.choice import choose_by_evidence, facts_of
from runs.records import InstanceResult


def choose_again(
    results: Sequence[InstanceResult],
    right: float,
    *,
    require_tests: bool,
) -> Iterator[tuple[str, CandidateChoice]]:
    """Yield the instances whose choice differs with a fit to all of them, with the choice.

    Args:
        results: of a run; those that were not chosen by evidence stay as they are.
        right: the share of right attempts that is expected.
    """
    from bench.attempts.evidence.fit import fit_run

    chosen = []
    facts = []
    for result in results:
        if result.evidence and result.belief:
            chosen.append(result)
            facts.append(facts_of(result.evidence, result.attempts))
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
