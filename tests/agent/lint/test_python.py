"""Python: syntax errors, undefined names, and problems from before the edit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from agent.lint import Change, Finding, Linter


def lint(
    before: str | None,
    after: str,
    path: str = "a.py",
) -> list[str]:
    found = Linter().new_findings([Change(path, before, after)])
    return [f"{finding.line}: {finding.problem}" for finding in found]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("def f(:\n", "SyntaxError"),
        ("x = undefined_name\n", "undefined name 'undefined_name'"),
        ("return 1\n", "return"),
        ("def f(a, a):\n    pass\n", "duplicate argument"),
        ("def f():\n    x = 1\n  y = 2\n", "IndentationError"),
        ("if x:\n        y = 1\n\tz = 2\n", "TabError"),
        ("'a\0b'\n", "null bytes"),
        ("def f():\n    print(x)\n    x = 1\n\n\nx = 1\n", "local variable 'x'"),
    ],
)
def test_fatal_problems_are_found(text: str, problem: str) -> None:
    (found, *_) = lint(None, text)
    assert problem in found


@pytest.mark.parametrize(
    "text",
    [
        "import os\n",
        "x = 1 \n",
        "def f(): return [x for x in ()]\n",
        "",
        "__all__ = ['nowhere']\n",
        "from os import *\n\n\ndef f():\n    return path\n",
        "try:\n    text = unicode\nexcept NameError:\n    text = str\n",
        "'\\d'\n",
    ],
)
def test_what_is_not_fatal_is_not_reported(text: str) -> None:
    assert lint(None, text) == []


def test_only_new_problems_count_even_when_lines_move() -> None:
    before = "a = missing\n"
    assert lint(before, "\n\n" + before) == []
    assert lint(before, before + "b = missing\n") == ["2: undefined name 'missing'"]


IN_F = "def f():\n    return missing\n"


@pytest.mark.parametrize(
    "after",
    [
        "def renamed():\n    return missing\n",
        "class A:\n    def f():\n        return missing\n",
        "def f():\n    return missing or None\n",
        "def g():\n    pass\n\n\n" + IN_F,
    ],
)
def test_a_problem_that_moves_or_stays_in_its_scope_is_not_new(after: str) -> None:
    assert lint(IN_F, after) == []


def test_the_problem_of_another_scope_does_not_excuse_a_new_one() -> None:
    after = "def f():\n    return 1\n\n\ndef g():\n    x = missing\n"
    assert lint(IN_F, after) == ["6: undefined name 'missing'"]


def test_the_new_one_of_two_equal_problems_is_shown() -> None:
    after = "def g():\n    x = missing\n\n\n" + IN_F
    assert lint(IN_F, after) == ["2: undefined name 'missing'"]


PYTHON_2 = (
    "def f(x):\n    print 'x', x\n    try:\n        exec x in {}\n    except E, "
    "e:\n        raise\n"
)


def test_python_2_is_judged_by_a_grammar_that_fits() -> None:
    assert (
        lint(PYTHON_2, PYTHON_2 + "y = undefined\nprint >>f, 0777, `y`, 10L, y <> 1\n")
        == []
    )
    (found,) = lint(PYTHON_2, PYTHON_2 + "y = = 2\n")
    assert found.startswith("7: syntax error")


def test_python_2_that_is_ported_has_no_baseline_for_names() -> None:
    assert lint("print 'x'\nprint unicode\n", "print('x')\nprint(unicode)\n") == []


def test_what_is_broken_on_purpose_is_not_held_against_the_edit() -> None:
    broken = "def f(:\n    pass\n"
    assert lint(broken, broken + "x = 1\n", "tests/functional/syntax_error.py") == []
    assert lint(broken, "x = = 1\n") == []


@dataclass
class Fussy:
    """A compiler that reports certain words as syntax errors."""

    words: Sequence[str]
    asked: list[Sequence[tuple[str, str]]] = field(default_factory=list)

    def check(self, files: Sequence[tuple[str, str]]) -> list[Finding | None]:
        self.asked.append(files)
        return [
            Finding(path, 1, "theirs")
            if any(word in text for word in self.words)
            else None
            for path, text in files
        ]


def test_the_compiler_of_the_instance_decides() -> None:
    linter = Linter(Fussy([":="]))
    (found,) = linter.new_findings([Change("a.py", "x = 1\n", "(x := 1)\n")])
    assert found.problem == "theirs"
    assert linter.new_findings([Change("a.py", "x = 1\n", "x = 2\n")]) == ()
    only_theirs = Change("a.py", "print('a')\n", "print 'a'\n")
    assert linter.new_findings([only_theirs]) == ()


def test_a_file_that_only_ours_took_before_is_held_to_ours() -> None:
    linter = Linter(Fussy([":="]))
    assert linter.new_findings([Change("a.py", "(x := 1)\n", "(x := 2)\n")]) == ()
    (found,) = linter.new_findings([Change("a.py", "(x := 1)\n", "(x := = 2)\n")])
    assert found.problem.startswith("SyntaxError")


def test_all_files_go_to_the_compiler_at_once() -> None:
    compiler = Fussy([])
    changes = [Change(f"{name}.py", "x = 1\n", "x = 2\n") for name in "abc"]
    Linter(compiler).new_findings([*changes, Change("d.js", "", "f()")])
    assert [len(files) for files in compiler.asked] == [6]


def test_deep_nesting_is_a_finding_and_no_crash() -> None:
    assert lint(None, "(" * 5000 + ")" * 5000)


def test_findings_come_in_order() -> None:
    changes = [Change(path, None, "b\na\n") for path in ("z.py", "y.py")]
    found = Linter().new_findings([*changes, Change("a.js", None, "f(")])
    assert [(f.path, f.line) for f in found][1:] == [
        ("y.py", 1),
        ("y.py", 2),
        ("z.py", 1),
        ("z.py", 2),
    ]


def test_names_of_python_2_in_a_file_that_asks_for_the_version() -> None:
    guarded = "import sys\nif sys.version_info[0] < 3:\n    x = unicode('a')\n"
    assert Linter().new_findings([Change("a.py", "import sys\n", guarded)]) == ()
    bare = "x = unicode('a')\n"
    (finding,) = Linter().new_findings([Change("a.py", "", bare)])
    assert "unicode" in finding.problem


def test_a_new_template_with_names_to_fill_in() -> None:
    new = "from {{ app_name }} import z\n\nclass {{ app_name|title }}:\n    pass\n"
    assert (
        Linter().new_findings([Change("conf/app_template/models.py", None, new)]) == ()
    )
    broken = 'x = "{{ name }}"\ndef f(:\n'
    assert Linter().new_findings([Change("a.py", None, broken)])


@pytest.mark.parametrize(
    "unit", ["def f():\n    pass\n", "def g():\n    global x\n", "from a import *\n"]
)
def test_names_are_not_judged_where_pyflakes_would_look_back_at_thousands(
    unit: str,
) -> None:
    assert lint("a = 1\n", unit * 600 + "def h():\n    return missing\n") == []


def test_thousands_of_undefined_names_are_reported_when_none_was_there_before() -> None:
    names = "".join(f"name_{n}\n" for n in range(4_000))
    assert len(lint("a = 1\n", names)) == 4_000
    assert lint(names, names.replace("name_7\n", "name_7  \n")) == []


def test_names_are_judged_under_a_fork_of_usual_length() -> None:
    body = "    x = 1\n"
    assert lint("a = 1\n", "if 1:\n" + body * 199 + "    missing\n") != []
    assert lint("a = 1\n", "if 1:\n" + body * 200 + "    missing\n") == []
