"""Grading the output of local tests: a printed pass alone does not count."""

from __future__ import annotations

import pytest

from reports.data.verdicts import VerdictStatus
from reports.evaluation.grading import grade_output
from tests.support.evaluated import (
    PRINTED,
    TESTS,
    TEXTKIT,
    junit_report,
    rows,
    task,
)


@pytest.mark.parametrize(
    ("output", "resolved"),
    [
        (f"{PRINTED}\nTOKEN\n{junit_report()}", True),
        (f"{PRINTED}\nTOKEN\n{junit_report(TESTS[2])}", False),
        (PRINTED, False),
        (f"{PRINTED}\nTOKEN\n<testsuites>", False),
        (f"{PRINTED}\n{junit_report()}\nTOKEN\n", False),
        (f"\nTOKEN\n{junit_report()}", False),
    ],
)
def test_a_pass_needs_its_line_and_pytests_report(output: str, resolved: bool) -> None:
    verdict = grade_output(task(TEXTKIT), output, "TOKEN", {})
    assert verdict.log.startswith("swe-retry-harness: ")
    assert output in verdict.log
    assert (verdict.status is VerdictStatus.RESOLVED) is resolved


def test_names_that_no_report_can_hold_are_read_as_swebench_does() -> None:
    """swebench's parser takes nested output for names; rows of pytest itself have some."""
    inner = "test_one.py::test_this"
    nested = f"PASSED [100%]\nPASSED [\nXFAIL {inner}\n"
    case = task(TEXTKIT, PASS_TO_PASS=["[100%]", "[", inner])
    output = f"{nested}{PRINTED}\nTOKEN\n{junit_report()}"
    verdict = grade_output(case, output, "TOKEN", {})
    assert verdict.status is VerdictStatus.RESOLVED
    reason = (
        f"as swebench reads [, [100%], {inner}, which pytest's report cannot confirm"
    )
    assert reason in verdict.reason
    # Another test of a file of this run is none of a nested run.
    other = "tests/test_slug.py::test_other"
    forged = task(TEXTKIT, PASS_TO_PASS=[other])
    output = f"PASSED {other}\n{PRINTED}\nTOKEN\n{junit_report()}"
    verdict = grade_output(forged, output, "TOKEN", {})
    assert verdict.status is VerdictStatus.UNRESOLVED
    # A report that is missing confirms nothing, and one that names the test decides.
    alone = grade_output(case, f"{nested}{PRINTED}", "TOKEN", {})
    assert alone.status is VerdictStatus.UNRESOLVED
    failed = f"{nested}{PRINTED}\nTOKEN\n{junit_report(TESTS[2])}"
    verdict = grade_output(case, failed, "TOKEN", {})
    assert verdict.status is VerdictStatus.UNRESOLVED


def test_a_pass_of_unittest_needs_a_result_of_its_runner() -> None:
    spec = rows()[TEXTKIT]["spec"]
    name = "test_x (tests.T.test_x)"
    case = task(
        TEXTKIT,
        spec={**spec, "test_cmd": "python -m unittest -v"},
        log_parser="parse_log_django",
        PASS_TO_PASS=[],
        FAIL_TO_PASS=[name],
    )
    output = f"{name} ... ok\n\n-----\nRan 1 test in 0.001s\n\nOK\n"
    for tests, resolved in (
        ([(name, "PASSED")], True),
        ([(name, "SKIPPED")], False),
        ([(name, "PASSED"), (name, "ERROR")], False),
        ([(name, "of no kind")], False),
        ([], False),
        (None, False),
    ):
        statements = {"end": {"tests": tests}}
        verdict = grade_output(case, output, "TOKEN", statements)
        assert (verdict.status is VerdictStatus.RESOLVED) is resolved, tests
