"""All tests, run on the candidate that would be chosen (``--full-suite winner``)."""

from __future__ import annotations

from dataclasses import replace

from bench.attempts.candidates import attempt_status
from bench.attempts.predicted import tree_of
from bench.attempts.records import AttemptRecord
from bench.regression.baselines import ALL_TESTS
from bench.regression.suite import RegressionTests
from bench.regression.testlogs import Results, passing
from bench.repos.checkout import Checkout


def with_whole_suite(
    record: AttemptRecord, tests: RegressionTests, base: Checkout
) -> AttemptRecord:
    """Return ``record`` with the outcome of all tests on its patch; unknown, its own stays."""
    whole, candidate = tests.whole, record.candidate
    report = whole.run(tree_of(base, candidate.submittable_patch) or {})
    test = candidate.test if report.outcome is None else report.outcome
    words = f"all tests: {results_in_words(whole.results.get(ALL_TESTS, {}))}"
    if report.outcome is None:
        words = f"all tests could not tell: {whole.untested or 'they have no usable baseline'}"
    found = replace(
        candidate,
        test=test,
        untested=candidate.untested if test is None else "",
        test_note="; ".join(filter(None, (candidate.test_note, words, whole.note))),
    )
    failing = tuple(failure.name for failure in report.failures) or record.failing
    return replace(record, candidate=found, status=attempt_status(found), failing=failing)


def results_in_words(results: Results) -> str:
    """Return how many tests pass, fail and are skipped."""
    passed, failed = len(passing(results)), len(failing_tests(results))
    skipped = len(results) - passed - failed
    return f"{passed} pass, {failed} fail" + (f", {skipped} are skipped" if skipped else "")


def failing_tests(results: Results) -> tuple[str, ...]:
    return tuple(sorted(name for name, status in results.items() if status in _FAILING))


_FAILING = ("FAILED", "ERROR")
