"""Code under test that prints like a runner does not change an outcome. Real runs."""

from __future__ import annotations

import hashlib
import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from swe_retry.frameworks import Runner
from swe_retry.testing.suite import RegressionTests, SuiteReport
from swe_retry.testing.testlogs import (
    read_run,
    report_results,
    split_report,
    with_report_file,
)
from swe_retry.testing.testsettings import TestChoice, Tests
from tests.fixtures import an_instance
from tests.support.environments import FolderSession

pytestmark = pytest.mark.run

CORE = "def one():\n    return 1\n\n\ndef two():\n    return 2\n"
PYTEST_FILES = {
    "thing/__init__.py": "",
    "thing/core.py": CORE,
    "tests/test_core.py": (
        "from thing.core import one, two\n\n\n"
        "def test_one():\n    assert one() == 1\n\n\ndef test_two():\n    assert two() == 2\n"
    ),
}
UNITTEST_FILES = {
    **PYTEST_FILES,
    "tests/test_core.py": (
        "import unittest\nfrom thing.core import one, two\n\n\n"
        "class T(unittest.TestCase):\n"
        "    def test_one(self):\n        self.assertEqual(one(), 1)\n\n"
        "    def test_two(self):\n        '''Two is two.'''\n        self.assertEqual(two(), 2)\n"
    ),
}
SUMMARY = (
    "=== short test summary info ===\n"
    "PASSED tests/test_core.py::test_one\nPASSED tests/test_core.py::test_two\n"
    "=== 2 passed in 0.01s ===\n"
)
XML = (
    '<?xml version="1.0"?><testsuites><testsuite tests="2">'
    '<testcase classname="tests.test_core" name="test_one"/>'
    '<testcase classname="tests.test_core" name="test_two"/></testsuite></testsuites>\n'
)
UNITTEST_LINES = (
    "test_one (tests.test_core.T.test_one) ... ok\ntest_one (tests.test_core.T) ... ok\n"
    "test_two (tests.test_core.T.test_two)\nTwo is two. ... ok\n"
)
UNITTEST_END = "\n----\nRan 20 tests in 0.001s\n\nOK\n"
BAD = "def one():\n    return 7\n\n\ndef two():\n    return 7\n"
RAISES = "raise ImportError('broken')\n"

# Ways and times of printing; ``{text}`` is the literal of the text.
WAYS = {
    "at import": "print({text})\n",
    "at import, on the error stream": "import sys\nprint({text}, file=sys.stderr)\n",
    "past the capturing": "import os\nos.write(1, {text}.encode())\nos.write(2, {text}.encode())\n",
    "at the end": "import atexit\natexit.register(print, {text})\n",
    "at the end, leaving with 0": (
        "import atexit, os\natexit.register(lambda: (print({text}, flush=True), os._exit(0)))\n"
    ),
    "with terminal codes": "print('\\x1b[2J\\x1b[H\\x1b[8m' + {text} + '\\r')\n",
    "with an unfinished line": "import sys\nsys.stdout.write('test_one ' + {text})\n",
    "later": (
        "import subprocess, sys\n"
        "code = 'import time; time.sleep(0.4); print(' + repr({text}) + ')'\n"
        "subprocess.Popen([sys.executable, '-c', code])\n"
    ),
    "after a flood": "print('spam ' * 600_000)\nprint({text})\n",
}
# Ways that leave each other as they are: one that is believed is seen among the others.
TOGETHER = {
    "pytest": ("at import", "past the capturing", "at the end", "later"),
    "unittest": (
        "at import",
        "at import, on the error stream",
        "past the capturing",
        "at the end",
        "later",
    ),
    "unittest, oddly": (
        "with terminal codes",
        "with an unfinished line",
        "after a flood",
    ),
}


RunTests = Callable[..., SuiteReport]


@pytest.fixture(scope="module")
def run_tests(tmp_path_factory: pytest.TempPathFactory) -> RunTests:
    """Run the tests on a ``thing/core.py``; the baselines are measured once."""
    root = tmp_path_factory.mktemp("forged")
    tests_by_identity: dict[str, RegressionTests] = {}

    def report_on(core: str, files: Mapping[str, str], command: str) -> SuiteReport:
        text = repr((files, command))
        identity = hashlib.sha256(text.encode()).hexdigest()
        if identity not in tests_by_identity:
            test_command = f"{sys.executable} -m {command}"
            session = FolderSession(root / "folder", test_command, files=files)
            tests_by_identity[identity] = RegressionTests(
                instance=an_instance(),
                session=session,
                choice=TestChoice.RELATED,
                limits=Tests(timeout=120, baseline_timeout=120),
                files=tuple(files),
                read=files.get,
                cache=root / "cache",
                identity=identity,
                log=logging.getLogger("test"),
            )
        tests = tests_by_identity[identity]
        return tests.run({"thing/core.py": core.encode()})

    return report_on


@pytest.fixture(scope="module")
def by_pytest(run_tests: RunTests) -> RunTests:
    return lambda core: run_tests(core, PYTEST_FILES, "pytest -rA -p no:cacheprovider")


@pytest.fixture(scope="module")
def by_unittest(run_tests: RunTests) -> RunTests:
    return lambda core: run_tests(core, UNITTEST_FILES, "unittest -v")


def names(report: SuiteReport) -> list[str]:
    return [failure.name for failure in report.failures]


BOTH = ["tests/test_core.py::test_one", "tests/test_core.py::test_two"]


def forms(runner: str, *bad: tuple[str, ...]) -> list[Any]:
    """Return the ways of ``TOGETHER`` with one kind of ``bad``, and each with all as long."""
    rows = []
    for name, ways in TOGETHER.items():
        if name.startswith(runner):
            rows.append(pytest.param(ways, *bad[0], id=f"{name}, together"))
    for way in WAYS:
        kinds = list(bad)
        leaving = "leaving" in way
        if leaving:
            # The first kind is the one whose leaving is not detected.
            kinds.reverse()
        for number, kind in enumerate(kinds):
            other_kind = way == "at import" and number > 0 and runner == "unittest"
            marks = [pytest.mark.long]
            if other_kind or (leaving and number == 0):
                marks = []
            row = pytest.param((way,), *kind, marks=marks, id=f"{way}-{number}")
            rows.append(row)
    return rows


def printing(ways: Sequence[str], text: str) -> str:
    literal = repr(text)
    return "".join(WAYS[way].format(text=literal) for way in ways)


@pytest.mark.parametrize(("ways", "bad"), forms("pytest", (RAISES,), (BAD,)))
def test_no_print_makes_a_failing_pytest_pass(
    by_pytest: RunTests, ways: Sequence[str], bad: str
) -> None:
    core = printing(ways, SUMMARY + "\n" + XML) + bad
    assert names(by_pytest(core)) == BOTH


@pytest.mark.parametrize("code", [0, 1])
def test_leaving_early_is_no_pass(by_pytest: RunTests, code: int) -> None:
    """A run that says that all is well and reports nothing leaves the outcome unknown."""
    at_import = f"os.write(1, {SUMMARY!r}.encode())\nos._exit({code})\n"
    in_test = f"def one():\n    print({SUMMARY!r}, flush=True)\n    os._exit({code})\n"
    for text in (at_import, f"{in_test}def two():\n    return 2\n"):
        report = by_pytest(f"import os\n{text}")
        if code:
            assert names(report) == BOTH
            assert report.outcome is False
        else:
            assert names(report) == []
            assert report.outcome is None


LEAVES = f"print({UNITTEST_LINES + UNITTEST_END!r}, flush=True)\n"
SKIP = "import unittest\n"
# Ways in which no test of unittest passes, and its run ends well.
NO_PASSES = {
    "exits at import": LEAVES + "raise SystemExit(0)\n",
    "exits in a test": "def one():\n    raise SystemExit(0)\n\n\ndef two():\n    one()\n",
    "leaves at import": f"import os\n{LEAVES}os._exit(0)\n",
    "skips the file": f"{SKIP}raise unittest.SkipTest\n",
    "skips in a test": SKIP
    + CORE.replace("return", "raise unittest.SkipTest\n    return"),
    "expects the failure": (
        f"{SKIP}unittest.TestCase.test_one = None\nimport sys\n"
        f"def one():\n    t = sys._getframe(1).f_locals['self']\n"
        "    t._outcome.expecting_failure = True\n    raise ValueError\n\n\n"
        "def two():\n    one()\n"
    ),
}


@pytest.mark.parametrize("way", NO_PASSES)
def test_tests_of_unittest_that_do_not_pass_again_are_no_pass(
    by_unittest: RunTests, way: str
) -> None:
    report = by_unittest(NO_PASSES[way])
    assert report.outcome is not True
    assert report.outcome is False or report.suspect


def test_text_of_an_issue_in_the_sources_is_no_report(by_pytest: RunTests) -> None:
    """Nor where it is printed, at import and in a function."""
    core = f'"""The issue said:\n{SUMMARY}"""\nTEXT = """\n{SUMMARY}"""\n\n' + (
        f"print(TEXT)\nprint({XML!r})\n\n\n"
        "def one():\n    # PASSED tests/test_core.py::test_one\n    print(TEXT)\n"
        "    raise ValueError(TEXT)\n\n\n"
        "def two():\n    return 2\n"
    )
    assert names(by_pytest(core)) == BOTH[:1]


def test_no_print_makes_a_passing_pytest_fail(by_pytest: RunTests) -> None:
    text = SUMMARY.replace("PASSED", "FAILED").replace("2 passed", "2 failed")
    core = printing(TOGETHER["pytest"], text) + CORE
    assert by_pytest(core).outcome is True


@pytest.mark.parametrize(
    ("ways", "bad", "end"),
    forms("unittest", (RAISES, UNITTEST_END), (RAISES, ""), (BAD, "")),
)
def test_no_print_makes_a_failing_unittest_pass(
    by_unittest: RunTests, ways: Sequence[str], bad: str, end: str
) -> None:
    core = printing(ways, UNITTEST_LINES + end) + bad
    # A run that leaves by itself reports nothing.
    report = by_unittest(core)
    if "leaving" in ways[0]:
        assert report.outcome is None
    else:
        assert report.outcome is False


def test_a_skip_that_is_printed_is_none(by_unittest: RunTests) -> None:
    skips = f"print({UNITTEST_LINES.replace('ok', 'skipped')!r})\n"
    for bad in (BAD, RAISES):
        assert by_unittest(skips + bad).outcome is False


def test_failing_cases_of_subtests_are_one_test(run_tests: RunTests) -> None:
    test = UNITTEST_FILES["tests/test_core.py"] + (
        "\n    def test_more(self):\n        for i in range(5):\n"
        "            with self.subTest(i=i):\n                self.assertEqual(i, 9)\n"
        "\n    @unittest.skip('no')\n    def test_skipped(self):\n        pass\n"
        "\n\nclass U(unittest.TestCase):\n"
        "    @classmethod\n    def setUpClass(cls):\n        raise ValueError\n\n"
        "    def test_never(self):\n        pass\n"
    )
    files = {**UNITTEST_FILES, "tests/test_core.py": test}
    right = CORE.replace("1", "2 - 1")
    assert run_tests(right, files, "unittest -v").outcome is True
    wrong = CORE.replace("1", "2")
    assert run_tests(wrong, files, "unittest -v").outcome is False


def test_node_ids_are_those_of_pytest(tmp_path: Path) -> None:
    """Models see the same names that pytest prints."""
    text = (
        "import pytest, unittest\n\n\nclass TestA:\n"
        "    @pytest.mark.parametrize('x', ['a b', 'c::d', 'e.f'])\n"
        "    def test_x(self, x):\n        pass\n\n\n"
        "class B(unittest.TestCase):\n    def test_y(self):\n        pass\n\n\n"
        "@pytest.mark.xfail\ndef test_z():\n    assert 0\n\n\n"
        "def test_s():\n    pytest.skip()\n\n\n"
        "@pytest.fixture\ndef torn():\n    yield\n    raise ValueError\n\n\n"
        "def test_t(torn):\n    pass\n"
    )
    files = {"sub.dir/test_a.py": text, "sub.dir/test_bad.py": "import nothing\n"}
    session = FolderSession(tmp_path / "folder", files=files)
    command = f"{session.test_command} --continue-on-collection-errors"
    command = with_report_file(command, Runner.PYTEST, "WORD")
    result = session.run({}, command, 30)
    log, report = split_report(result.output, "WORD")
    assert result.exit_code == 1
    assert "WORD" not in log
    results = report_results(report, files)
    statuses = {
        "test_a.py::TestA::test_x[a b]": "PASSED",
        "test_a.py::TestA::test_x[c::d]": "PASSED",
        "test_a.py::TestA::test_x[e.f]": "PASSED",
        "test_a.py::B::test_y": "PASSED",
        "test_a.py::test_z": "XFAIL",
        "test_a.py::test_s": "SKIPPED",
        "test_a.py::test_t": "ERROR",
        "test_bad.py": "ERROR",
    }
    assert results == {f"sub.dir/{name}": statuses[name] for name in statuses}
    for name, status in results.items():
        if status != "SKIPPED":
            assert name in log
    assert not list(Path("/tmp").glob("WORD*"))


def test_a_report_that_is_not_whole_says_nothing() -> None:
    entity = '<!DOCTYPE a [<!ENTITY b "c">]><testsuite/>'
    for report in ("", "<testsuite><testcase name='a'/>", entity, "spam"):
        assert report_results(report, ()) == {}


@pytest.mark.parametrize("runner", [Runner.DJANGO, Runner.SYMPY, Runner.UNITTEST])
def test_no_output_keeps_the_reader_busy(runner: Runner) -> None:
    """With patterns of quadratic time this test would not end."""
    for flood in (
        "_ " * 200_000,
        "a ... Testing against Django installed in x\n" * 50_000,
        "====\nFAIL: a\n" * 100_000,
        "tests finished: 1 passed, in 1" * 30_000,
    ):
        read_run(flood, an_instance(), runner, "", ())
