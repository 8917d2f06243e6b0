"""All tests on the winner, before it is final."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from swe_retry.attempts.choose import CandidateChoice
from swe_retry.attempts.prepare import InstanceTools
from swe_retry.attempts.trees import tree_of
from swe_retry.core.plaintext import some
from swe_retry.record.records import Attempt
from swe_retry.record.status_rule import status_by
from swe_retry.runner.progress.state import WorkStep
from swe_retry.testing.baselines import ALL_TESTS
from swe_retry.testing.suite import SuiteReport
from swe_retry.testing.testlogs import describe_results

_MAX_NAMES = 20
Choose = Callable[[Sequence[Attempt]], CandidateChoice]


def choose_tested(
    attempts: list[Attempt], choose: Choose, tools: InstanceTools
) -> CandidateChoice:
    """Choose; a winner takes its place in ``attempts`` with the outcome of all tests.

    If one newly fails, the winner ranks lower, and the next best is chosen and tested. Where not
    all tests are to run, or none can, the choice stands.
    """
    choice = choose(attempts)
    tests = tools.tests
    base = tools.base
    if not tools.services.config.full_suite or tests is None or base is None:
        return choice
    tested: set[int] = set()
    while choice.winner and choice.winner.attempt not in tested:
        winner = choice.winner
        tested.add(winner.attempt)
        tools.context.step(winner.attempt, winner.model, WorkStep.TESTING)
        changes = tree_of(base, winner.patch) or {}
        report = tests.full_suite.run(changes)
        attempts[winner.attempt - 1] = with_all_tests(winner, report)
        choice = choose(attempts)
    return choice


def with_all_tests(attempt: Attempt, report: SuiteReport) -> Attempt:
    """Return ``attempt`` with the outcome of all tests on its patch; unknown, its own stays."""
    outcome = attempt.test_outcome
    if outcome is not False and report.outcome is not None:
        outcome = report.outcome
    failing = tuple(failure.name for failure in report.failures)
    untested = ""
    if outcome is None:
        untested = attempt.untested
    notes = (attempt.test_note, _describe_report(report, failing), report.note)
    tested = attempt.but(
        test_outcome=outcome,
        untested=untested,
        test_note="; ".join(filter(None, notes)),
        failing=failing or attempt.failing,
        newly_passing=report.newly_passing or attempt.newly_passing,
    )
    if not attempt.plausible:
        return tested
    return tested.but(status=status_by(tested))


def _describe_report(report: SuiteReport, failing: Sequence[str]) -> str:
    if report.outcome is None:
        reason = report.untested or "they have no usable baseline"
        return f"all tests could not tell: {reason}"
    text = f"all tests: {describe_results(report.results.get(ALL_TESTS, {}))}"
    if failing:
        text += f", newly failing: {some(failing, _MAX_NAMES)}"
    return text
