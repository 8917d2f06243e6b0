"""Python: syntax errors, undefined names, and problems from before the edit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from swe_retry.agent.lint.findings import Change, Finding
from swe_retry.agent.lint.linter import Linter


def lint(
    before: str | None,
    after: str,
    path: str = "a.py",
) -> list[str]:
    findings = Linter().new_findings([Change(path, before, after)])
    return [f"{finding.line}: {finding.problem}" for finding in findings]


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
    (first, *_) = lint(None, text)
    assert problem in first


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


IN_F = "def f():\n    return missing\n"
PYTHON_2 = (
    "def f(x):\n    print 'x', x\n    try:\n        exec x in {}\n    except E, "
    "e:\n        raise\n"
)
BROKEN = "def f(:\n    pass\n"
MISSING = "def h():\n    return missing\n"
GUARDED = "import sys\nif sys.version_info[0] < 3:\n    x = unicode('a')\n"
TEMPLATE = "from {{ app_name }} import z\n\nclass {{ app_name|title }}:\n    pass\n"
FORK = "if 1:\n" + "    x = 1\n" * 199
# The text before and after the edit.
NOT_NEW: dict[str, tuple[str | None, str]] = {
    "lines move": ("a = missing\n", "\n\na = missing\n"),
    "the scope is renamed": (IN_F, IN_F.replace("f()", "renamed()")),
    "the scope moves": (IN_F, "class A:\n    def f():\n        return missing\n"),
    "the line changes": (IN_F, "def f():\n    return missing or None\n"),
    "the scope moves down": (IN_F, f"def g():\n    pass\n\n\n{IN_F}"),
    "Python 2 has its own grammar": (
        PYTHON_2,
        f"{PYTHON_2}y = undefined\nprint >>f, 0777, `y`, 10L, y <> 1\n",
    ),
    "Python 2 that is ported has no baseline for names": (
        "print 'x'\nprint unicode\n",
        "print('x')\nprint(unicode)\n",
    ),
    "what was broken is still broken": (BROKEN, "x = = 1\n"),
    "names of Python 2 in a file that asks for the version": ("import sys\n", GUARDED),
    "a fork that is too long": ("a = 1\n", f"{FORK}    x = 1\n    missing\n"),
    # Pyflakes would look back at thousands.
    "many functions": ("a = 1\n", "def f():\n    pass\n" * 600 + MISSING),
    "many globals": ("a = 1\n", "def g():\n    global x\n" * 600 + MISSING),
    "many imports": ("a = 1\n", "from a import *\n" * 600 + MISSING),
}


@pytest.mark.parametrize(("before", "after"), NOT_NEW.values(), ids=NOT_NEW)
def test_what_is_not_new_or_cannot_be_judged_is_not_reported(
    before: str | None, after: str
) -> None:
    assert lint(before, after) == []


@pytest.mark.parametrize(
    ("path", "before", "after"),
    [
        ("tests/functional/syntax_error.py", BROKEN, f"{BROKEN}x = 1\n"),
        ("conf/app_template/models.py", None, TEMPLATE),
    ],
)
def test_files_that_are_no_code_are_not_judged(
    path: str, before: str | None, after: str
) -> None:
    assert lint(before, after, path) == []


NEW = {
    "a second one": (
        "a = missing\n",
        "a = missing\nb = missing\n",
        "2: undefined name 'missing'",
    ),
    "another scope": (
        IN_F,
        "def f():\n    return 1\n\n\ndef g():\n    x = missing\n",
        "6: undefined name 'missing'",
    ),
    "the new one of two equal ones": (
        IN_F,
        f"def g():\n    x = missing\n\n\n{IN_F}",
        "2: undefined name 'missing'",
    ),
    "a name of Python 2": ("", "x = unicode('a')\n", "1: undefined name 'unicode'"),
    "a fork of usual length": (
        "a = 1\n",
        f"{FORK}    missing\n",
        "201: undefined name 'missing'",
    ),
}


@pytest.mark.parametrize(("before", "after", "finding"), NEW.values(), ids=NEW)
def test_a_new_problem_is_reported(before: str, after: str, finding: str) -> None:
    assert lint(before, after) == [finding]


def test_syntax_errors_of_python_2_templates_and_deep_nesting_are_found() -> None:
    (first,) = lint(PYTHON_2, f"{PYTHON_2}y = = 2\n")
    assert first.startswith("7: syntax error")
    assert lint(None, 'x = "{{ name }}"\ndef f(:\n')
    assert lint(None, "(" * 5000 + ")" * 5000)


@dataclass
class Fussy:
    """A compiler that reports certain words as syntax errors."""

    errors: Sequence[str]
    requests: list[Sequence[tuple[str, str]]] = field(default_factory=list)

    def check(self, files: Sequence[tuple[str, str]]) -> list[Finding | None]:
        self.requests.append(files)
        findings: list[Finding | None] = []
        for path, text in files:
            finding = None
            if any(word in text for word in self.errors):
                finding = Finding(path, 1, "theirs")
            findings.append(finding)
        return findings


def test_the_compiler_of_the_instance_decides() -> None:
    linter = Linter(Fussy([":="]))
    (finding,) = linter.new_findings([Change("a.py", "x = 1\n", "(x := 1)\n")])
    assert finding.problem == "theirs"
    assert linter.new_findings([Change("a.py", "x = 1\n", "x = 2\n")]) == ()
    only_theirs = Change("a.py", "print('a')\n", "print 'a'\n")
    assert linter.new_findings([only_theirs]) == ()


def test_a_file_that_only_ours_took_before_is_held_to_ours() -> None:
    linter = Linter(Fussy([":="]))
    assert linter.new_findings([Change("a.py", "(x := 1)\n", "(x := 2)\n")]) == ()
    (finding,) = linter.new_findings([Change("a.py", "(x := 1)\n", "(x := = 2)\n")])
    assert finding.problem.startswith("SyntaxError")


def test_all_files_go_to_the_compiler_at_once() -> None:
    compiler = Fussy([])
    changes = [Change(f"{name}.py", "x = 1\n", "x = 2\n") for name in "abc"]
    Linter(compiler).new_findings([*changes, Change("d.js", "", "f()")])
    assert [len(files) for files in compiler.requests] == [6]


def test_findings_come_in_order() -> None:
    changes = [Change(path, None, "b\na\n") for path in ("z.py", "y.py")]
    findings = Linter().new_findings([*changes, Change("a.js", None, "f(")])
    lines = [f"{finding.path}:{finding.line}" for finding in findings]
    assert lines[1:] == ["y.py:1", "y.py:2", "z.py:1", "z.py:2"]


def test_thousands_of_undefined_names_are_reported_when_none_was_there_before() -> None:
    names = "".join(f"name_{n}\n" for n in range(4_000))
    assert len(lint("a = 1\n", names)) == 4_000
    assert lint(names, names.replace("name_7\n", "name_7  \n")) == []
