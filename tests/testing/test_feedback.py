"""Reasons of failures, read from real output of several runners; see tests/data/testlogs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from swe_retry.agent.conversation.testreport import describe
from swe_retry.frameworks import Runner
from swe_retry.frameworks.noise import is_progress, without_noise
from swe_retry.testing.failures import failures_of

LOGS = Path(__file__).parents[1] / "data" / "testlogs"
CORE = "tests/test_core.py"


def read(log: str) -> str:
    return (LOGS / f"{log}.txt").read_text(encoding="utf-8")


def failure_reason(log: str, runner: Runner, name: str) -> str:
    (failure,) = failures_of(read(log), runner, [name])
    assert failure.name == name
    return failure.detail


def pytest_reason(log: str, name: str) -> str:
    return failure_reason(log, Runner.PYTEST, f"{CORE}::{name}")


LOGS_OF_PYTEST = """
pytest-3.6 pytest-4.6 pytest-5.4 pytest-7.4 pytest-7.4-xdist pytest-7.4-short-color
"""
every_pytest = pytest.mark.parametrize("log", LOGS_OF_PYTEST.split())


@every_pytest
def test_each_pytest_tells_the_assertion_and_its_place(log: str) -> None:
    text = pytest_reason(log, "test_equal")
    assert "E " in text
    assert "assert [1, 2, 4] == [1, 2, 3]" in text
    assert f"{CORE}:20: " in text
    assert "Captured" not in text
    assert "careful" not in text.replace('"careful', "")
    text = pytest_reason(log, "Old::test_unit")
    assert "AssertionError: {'a': 1} != {'a': 2}" in text


@every_pytest
def test_only_the_first_and_the_last_frames_are_told(log: str) -> None:
    text = pytest_reason(log, "test_deep")
    assert "assert thing.one() == 1" in text
    assert "frame left out" in text
    assert "return two() - 1" not in text
    assert "thing.py:18" in text
    assert re.search(r"^E  +ValueError: invalid literal", text, re.MULTILINE)


@every_pytest
def test_steps_classes_and_chains_find_their_block(log: str) -> None:
    assert "RuntimeError: no set-up" in pytest_reason(log, "test_fixture")
    assert "DID NOT RAISE" in pytest_reason(log, "TestGroup::test_in_class")
    chain = pytest_reason(log, "TestGroup::test_chain")
    positions = []
    for part in ("ValueError", "which led to:", "KeyError"):
        positions.append(chain.index(part))
    assert positions == sorted(positions)


@every_pytest
def test_addresses_and_temporary_folders_are_taken_out(log: str) -> None:
    assert "Box object at 0x…>" in pytest_reason(log, "test_object")
    assert "/tmp/pytest/test_path0" in pytest_reason(log, "test_path")


TWO_FILES = """\
=================================== FAILURES ===================================
____________________________________ test_x ____________________________________
a/test_it.py:2: in test_x
    assert 1 == 2
E   assert 1 == 2
____________________________________ test_x ____________________________________
b/test_it.py:2: in test_x
    assert 3 == 4
E   assert 3 == 4
_________________________________ test_y[a b] __________________________________
b/test_it.py:5: in test_y
    assert 5 == 6
E   assert 5 == 6
=========================== short test summary info ============================
"""


def test_equal_names_in_two_files_and_names_cut_at_a_space_find_their_block() -> None:
    names = [
        "a/test_it.py::test_x",
        "b/test_it.py::test_x",
        "b/test_it.py::test_y[a",
    ]
    failures = failures_of(TWO_FILES, Runner.PYTEST, names)
    last_words = [failure.detail.split()[-1] for failure in failures]
    assert last_words == ["2", "4", "6"]


def test_cases_of_one_test_fail_for_one_reason() -> None:
    names = [f"{CORE}::test_many[{n}]" for n in (1, 2, 3)]
    failures = failures_of(read("pytest-7.4"), Runner.PYTEST, names)
    report = describe(failures)
    assert report.count("ValueError: invalid literal") == 1
    assert f"Likewise: {names[1]}, {names[2]}" in report
    assert "value = 1" not in report


def test_tests_that_meet_in_one_frame_fail_for_one_reason() -> None:
    names = "test_multiplicity test_multiplicity_in_factorial test_perfect_power"
    failures = failures_of(read("sympy-1.12"), Runner.SYMPY, names.split())
    first, second, third = failures
    assert first.detail != second.detail
    assert first.cause == second.cause
    assert third.cause != second.cause


def test_a_file_that_cannot_be_imported_explains_all_of_its_tests() -> None:
    for name in ("test_a", "test_b"):
        text = failure_reason(
            "pytest-import", Runner.PYTEST, f"tests/test_import.py::{name}"
        )
        assert "tests/test_import.py:1: in <module>" in text
        assert "ImportError: cannot import name 'nothing'" in text


def test_a_run_that_breaks_before_its_tests_is_explained_by_its_end() -> None:
    text = failure_reason("pytest-conftest", Runner.PYTEST, "conf/test_x.py::test_x")
    assert "conf/conftest.py:1: in <module>" in text
    assert "No module named 'nowhere'" in text
    text = failure_reason("sympy-1.4-crash", Runner.SYMPY, "test_factorint")
    assert "cannot import name 'factorint'" in text
    assert 'File "sympy/ntheory/__init__.py", line 8' in text
    assert text.count("  File ") == 3


def test_without_tracebacks_the_summary_tells() -> None:
    text = pytest_reason("pytest-7.4-no-traceback", "test_equal")
    assert text == "assert [1, 2, 4] == [1, 2, 3]"


@pytest.mark.parametrize(
    ("log", "suffix"),
    [
        ("unittest-3.9", ""),
        ("unittest-3.11", ".{}"),
    ],
)
def test_unittest(log: str, suffix: str) -> None:
    def unittest_reason(name: str, group: str = "A") -> str:
        test_class = f"test_u.{group}{suffix.format(name)}"
        return failure_reason(log, Runner.UNITTEST, f"{name} ({test_class})")

    error = unittest_reason("test_err")
    assert "ValueError: invalid literal" in error
    assert "frame left out" in error
    assert "^^^" not in error
    assert "Lists differ: [1, 2] != [1, 3]" in unittest_reason("test_eq")
    assert "Lists differ" in failure_reason(log, Runner.UNITTEST, "Doc line here.")
    subtests = unittest_reason("test_sub")
    assert "0 != 1" in subtests
    assert "2 != 1" in subtests
    assert "RuntimeError: set up" in unittest_reason("test_b", "B")


def test_django() -> None:
    name = "test_unicode (template_tests.filter_tests.test_slugify.FunctionTests)"
    text = failure_reason("django-3.2", Runner.DJANGO, name)
    path = "tests/template_tests/filter_tests/test_slugify.py"
    assert text.startswith(f'  File "{path}", line 35')
    assert "AssertionError: 'un-elephant-a-loree-du-boisx' != " in text
    assert "=====" not in text


def test_sympy() -> None:
    path = "sympy/ntheory/tests/test_factor_.py"
    for name in ("test_primenu", f"{path}:test_primenu"):
        assert failure_reason("sympy-1.12", Runner.SYMPY, name) == (
            f'  File "{path}", line 601, in test_primenu\n'
            "    assert primenu(fac(50)) == 15\nAssertionError"
        )


def test_how_a_run_ended_is_told_where_the_output_says_nothing() -> None:
    ended = "The run did not end within 5 seconds."
    output = "collected 3 items\n\ntests/test_a.py ..F.     [ 50%]\n"
    names = ["tests/test_a.py::test_x"]
    (failure,) = failures_of(output, Runner.PYTEST, names, ended)
    assert failure.detail == f"{ended}\ncollected 3 items"


SITE = "lib/python3.9/site-packages/a.py:3"
NOISE = {
    "\x1b[31mred\x1b[0m \x1b]0;title\x07x": "red x",
    " 10%|#    | 1/9\r 90%|#### | 8/9\rdone\r\n": "done\n",
    "<A object at 0x7f0e5d3146a0> 0xff": "<A object at 0x…> 0xff",
    "/tmp/pytest-of-me/pytest-12/test_a0/x": "/tmp/pytest/test_a0/x",
    "'/tmp/tmpab12cd_e/x'": "'/tmp/tmp…/x'",
    "3 failed in 3.21s": "3 failed in … s",
    "3 failed in 3.21 seconds": "3 failed in … s",
    "12:30:01 step\n[2024-01-02 12:30:01,123] step": "step\nstep",
    'File "/home/me/testbed/a/b.py", line 3': 'File "a/b.py", line 3',
    f"/opt/x/{SITE}": SITE,
    "E  assert '12:30:01' == '12:30:02'": "E  assert '12:30:01' == '12:30:02'",
    "a\0b\x08": "ab",
}


def test_noise() -> None:
    for raw, text in NOISE.items():
        assert without_noise(raw) == text


def test_progress() -> None:
    progress = (
        "tests/test_a.py ..F.s                [ 33%]",
        "..........",
        "[gw0] [ 50%] PASSED tests/test_a.py::test_x",
        " 45%|####    | 9/20",
    )
    for line in progress:
        assert is_progress(line)
    for line in ("ImportError: x", "E   assert 1 == 2", "pass", ""):
        assert not is_progress(line)


SUITE = """
import os, random, tempfile, time

class Box: pass

def test_box(): assert Box() == Box()
def test_folder(tmp_path): assert str(tmp_path) == ""
def test_made(): assert tempfile.mkdtemp() == ""
def test_slow():
    print(time.time(), random.random())
    time.sleep(random.random() / 10)
    assert False, "slow"
def test_good(): pass
"""


def test_two_runs_that_fail_alike_give_the_same_text(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(SUITE)
    names = [f"test_it.py::test_{name}" for name in ("box", "folder", "made", "slow")]
    command = [sys.executable, "-m", "pytest", "-rA", "-pno:cacheprovider"]
    env = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    outputs = []
    reasons = []
    for _ in range(2):
        done = subprocess.run(
            command,
            cwd=tmp_path,
            capture_output=True,
            check=False,
            env=env,
        )
        output = done.stdout.decode()
        outputs.append(output)
        reasons.append(failures_of(output, Runner.PYTEST, names))
    assert outputs[0] != outputs[1]
    assert reasons[0] == reasons[1]
    assert all(failure.detail for failure in reasons[0])
