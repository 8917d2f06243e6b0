"""Results per test, read from the real output of several runners; see tests/data/testlogs."""

from __future__ import annotations

from pathlib import Path

import pytest

from swe_retry.frameworks import Runner
from swe_retry.testing.testlogs import Results, read_run
from tests.fixtures import an_instance

LOGS = Path(__file__).parents[1] / "data" / "testlogs"


def read(log: str, runner: Runner, *files: str) -> Results:
    text = (LOGS / f"{log}.txt").read_text(encoding="utf-8")
    run = read_run(text, an_instance(), runner, "TOKEN", files)
    return run.results


def test_a_report_of_pytest_3() -> None:
    """It gives no type to expected failures and counts the instances of nested classes.

    It also has an entry without a name: the test that ended the run by pytest.exit.
    """
    results = read(
        "pytest-3.3-report",
        Runner.PYTEST,
        "tests/test_old.py",
        "tests/test_doc.txt",
    )
    assert results == {
        "tests/test_doc.txt::test_doc.txt": "PASSED",
        "tests/test_old.py::test_xfail": "XFAIL",
        "tests/test_old.py::test_skip": "SKIPPED",
        "tests/test_old.py::TestA::TestB::test_inner": "PASSED",
    }


@pytest.mark.parametrize("log", ["sympy-1.1-wrapped", "sympy-1.12-wrapped"])
def test_sympy_tests_with_long_names_and_the_last_of_a_file_are_read(log: str) -> None:
    results = read(log, Runner.SYMPY)
    tests = {name: status for name, status in results.items() if ".py" not in name}
    assert tests == {
        "test_a": "PASSED",
        f"test_long_{'n' * 72}": "PASSED",
        f"test_long_{'m' * 72}": "FAILED",
        "test_last": "PASSED",
    }
