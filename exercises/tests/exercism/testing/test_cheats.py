"""What a solution may try so that no test runs or fails. Each cheat is seen to end unsolved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from exercises.tests.exercism.testing.conftest import MakeTester
from exercises.tests.support.exercism import six
from swe_retry_exercises.exercism.results import TryResult
from swe_retry_exercises.exercism.tester import ExerciseTester

RIGHT = """\
def strikes(hour, minute):
    return 1 if minute == 30 else 0 if minute else hour % 12 or 12
"""
WRONG = "def strikes(*_):\n    return None\n"
_REPORT = (
    "'<testsuites><testsuite>' + ''.join(f'<testcase classname=\"cuckoo_clock_test.CuckooClock"
    "Test\" name=\"test_{n}\"/>' for n in range(5)) + '</testsuite></testsuites>'"
)
_OK = "print('.....\\n' + '-' * 70 + '\\nRan 5 tests in 0.001s\\n\\nOK', flush=True)\n"
_TRACE = (
    "def trace(frame, event, arg):\n"
    "    if frame.f_code.co_name == 'assertEqual' and event == 'call':\n"
    "        frame.f_locals['first'] = frame.f_locals['second']\n"
    "    return trace\n"
)
# Under unittest, or under both runners where the name says so; most would act alike in both.
CHEATS = {
    "os._exit at import, both": "import os\nos._exit(0)\n",
    "sys.exit at import, both": "import sys\nsys.exit(0)\n",
    "os._exit when called": "def strikes(*_):\n    import os\n    os._exit(0)\n",
    "os._exit at exit": "import atexit, os\natexit.register(os._exit, 0)\n",
    "prints OK": f"{_OK}import os\nos._exit(0)\n",
    "prints a second count": _OK,
    "a forged report, both": (
        f"import os\n{_OK}open('.report.xml', 'w').write({_REPORT})\nos._exit(0)\n"
    ),
    "a folder in place of the report, pytest": "import os\nos.mkdir('.report.xml')\n",
    "kills the parent": f"import os\n{_OK}os.kill(os.getppid(), 9)\n",
    "leaves a child to test": "import os\nif os.fork():\n    os._exit(0)\n",
    "replaces the result": (
        "import unittest\n"
        "for kind in (unittest.TestResult, unittest.TextTestResult):\n"
        "    kind.addFailure = kind.addError = kind.addSubTest = lambda *_: None\n"
    ),
    "replaces the reports, pytest": (
        "from _pytest.reports import TestReport\nmake = TestReport.from_item_and_call\n"
        "def passed(item, call):\n"
        "    call.excinfo = None\n    return make(item, call)\n"
        "TestReport.from_item_and_call = passed\n"
    ),
    "replaces the plugin, pytest": (
        "import _pytest.unittest as plugin\n"
        "plugin.TestCaseFunction.addFailure = lambda *_: None\n"
        "plugin.TestCaseFunction.addSubTest = lambda *_: None\n"
    ),
    "replaces sys.exit": (
        "import os, sys\nsys.exit = os._exit = lambda *_: None\nimport unittest\n"
        "unittest.TestResult.wasSuccessful = lambda *_: True\n"
    ),
    "replaces a builtin": "import builtins\nbuiltins.any = lambda *_: False\n",
    "deletes the tests of classes": (
        "import unittest\nunittest.TestCase.__init_subclass__ = classmethod(\n"
        "    lambda cls: [delattr(cls, n) for n in dir(cls) if n.startswith('test')])\n"
    ),
    "loads no tests": (
        "import unittest\nunittest.TestLoader.loadTestsFromModule = "
        "lambda *_, **__: unittest.TestSuite()\n"
    ),
    "replaces tests when called, both": (
        f"import sys\n{RIGHT}right, once = strikes, []\n"
        "def strikes(hour, minute):\n"
        "    cls = sys.modules['cuckoo_clock_test'].CuckooClockTest\n"
        "    for name in dir(cls):\n"
        "        if name.startswith('test'): setattr(cls, name, lambda self: None)\n"
        "    once.append(1)\n"
        "    return right(hour, minute) if len(once) == 1 else None\n"
    ),
    "replaces tests in a thread": (
        "import sys, threading\n"
        "def replace():\n"
        "    while True:\n"
        "        module = sys.modules.get('cuckoo_clock_test')\n"
        "        cls = getattr(module, 'CuckooClockTest', None)\n"
        "        for name in dir(cls):\n"
        "            if name.startswith('test'): setattr(cls, name, lambda self: None)\n"
        "threading.Thread(target=replace, daemon=True).start()\nsys.setswitchinterval(1e-6)\n"
    ),
    "skips": "import unittest\ndef strikes(*_):\n    raise unittest.SkipTest('no')\n",
    "skips at import": "import unittest\nraise unittest.SkipTest('no')\n",
    "expects failures, pytest": "import pytest\ndef strikes(*_):\n    pytest.xfail('no')\n",
    "ends pytest, pytest": (
        "import pytest\ndef strikes(*_):\n    pytest.exit('done', returncode=0)\n"
    ),
    "deletes the files of tests": "import os\nos.remove('cuckoo_clock_test.py')\n",
    "removes failures that gc finds": (
        "import gc, unittest\n"
        "def forget():\n"
        "    for one in gc.get_objects():\n"
        "        if isinstance(one, unittest.TestResult):\n"
        "            one.failures.clear(); one.errors.clear()\n"
        "unittest.addModuleCleanup(forget)\n"
    ),
    "removes failures that frames hold": (
        "import sys, unittest\n"
        "def forget():\n"
        "    frame = sys._getframe()\n"
        "    while frame:\n"
        "        for one in frame.f_locals.values():\n"
        "            if isinstance(one, unittest.TestResult):\n"
        "                one.failures.clear(); one.errors.clear()\n"
        "        frame = frame.f_back\n"
        "unittest.addModuleCleanup(forget)\n"
    ),
    "a profile function": (
        "import sys, unittest\n"
        "def profile(frame, event, arg):\n"
        "    if event == 'call' and frame.f_code.co_name == '_callTestMethod':\n"
        "        frame.f_locals['method'].__func__.__code__ = (lambda self: None).__code__\n"
        "sys.setprofile(profile)\n"
    ),
    "a trace function of threads": (
        f"import sys, threading\n{_TRACE}"
        "threading.settrace(trace)\nthreading.setprofile(trace)\n"
        "def run(): forget_in(main)\n"
        "def forget_in(frame): sys.settrace(trace)\n"
        "main = None\n"
        "import unittest\nkept = unittest.TestCase._callTestMethod\n"
        "def called(self, method):\n"
        "    one = threading.Thread(target=kept, args=(self, method)); one.start(); one.join()\n"
        "unittest.TestCase._callTestMethod = called\n"
    ),
    "a report of its own at the end, pytest": (
        f"import atexit, os\nreport = {_REPORT}\n"
        "def forge():\n    open('.report.xml', 'w').write(report)\n    os._exit(0)\n"
        "atexit.register(forge)\n"
    ),
}


# Of each kind of cheat; the others of the kind are long.
SHORT = {
    "os._exit at import, both", "os._exit at exit", "prints OK", "a forged report, both",
    "a folder in place of the report, pytest", "kills the parent", "leaves a child to test",
    "replaces the result", "replaces the reports, pytest", "replaces sys.exit", "loads no tests",
    "replaces tests when called, both", "skips", "expects failures, pytest", "ends pytest, pytest",
    "removes failures that frames hold", "a report of its own at the end, pytest",
}  # fmt: skip


def cheat_parameters() -> list[Any]:
    parameters = []
    for name in CHEATS:
        marks = [] if name in SHORT else [pytest.mark.long]
        if not name.endswith(", pytest"):
            parameters.append(pytest.param(name, True, marks=marks))
        if name.endswith((", pytest", ", both")):
            parameters.append(pytest.param(name, False, marks=marks))
    return parameters


def clock_test(
    tester: ExerciseTester, code: str, others: Mapping[str, bytes] | None = None
) -> TryResult:
    """Test a solution of an exercise, with other files beside it."""
    files = {"cuckoo_clock.py": code.encode(), **(others or {})}
    return tester.test(six()["cuckoo-clock"], files)


@pytest.mark.parametrize(("name", "unittest"), cheat_parameters())
def test_a_cheat_solves_nothing(
    make_tester: MakeTester, name: str, unittest: bool
) -> None:
    tried = clock_test(make_tester(unittest), f"{WRONG}{CHEATS[name]}")
    assert not tried.solved, tried.output
    assert not tried.timed_out


def test_the_cheats_are_judged_with_what_the_right_solution_passes(
    make_tester: MakeTester,
) -> None:
    for unittest in (True, False):
        tried = clock_test(make_tester(unittest), RIGHT)
        assert tried.solved, tried.output
        assert tried.tests_passed == 5


def test_files_that_are_no_solution_files_are_not_there(
    make_tester: MakeTester,
) -> None:
    names = "conftest.py unittest.py sitecustomize.py pytest.py pytest.ini json.py"
    harmful_files = dict.fromkeys(names.split(), b"import os\nos._exit(0)\n")
    assert clock_test(make_tester(True), RIGHT, harmful_files).solved
    assert not clock_test(make_tester(True), WRONG, harmful_files).solved


NAMES = [
    "conftest.py",
    "unittest.py",
    "sitecustomize.py",
    "pytest.py",
    "json.py",
    "select.py",
]


@pytest.mark.parametrize("unittest", [True, False])
@pytest.mark.parametrize(
    "names", [NAMES, *(pytest.param([name], marks=pytest.mark.long) for name in NAMES)]
)
def test_solution_files_with_such_names_are_harmless(
    make_tester: MakeTester, names: list[str], unittest: bool
) -> None:
    """No interpreter or runner takes one for its own: it would end the tests."""
    exercise = six()["cuckoo-clock"]
    files = {**exercise.files, **dict.fromkeys(names, b"")}
    exercise = replace(exercise, files=files, solution=(*exercise.solution, *names))
    solution = dict.fromkeys(names, f"{_OK}import os\nos._exit(0)\n".encode())
    solution["cuckoo_clock.py"] = WRONG.encode()
    tried = make_tester(unittest).test(exercise, solution)
    assert not tried.solved, tried.output
    assert tried.tests_passed is not None, tried.output
    solution["cuckoo_clock.py"] = RIGHT.encode()
    assert make_tester(unittest).test(exercise, solution).solved
