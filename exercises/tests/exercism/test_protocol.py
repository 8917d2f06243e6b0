"""Messages byte for byte, cleaned output, counts and the verdict, on real runs of tests."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from exercises.tests.support.exercism import SIX, run_tests, six
from swe_retry.environments.folders import FolderResult
from swe_retry.llm.chat import Reply, ToolCall
from swe_retry_exercises.exercism.conversation import error_count, lazy_comments
from swe_retry_exercises.exercism.messages import (
    PROFILES,
    TIMED_OUT,
    failures_message,
    first_message,
    fitting,
)
from swe_retry_exercises.exercism.tester import cleaned_output
from swe_retry_exercises.exercism.verdict import (
    TestCounts,
    is_solved,
    pytest_counts,
    python_counts,
    unittest_counts,
    with_comparisons,
)


def test_the_first_message_byte_for_byte() -> None:
    docs = SIX / "cuckoo-clock" / ".docs"
    instructions = (docs / "introduction.md").read_text() + (
        docs / "instructions.md"
    ).read_text()
    assert first_message(six()["cuckoo-clock"]) == (
        f"{instructions}\n####\n\n"
        "Use the above instructions to modify the supplied files: cuckoo_clock.py\n"
        "Keep and implement the existing function or class stubs, they will be called from unit "
        "tests.\nOnly use standard python libraries, don't suggest installing any packages.\n"
    )
    appended = first_message(six()["seed-packets"])
    assert (
        "so that their number is as small as possible.\n# Instructions append\n"
        in appended
    )
    assert "Hints" not in first_message(six()["lost-property"])
    assert "supplied files: garden_path.py compass.py\n" in first_message(
        six()["garden-path"]
    )


def test_the_message_after_failing_tests_byte_for_byte() -> None:
    exercise = six()["garden-path"]
    output = "".join(f"line {n}\n" for n in range(60))
    request = (
        "\n####\n\nSee the testing errors above.\nThe tests are correct.\n"
        "Fix the code in garden_path.py compass.py to resolve the errors.\n"
    )
    assert failures_message(exercise, output, None) == output + request
    limit = PROFILES["2023"].test_lines
    first = "\n".join(f"line {n}" for n in range(50))
    assert failures_message(exercise, output, limit) == first + request
    assert failures_message(exercise, TIMED_OUT, limit) == "Tests timed out!" + request
    assert (PROFILES["2023"].timeout, PROFILES["current"].timeout) == (60, 180)


def test_the_beginning_that_fits_a_window() -> None:
    assert fitting("a\nb\nc\n", lambda text: True) == "a\nb\nc\n"
    assert fitting("a\nb\nc\n", lambda text: len(text) <= 4) == "a\nb"
    assert fitting("a\nb\nc\n", lambda text: not text) == ""


def test_what_is_cleaned() -> None:
    folders = ["/tmp/x1/w", "/tmp/x1/w/clock"]
    for output, expected in {
        "/tmp/x1/w/clock/a.py:3": "clock/a.py:3",
        "-" * 70 + "\nRan 9 tests in 0.002s\n\nOK": "----\n\nOK",
        "a\nRan 1 test in 12.345s\nb": "a\nb",
        "=== 9 failed in 0.08s ====": "=== 9 failed  ====",
        "= 1 passed in 61.02s (0:01:01) =": "= 1 passed  =",
        "=" * 31 + " FAILURES " + "=" * 31: "==== FAILURES ====",
        "<T object at 0x7f8a91ad7490>": "<T object at 0x..>",
        "<T object at 0x7f8a91ad7[46 chars]490>]": "<T object at 0x..[..]>]",
        "<MagicMock id='140235'>": "<MagicMock id='..'>",
        "- <T at 0x7f1>\n?   ^\n+ <T at 0x7f2>\n?   ++-\n\n- b\n? ^": "- <T at 0x..>"
        "\n+ <T at 0x..>\n\n- b\n? ^",
        'File "/opt/py/lib/python3.11/json/a.py", line 3': "File "
        '"lib/python/json/a.py", line ..',
        "../v/lib/python3.12/site-packages/_pytest/a.py:3: E": "lib/python/_pytest"
        "/a.py:..: E",
        "'/usr/lib/python3/dist-packages/a.py'": "'lib/python/a.py'",
        'File "<frozen runpy>", line 88, in r': 'File "<frozen runpy>", line .., in r',
        'File "/tmp/x1/w/a.py", line 3': 'File "clock/a.py", line 3',
        "x/.venv/bin/python3.11: No module": "python: No module",
        "platform linux -- Python 3.11.7, pytest-9.1.1\nrootdir": "rootdir",
        "/tmp/tmpab_3x9zq/a and /tmp/template": "/tmp/tmp../a and /tmp/template",
        "begin 0.5s in 3 s, x = '[4 chars]'": "begin 0.5s in 3 s, x = '[4 chars]'",
    }.items():
        assert cleaned_output(output, "clock", folders) == expected


# pytest takes long to start: unittest runs all of them.
@pytest.mark.parametrize(
    ("name", "unittest"),
    [*((name, True) for name in sorted(six())), ("name-tags", False)],
)
def test_examples_pass_and_stubs_fail_with_equal_output(
    tmp_path: Path, name: str, unittest: bool
) -> None:
    exercise = six()[name]
    files = exercise.example_files()
    good = run_tests(files, exercise, tmp_path / "good" / name, unittest=unittest)
    expected = python_counts(good, files, unittest)
    assert expected and expected.passed >= 2 and is_solved(good, expected, expected)
    stub = exercise.tested_files({})
    runs = []
    for folder in (tmp_path / name, tmp_path / "deep" / "er" / name):
        runs.append(run_tests(stub, exercise, folder, unittest=unittest))
    solved = []
    for run in runs:
        solved.append(is_solved(run, python_counts(run, stub, unittest), expected))
    assert solved == [name == "tidy-receipt"] * 2
    folders = [tmp_path / name, tmp_path / "deep" / "er" / name]
    texts = []
    for r, f in zip(runs, folders, strict=True):
        texts.append(cleaned_output(r.output, name, [str(f)]))
    assert texts[0] == texts[1]


GOOD = FolderResult("5 passed", 0, 1.0)


def test_what_is_solved() -> None:
    for run, counts, expected, solved in (
        (GOOD, TestCounts(5, 0), TestCounts(5, 0), True),
        (GOOD, TestCounts(4, 0), TestCounts(5, 0), False),
        (GOOD, TestCounts(6, 0), TestCounts(5, 0), False),
        (GOOD, TestCounts(4, 0, 1), TestCounts(5, 0), False),
        (GOOD, TestCounts(4, 0, 1), TestCounts(4, 0, 1), True),
        (GOOD, TestCounts(4, 1), TestCounts(4, 1), False),
        (GOOD, TestCounts(0, 0), TestCounts(0, 0), False),
        (GOOD, None, TestCounts(5, 0), False),
        (replace(GOOD, exit_code=1), TestCounts(5, 0), TestCounts(5, 0), False),
        (replace(GOOD, exit_code=None), TestCounts(5, 0), TestCounts(5, 0), False),
        (replace(GOOD, exit_code=137), TestCounts(5, 0), TestCounts(5, 0), False),
        (replace(GOOD, output=" \n"), TestCounts(5, 0), TestCounts(5, 0), False),
        (GOOD, None, None, False),
        (replace(GOOD, output=""), TestCounts(5, 0), TestCounts(5, 0), False),
    ):
        assert is_solved(run, counts, expected) is solved


def test_counts_that_are_not_credible() -> None:
    end = "Ran 5 tests in 0.001s\n\nOK\n"
    assert unittest_counts(f"..\n{end}printed") == TestCounts(5, 0)
    failed = "FAILED (failures=1, errors=1, skipped=1, expected failures=1, unexpected successes=1)"
    assert unittest_counts(end.replace("OK", failed)) == TestCounts(0, 3, 2)
    for output in (
        "",
        end * 2,
        "Ran 5 tests in 0.001s\n",
        f" {end}",
        end.replace("OK", "OK so"),
    ):
        assert unittest_counts(output) is None
    assert pytest_counts("<testsuites><testsuite><testcase", ["a_test.py"]) is None
    assert pytest_counts('<!DOCTYPE a [<!ENTITY b "c">]><testsuites/>', []) is None


def test_each_test_ends_with_a_comparison() -> None:
    source = (
        "def test_line(): x = 'é'\n"
        "class Tests:\n"
        "    def test_block(self):\n"
        "        with self:\n"
        "            f(\n)\n"
        "    async def test_two(self):\n"
        "        f(); g()  # both\n"
        "    def helper(self): pass\n"
    )
    assert with_comparisons(source, {"test_block"}) == (
        "def test_line(): x = 'é'; assert 1 == 1\n"
        "class Tests:\n"
        "    def test_block(self):\n"
        "        with self:\n"
        "            f(\n)\n        assert 1 == 2\n"
        "    async def test_two(self):\n"
        "        f(); g()\n        assert 1 == 1  # both\n"
        "    def helper(self): pass\n"
    )
    assert with_comparisons("def test_(", ()) == "def test_("


def test_counters() -> None:
    reply = "# ... rest of the code ...\n  # add code ... here\n+ # x ... y\n# more ...\ncode\n"
    assert lazy_comments(Reply(reply)) == 3
    edits = [
        {"path": "a.py", "updated": ["# ... more", "#"]},
        {"content": "x\n# a ... b"},
    ]
    called = ToolCall("replace_lines", json.dumps({"edits": edits, "n": 1, "x": None}))
    assert (
        lazy_comments(
            Reply("# ... a", tool_calls=(called, ToolCall("f", '{"# ... cut')))
        )
        == 3
    )
    # As unittest, Jest and pytest print them; a line of code is none.
    output = "SyntaxError: a\n    SyntaxError: b\nE   SyntaxError: c\nE     raise SyntaxError\n"
    output += "IndentationError: d\nE   IndentationError: e\n> assert SyntaxErrors\n"
    assert (
        error_count("SyntaxError", output),
        error_count("IndentationError", output),
    ) == (3, 2)
