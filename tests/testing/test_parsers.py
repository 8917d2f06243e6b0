"""Results per test in the real output of runners; tests/data/testlogs/other holds it."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from swe_retry.frameworks import Runner, parse_output
from swe_retry.frameworks.documents import parse_xml
from swe_retry.testing.failures import failures_of
from swe_retry.testing.testlogs import (
    TestRun,
    missing_passes,
    read_run,
    with_report_file,
)
from tests.fixtures import an_instance

LOGS = Path(__file__).parents[1] / "data" / "testlogs" / "other"

# Runner; how many tests passed, failed, were skipped; a failed test and a part of its reason.
EXPECTED = {
    "go-v": (
        Runner.GO,
        (7, 4, 1),
        "example.org/thing/calc::TestAdd/wrong",
        "got 2, want 3",
    ),
    "go-json": (
        Runner.GO,
        (6, 3, 1),
        "example.org/thing/panics::TestPanics",
        "nil map",
    ),
    "go-plain": (Runner.GO, (1, 4, 0), "example.org/thing/broken", ""),
    "cargo": (Runner.CARGO, (5, 1, 1), "thing_rs src/lib.rs: tests::fails", "left: 2"),
    "cargo-nocapture": (
        Runner.CARGO,
        (5, 1, 1),
        "thing_rs src/lib.rs: tests::fails",
        "",
    ),
    "jest-verbose": (
        Runner.JEST,
        (3, 3, 2),
        "test/sum.test.js > sum > fails (here)",
        "Received",
    ),
    "jest-plain": (Runner.JEST, (0, 3, 0), "test/other.test.js", "Cannot find module"),
    "jest-json": (
        Runner.JEST,
        (3, 3, 2),
        "test/sum.test.js > sum > fails (here)",
        "Expected: ",
    ),
    "vitest-verbose": (
        Runner.VITEST,
        (3, 2, 2),
        "v/sum.spec.mjs > sum > fails (here)",
        "to be 3",
    ),
    "vitest": (Runner.VITEST, (0, 2, 0), "v/other.spec.mjs", "Cannot find module"),
    "mocha": (Runner.MOCHA, (2, 3, 1), "sum > deeper > throws", "Error: boom"),
    "mocha-json": (Runner.MOCHA, (2, 3, 1), "sum deeper throws", "Error: boom"),
    "mocha-tap": (Runner.MOCHA, (2, 3, 1), "sum deeper throws", "Error: boom"),
    "node-tap": (Runner.NODE, (3, 2, 2), "sum > fails", "error: '1 == 2'"),
    "node-spec": (Runner.NODE, (3, 1, 1), "sum > fails", ""),
    "ctest": (Runner.CTEST, (1, 4, 2), "crashes", ""),
    "ctest-v": (Runner.CTEST, (1, 4, 2), "slow", ""),
    "gtest": (Runner.CTEST, (3, 1, 1), "Sum.Fails", ""),
    "phpunit-testdox": (
        Runner.PHPUNIT,
        (3, 3, 3),
        "Calc > Errs",
        "RuntimeException: boom",
    ),
    "minitest-v": (Runner.MINITEST, (2, 2, 1), "CalcTest#test_fails", "Expected: 3"),
    "testunit-v": (Runner.MINITEST, (2, 2, 2), "TuTest > test_fails", "<3> expected"),
    "rspec-doc": (Runner.RSPEC, (3, 2, 2), "Calc > when deep > fails (here)", "boom"),
    "rspec-json": (
        Runner.RSPEC,
        (3, 2, 2),
        "./spec/calc_spec.rb: Calc fails (here)",
        "got: 2",
    ),
    "mvn": (Runner.MAVEN, (0, 3, 1), "org.ex.CalcTest.fails", "expected: <3>"),
}


def read(name: str) -> str:
    return (LOGS / f"{name}.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", EXPECTED)
def test_results_and_reasons_are_read(name: str) -> None:
    """With the runner, and as the output of a script, by which the runner is known."""
    runner, counts, failed, reason = EXPECTED[name]
    parsed = parse_output(read(name), runner)
    by_status = Counter(parsed.results.values())
    passes, failures, skips = counts
    assert by_status["PASSED"] == passes
    assert by_status["FAILED"] == failures
    assert by_status["SKIPPED"] == skips
    assert parsed.results[failed] == "FAILED"
    assert reason in parsed.details.get(failed, "")
    text = f"\x1b[32mbuilding\x1b[0m\r\n{read(name)}"
    assert parse_output(text, Runner.SCRIPT).results == parsed.results


def test_output_without_tests_has_no_results() -> None:
    for text in (
        read("cargo-broken"),
        "",
        "Makefile:3: *** stop",
        "{}\n{\n[1]",
    ):
        assert parse_output(text, Runner.SCRIPT).results == {}


LINES = {
    "PASS: a.sh\nXFAIL: b.sh\nFAIL: c.sh 2 - deep\n# PASS:  1\n": ("a.sh", "b.sh", "c.sh 2 - deep"),
    "[ok]: sets a key (3 ms)\n[skip]: b\n[err]: fails in tests/unit/a.tcl\n": (
        "sets a key", "b", "fails",
    ),
    "org.ex.A > adds() PASSED\norg.ex.A > b SKIPPED\norg.ex.A > many > [1] x FAILED\n": (
        "org.ex.A > adds()", "org.ex.A > b", "org.ex.A > many > [1] x",
    ),
    "        PASS [   0.005s] thing tests::a\n        FAIL [   0.004s] thing tests::c\n": (
        "thing tests::a", "", "thing tests::c",
    ),
    "[PASSED] sum > adds\n[PENDING] b\n[FAILED] sum > c\n": ("sum > adds", "b", "sum > c"),
    "Calc adds - passed\nCalc b - pending\nCalc c - failed\n": ("Calc adds", "Calc b", "Calc c"),
    "ok 1 - a\nok 2 b # SKIP no network\nnot ok 3 - c\n1..3\n": ("a", "b", "c"),
    "t.py::a PASSED [ 50%]\nt.py::b SKIPPED (x) [ 60%]\nt.py::c FAILED [100%]\n": (
        "t.py::a", "t.py::b", "t.py::c",
    ),
}  # fmt: skip


def test_formats_with_a_line_for_each_test() -> None:
    for text, (good, skipped, bad) in LINES.items():
        results = parse_output(text, Runner.SCRIPT).results
        assert results[good] == "PASSED"
        assert results[bad] == "FAILED"
        if skipped:
            assert results[skipped] in ("SKIPPED", "XFAIL")


FORGED = {
    "go-v": "--- PASS: TestAdd/wrong (0.00s)",
    "cargo": "test tests::invented ... ok",
    "jest-verbose": "PASS test/forged.test.js\n  ✓ invented",
    "mocha": "    ✔ invented",
    "vitest-verbose": " ✓ v/sum.spec.mjs > invented 1ms",
    "minitest-v": "CalcTest#test_invented = 0.00 s = .",
    "phpunit-testdox": " ✔ Invented",
    "ctest": "9/9 Test #9: invented ....   Passed    0.01 sec",
    "gtest": "[       OK ] Sum.Invented (0 ms)",
}


def of_status(results: Mapping[str, str], *statuses: str) -> set[str]:
    return {test for test, status in results.items() if status in statuses}


@pytest.mark.parametrize("name", FORGED)
def test_printed_lines_make_no_test_pass(name: str) -> None:
    """A failure outweighs a pass, and tests that the runner did not count make all doubtful."""
    runner, *_ = EXPECTED[name]
    text = read(name)
    before = parse_output(text, runner).results
    head, end, tail = text.partition("\n")
    forged_text = f"{head}{end}{FORGED[name]}\n{tail}"
    forged = parse_output(forged_text, runner).results
    assert not of_status(before, "FAILED") & of_status(forged, "PASSED")
    assert not any("nvented" in test for test in forged)


def test_a_documentation_test_keeps_its_name_when_it_moves() -> None:
    text = read("cargo")
    moved = text.replace("(line 4)", "(line 9)")
    assert parse_output(moved, Runner.CARGO) == parse_output(text, Runner.CARGO)


def read_report(output: str, runner: Runner, **columns: Any) -> TestRun:
    return read_run(output, an_instance(**columns), runner, "TOKEN", ())


def test_reports_of_maven_count_more_than_what_it_prints() -> None:
    report = read("surefire.xml")
    output = f"{read('mvn')}\nTOKEN\n{report}{report}"
    run = read_report(output, Runner.MAVEN)
    counts = {"PASSED": 4, "FAILED": 1, "ERROR": 1, "SKIPPED": 1}
    assert Counter(run.results.values()) == counts
    assert "expected: <3>" in run.details["org.ex.CalcTest::fails"]
    assert "TOKEN" not in run.log
    # Without a report, as when the project does not compile, all tests that passed are missing.
    stopped = read_report("BUILD FAILURE\nTOKEN\n", Runner.MAVEN)
    missing = missing_passes(run.results, stopped.results)
    assert len(missing) == 4


def test_a_specification_that_cannot_be_loaded_says_why() -> None:
    message = "\nAn error occurred while loading ./spec/a_spec.rb.\nSyntaxError: a.rb:1"
    text = json.dumps({"messages": [message], "examples": []})
    run = read_report(text, Runner.RSPEC)
    assert run.results == {"./spec/a_spec.rb": "FAILED"}
    names = ["./spec/a_spec.rb: A b"]
    (failure,) = failures_of(run.log, Runner.RSPEC, names, "", run.details)
    assert "SyntaxError" in failure.detail


def test_reports_are_new_ones_of_this_run(tmp_path: Path) -> None:
    for name in ("old", "new"):
        (tmp_path / name / "surefire-reports").mkdir(parents=True)
    report = '<testsuite><testcase classname="{0}" name="t"/></testsuite>'
    old_report = report.format("old")
    new_report = report.format("new")
    path = "surefire-reports/TEST-a.xml"
    (tmp_path / "old" / path).write_text(old_report, encoding="utf-8")
    command = f"sleep 0.02; echo '{new_report}' >new/{path}; exit 3"
    script = with_report_file(f"({command})", Runner.MAVEN, "TOKEN")
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 3
    run = read_report(done.stdout, Runner.MAVEN)
    assert run.results == {"new::t": "PASSED"}


def test_a_report_with_entities_is_refused() -> None:
    bomb = '<!DOCTYPE a [<!ENTITY b "c">]><testsuite><testcase name="x"/></testsuite>'
    assert parse_xml(bomb).results == {}


def test_swebench_s_parser_of_the_row_reads_what_ours_cannot() -> None:
    text = "pass  basics/fun.py\nFAIL  basics/gen.py\n"
    parser = "parse_log_micropython_test"
    run = read_report(text, Runner.SCRIPT, log_parser=parser)
    assert run.results == {
        "basics/fun.py": "PASSED",
        "basics/gen.py": "FAILED",
    }


@settings(max_examples=40)
@given(st.sampled_from(sorted(EXPECTED)), st.floats(0, 1), st.text(max_size=40))
@example("node-tap", 0.90234375, "")  # within a line
def test_damaged_output_is_no_error_and_invents_no_pass(
    name: str, at: float, noise: str
) -> None:
    text = read(name)
    runner, *_ = EXPECTED[name]
    cut = int(len(text) * at)
    head = text[:cut]
    tail = text[cut:]
    complete = parse_output(text, runner).results
    damaged = parse_output(head + noise, runner).results
    names = {test.rpartition("::")[2] for test in complete}
    passed = of_status(damaged, "PASSED")
    # A package of Go that was cut off stands for its tests.
    for test in passed:
        name_in_file = test.rpartition("::")[2]
        assert name_in_file in names or "/" in name_in_file or noise
    failed = of_status(complete, "FAILED", "ERROR")
    for test in passed & failed:
        assert test in tail
