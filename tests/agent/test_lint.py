from __future__ import annotations

import pytest

from agent.lint import describe, findings, new_findings


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("def f(:\n", "SyntaxError"),
        ("x = undefined_name\n", "undefined name 'undefined_name'"),
        ("return 1\n", "return"),
        ("def f(a, a):\n    pass\n", "duplicate argument"),
        ("def f():\n    x = 1\n  y = 2\n", "IndentationError"),
        ("'a\0b'\n", "null bytes"),
    ],
)
def test_fatal_problems_are_found(text: str, problem: str) -> None:
    found = findings("a.py", text)
    assert found
    assert problem in found[0].problem


@pytest.mark.parametrize(
    "text", ["import os\n", "x = 1 \n", "def f(): return [x for x in ()]\n", ""]
)
def test_style_is_nobodys_business(text: str) -> None:
    assert findings("a.py", text) == ()


def test_only_new_problems_count_even_when_lines_move() -> None:
    before = "a = missing\n"
    assert new_findings("a.py", before, "\n\n" + before) == ()
    (found,) = new_findings("a.py", before, before + "b = missing\n")
    assert "missing" in found.problem


def test_a_file_that_could_not_be_compiled_before_is_not_held_against_the_edit() -> None:
    assert new_findings("a.py", "print 'python 2'\n", "x = undefined\n") == ()


def test_other_files_have_no_linter() -> None:
    assert new_findings("a.js", None, "function (") == ()


def test_problems_are_shown_with_their_lines() -> None:
    text = "a = 1\nb = nope\nc = 3\n"
    shown = describe(findings("a.py", text), {"a.py": text})
    assert "a.py:2: undefined name 'nope'" in shown
    assert ">    2  b = nope" in shown


def test_deep_nesting_is_a_finding_and_no_crash() -> None:
    assert findings("a.py", "(" * 5000 + ")" * 5000)
