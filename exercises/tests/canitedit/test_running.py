"""One program with its tests: how it ends, and what hostile ones can do."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import replace

import pytest

from exercises.tests.canitedit.conftest import RunProgram
from swe_retry.environments.base import ResourceLimits
from swe_retry.environments.folders import FolderCommand, FolderResult, Folders
from swe_retry.environments.local.folders import LocalFolders
from swe_retry_exercises.canitedit import evaluation, inside
from swe_retry_exercises.canitedit.evaluation import TestedProgram, outcome_of
from swe_retry_exercises.canitedit.results import EvaluatedProgram
from tests.support import still_running

pytestmark = pytest.mark.usefixtures("needs_bubblewrap")
MB = 1 << 20
TESTS = "\nif True:  # pragma: no cover\n    assert double(2) == 4\n"
GOOD = "def double(n):\n    return 2 * n\n"


def status(outcome: EvaluatedProgram) -> tuple[str, int]:
    return outcome.status, outcome.exit_code


def test_how_programs_end(run: RunProgram) -> None:
    outcome = run(f"print('out')\n{GOOD}{TESTS}")
    assert status(outcome) == ("OK", 0)
    assert outcome.stdout == "out\n"
    assert outcome.stderr == ""
    assert status(run("")) == ("OK", 0)
    refused = run(f"def double(:\n{TESTS}")
    assert status(refused) == ("SyntaxError", 1)
    assert refused.stderr.endswith("SyntaxError: invalid syntax\n")
    for program, expected in {
        "def double(n):\n    return n\n": ("Exception", 1),
        f"\ud800{GOOD}": ("SyntaxError", 1),
        "import os\nos.abort()\n": ("Exception", -6),
        "import sys\nsys.exit(3)\n": ("Exception", 3),
    }.items():
        assert status(run(f"{program}{TESTS}")) == expected


def test_a_traceback_is_that_of_the_program_alone(run: RunProgram) -> None:
    outcome = run("def double(n):\n    raise KeyError(object())\n" + TESTS)
    lines = outcome.stderr.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert [line for line in lines if "File" in line] == [
        '  File "/sandbox/program.py", line 5, in <module>',
        '  File "/sandbox/program.py", line 2, in double',
    ]
    assert "object object at 0x.." in lines[-1]


def test_it_is_the_main_module_with_its_own_names(run: RunProgram) -> None:
    code = (
        "import sys, pickle, __main__\n"
        "class Own: pass\n"
        "assert __name__ == '__main__' and __main__.Own is Own\n"
        "assert isinstance(pickle.loads(pickle.dumps(Own())), Own)\n"
        "assert sys.argv == [__file__] and sys.stdin.read() == ''\n"
        "assert not {'main', 'REPORT', 'token'} & globals().keys()\n"
    )
    assert status(run(code)) == ("OK", 0)


def test_who_leaves_before_the_tests_end_has_not_passed(run: RunProgram) -> None:
    for leave in (
        "import os\nos._exit(0)",
        "import sys\nsys.exit(0)",
        "raise SystemExit",
        "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)\nimport time\ntime.sleep(60)",
        "import os, threading, time\nthreading.Timer(0, os._exit, [0]).start()\ntime.sleep(9)",
        "import os\nif os.fork():\n    os._exit(0)",
    ):
        outcome = run(f"{leave}\n{GOOD}{TESTS}")
        assert outcome.status == "Exception", leave
        assert not outcome.has_passed
    error = run(f"import os\nos._exit(0){TESTS}").stderr
    assert error.endswith("before the last line of its tests\n")


FORGED = """
import os, sys
for fd in range(3, 20):
    try:
        os.write(fd, b"x" * 16)
    except OSError:
        pass
secret = sys.stdin.read()
try:
    secret += open(f"/proc/{os.getppid()}/fd/0").read()
except OSError:
    pass
"""


def test_a_forged_report_passes_nothing(run: RunProgram) -> None:
    for code in (
        f"open({inside.REPORT!r}, 'w').write('ended 0 ' + secret)\nos._exit(0)",
        f"os.mkdir({inside.REPORT!r})\nos._exit(0)",
        f"os.symlink('/dev/null', {inside.REPORT!r})\nos._exit(0)",
        # A process that stays rewrites the report as soon as it is there.
        "if os.fork() == 0:\n"
        "    while True:\n"
        f"        if os.path.exists({inside.REPORT!r}):\n"
        f"            text = open({inside.REPORT!r}).read()\n"
        f"            open({inside.REPORT!r}, 'w').write(text.replace('ended 1', 'ended 0'))\n"
        "raise SystemExit(1)",
    ):
        assert run(f"{FORGED}{code}\n{TESTS}").status == "Exception", code


def test_one_that_does_not_end_runs_out_of_time(
    run: RunProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluation, "_CLOCK", 1)
    monkeypatch.setattr(evaluation, "_SLACK", 1.0)
    timeout = EvaluatedProgram(status="Timeout", exit_code=-1)
    for code in (
        "while True: pass",
        "import time\ntime.sleep(100)",
        "import os, signal\nos.kill(0, signal.SIGSTOP)",
    ):
        assert run(f"print('started')\n{code}\n{TESTS}") == timeout, code


def test_a_wait_for_a_processor_is_not_its_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for times, limit, code in (
        ((0, 0), 60, None),
        ((0, 100), 60, 0),
        ((1, 100), 60, None),
        ((0, 100), 0.1, None),
    ):
        monkeypatch.setattr(inside, "processor_times", lambda times=times: times)
        child = os.spawnlp(os.P_NOWAIT, "sleep", "sleep", "0.4")
        assert inside.wait_for(child, 0.05, limit) == code, times


def test_processor_times_are_those_of_other_processes() -> None:
    child = os.spawnlp(os.P_NOWAIT, sys.executable, "python", "-c", "while True: pass")
    try:
        while inside.processor_times()[0] <= 0:
            time.sleep(0.05)
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)


HOSTILE = {
    "fork bomb": (
        "import os\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        pass"
    ),
    "memory": "kept = []\nwhile True: kept.append(bytearray(10_000_000))",
    "output": "while True: print('x' * 100_000)",
    "disk": "with open('big', 'wb') as f:\n    while True: f.write(b'x' * 1_000_000)",
    "network": "import socket\nsocket.create_connection(('1.1.1.1', 53), 5)",
    "outside": "import os\nassert os.listdir('/root') or True\nopen('/usr/made', 'w')",
}


@pytest.mark.parametrize("name", list(HOSTILE))
def test_hostile_programs_fail_and_leave_nothing(
    folders: Folders,
    run: RunProgram,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
) -> None:
    if not isinstance(folders, LocalFolders):
        pytest.skip("small limits are set for the local environment alone")
    limits = ResourceLimits(
        processes=30,
        memory=200 * MB,
        file_size=20 * MB,
        written=30 * MB,
        temporary=10 * MB,
        output=100_000,
        collected=100_000,
    )
    small = replace(folders, confined=replace(folders.confined, limits=limits))
    monkeypatch.setattr(evaluation, "SECONDS", 1.0)
    outcome = outcome_of(small, TestedProgram(HOSTILE[name] + TESTS))
    assert outcome.status in ("Exception", "Timeout")
    assert len(outcome.stdout) <= 2048


def test_a_process_that_stays_is_ended(run: RunProgram) -> None:
    stays = (
        "import os, time\nif os.fork() == 0:\n    os.setsid()\n    time.sleep(3000)\n"
    )
    assert status(run(stays + GOOD + TESTS)) == ("OK", 0)
    assert not still_running("sleep(3000)")


def test_coverage_is_that_of_the_program_without_its_tests(folders: Folders) -> None:
    if not isinstance(folders, LocalFolders):
        pytest.skip("the image has no coverage")
    abstract = (
        "import abc\nclass Base(abc.ABC):\n    @abc.abstractmethod\n"
        "    def f(self):\n        pass\n"
    )
    unused = "def unused():\n    return 1\n"
    outcome = outcome_of(folders, TestedProgram(abstract + GOOD + unused + TESTS))
    assert outcome.coverage == 83
    assert outcome.coverage_missing == (9,)
    assert outcome_of(folders, TestedProgram(GOOD + TESTS)).coverage_missing == ()
    assert outcome_of(folders, TestedProgram(unused + TESTS)).coverage is None


def test_a_stub_stands_for_vllm(folders: Folders) -> None:
    code = (
        "from vllm import LLM, SamplingParams\nassert LLM('model').args == ('model',)\n"
    )
    assert not outcome_of(folders, TestedProgram(code)).has_passed
    with_module = TestedProgram(code, ("vllm",))
    assert outcome_of(folders, with_module).has_passed
    assert with_module.sha256 != TestedProgram(code).sha256


class Lucky:
    """Folders in which programs pass as a text says: ``P`` or ``F`` for each run."""

    def __init__(self, runs: str) -> None:
        self.runs = list(runs)

    def run(self, command: FolderCommand) -> FolderResult:
        report = b"ended 1 -"
        if self.runs.pop(0) == "P":
            report = b"ended 0 " + command.stdin
        coverage = (
            b'{"totals": {"percent_covered_display": "100"}, "files": {"p": '
            b'{"missing_lines": []}}}'
        )
        files = {inside.REPORT: report, inside.COVERAGE: coverage}
        return FolderResult("", 0, 0.1, files=files)

    def stop(self) -> None:
        """Nothing to release."""


def test_tests_that_compare_times_need_two_of_three() -> None:
    for runs, passed, unused_runs in (
        ("PPPxx", True, "xx"),  # two that agree, and one with coverage
        ("FFxxx", False, "xxx"),
        ("PFPPx", True, "x"),
        ("PFFxx", False, "xx"),
        ("FPPPx", True, "x"),
        ("PPFFP", True, ""),  # slower with coverage
    ):
        folders = Lucky(runs)
        outcome = outcome_of(folders, TestedProgram("", alone=True))
        assert outcome.has_passed is passed, runs
        assert "".join(folders.runs) == unused_runs, runs
        assert (outcome.coverage == 100) is passed, runs


class Forged:
    """Folders in which a program leaves a report of its own."""

    def run(self, command: FolderCommand) -> FolderResult:
        return FolderResult("", 0, 0.1, files={inside.REPORT: b"ended 0 guess"})

    def stop(self) -> None:
        """Nothing to release."""


def test_a_report_without_the_secret_passes_nothing() -> None:
    assert outcome_of(Forged(), TestedProgram("")).status == "Exception"


def test_others_run_once() -> None:
    folders = Lucky("Fxxxx")
    assert not outcome_of(folders, TestedProgram("")).has_passed
    assert len(folders.runs) == 4
