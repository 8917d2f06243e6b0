"""Grading the output of local tests: a printed pass alone does not count."""

from __future__ import annotations

from typing import Any

import pytest

from swe_retry.environments.base import UnavailableError
from swe_retry.report.evaluation.grading import grade_output, unconfirmed_tests
from swe_retry.results.verdicts import Verdict, VerdictStatus
from swe_retry.testing.testlogs import fallback_parser
from tests.support.evaluated import (
    HIDDEN,
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


def graded(line: str, kind: str, exit_code: int = 0, **changes: Any) -> Verdict:
    """Grade a run in which the last test of ``TEXTKIT`` has another line than its pass."""
    printed = PRINTED.replace(f"PASSED {HIDDEN}\n", line)
    tag = f'{TESTS[2]}">'
    report = junit_report().replace(tag, f"{tag}{kind}")
    case = task(TEXTKIT, **changes)
    return grade_output(case, f"{printed}\nTOKEN\n{report}", "TOKEN", {}, exit_code)


@pytest.mark.parametrize(
    "line",
    ["", f"ERROR {HIDDEN}\n", f"SKIPPED {HIDDEN}\n", f"XPASS {HIDDEN}\n"],
)
def test_what_was_broken_must_be_reported_as_passed(line: str) -> None:
    """With ``fail_only`` swebench takes a test that did not run for one that is fixed."""
    verdict = graded(line, "<error/>", eval_type="fail_only")
    assert verdict.status is VerdictStatus.UNRESOLVED
    assert graded(f"PASSED {HIDDEN}\n", "", eval_type="fail_only").resolved


def test_an_expected_failure_and_a_test_that_vanished_are_left_to_the_gold_patch() -> (
    None
):
    expected = "<skipped type='pytest.xfail'/>"
    verdict = graded(f"XFAIL {HIDDEN}\n", expected)
    assert verdict.resolved
    assert unconfirmed_tests(verdict) == {HIDDEN}
    lists = {"FAIL_TO_PASS": [f"tests/test_slug.py::{TESTS[0]}"]}
    for line, kind in ((f"XFAIL {HIDDEN}\n", expected), ("", "<error/>")):
        changes: dict[str, Any] = {
            **lists,
            "PASS_TO_PASS": [HIDDEN],
            "eval_type": "fail_only",
        }
        verdict = graded(line, kind, **changes)
        assert verdict.resolved
        assert unconfirmed_tests(verdict) == {HIDDEN}
    # For swebench a test that is skipped is kept.
    changes = {**lists, "PASS_TO_PASS": [HIDDEN]}
    verdict = graded(f"SKIPPED {HIDDEN}\n", "<skipped/>", **changes)
    assert verdict.resolved
    assert not unconfirmed_tests(verdict)


def test_a_run_that_fails_without_a_failed_test_is_not_what_it_reports() -> None:
    line = f"PASSED {HIDDEN}\n"
    assert graded(line, "", exit_code=0).resolved
    assert not graded(line, "", exit_code=1).resolved


@pytest.mark.parametrize("key", ["log_parser", "eval_type"])
def test_what_swebench_cannot_read_is_not_evaluated(key: str) -> None:
    with pytest.raises(UnavailableError, match=f"{key} 'nowhere'"):
        grade_output(task(TEXTKIT, **{key: "nowhere"}), PRINTED, "TOKEN", {})


def test_the_parser_is_that_of_the_repository() -> None:
    """The runner decides for repositories that swebench does not know."""
    command = "pytest -rA"
    assert fallback_parser("pytest-dev/pytest", command) == "parse_log_pytest"
    assert fallback_parser("psf/requests", "tox") == "parse_log_pytest_options"
    assert fallback_parser("own/thing", command) == "parse_log_sphinx"
    assert fallback_parser("own/thing", "./tests/runtests.py") == "parse_log_django"
    # swebench names a parser that it does not register.
    assert fallback_parser("cypress-io/cypress", "npx vitest") == "parse_log_vitest"
    # The name is cut at its space by one of the parsers, and not by the other.
    name = "tests/test_slug.py::test_a[x y]"
    verdicts = []
    for repo in ("pytest-dev/pytest", "sphinx-doc/sphinx"):
        case = task(
            TEXTKIT,
            repo=repo,
            log_parser="",
            FAIL_TO_PASS=[name],
            PASS_TO_PASS=[],
        )
        report = junit_report().replace(TESTS[0], "test_a[x y]")
        output = f"PASSED {name}\nTOKEN\n{report}"
        verdicts.append(grade_output(case, output, "TOKEN", {}).resolved)
    assert verdicts == [False, True]
