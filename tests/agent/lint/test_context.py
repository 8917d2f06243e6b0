"""Descriptions of findings for the model."""

from __future__ import annotations

from swe_retry.agent.lint.findings import Change, Finding, describe
from swe_retry.agent.lint.linter import Linter

LONG = '''\
import os


class A:
    """Doc."""

    @property
    def f(
        self,
        value,
    ):
        a = 1
        b = 2
        c = 3
        d = 4
        e = nope
        f = 6
        return f


def g():
    return never
'''


SHOWN = """\
a.py:16: undefined name 'nope'
a.py:22: undefined name 'never'
…
     4  class A:
…
     8      def f(
     9          self,
    10          value,
    11      ):
…
    13          b = 2
    14          c = 3
    15          d = 4
>   16          e = nope
    17          f = 6
    18          return f
    19
    20
    21  def g():
>   22      return never"""


def lint_and_describe(text: str) -> str:
    """Return the description of the findings in ``a.py``, a new file."""
    findings = Linter().new_findings([Change("a.py", None, text)])
    return describe(findings, {"a.py": text})


def test_problems_are_shown_with_their_lines_and_definitions() -> None:
    assert lint_and_describe(LONG) == SHOWN


def test_the_signatures_are_shown_in_a_file_that_cannot_be_parsed() -> None:
    body = "".join(f"        a{number} = {number}\n" for number in range(20))
    description = lint_and_describe(
        f"class A:\n    def f(self):\n{body}        x = = 1\n"
    )
    assert "     1  class A:\n     2      def f(self):\n…\n" in description
    assert ">   23          x = = 1" in description
    finding = Finding("a.py", 2, "no colon")
    without_colon = f"class A:\n    def f(self)\n{body}"
    assert describe([finding], {"a.py": without_colon})


def test_other_languages_have_definitions_too() -> None:
    body = "    g();\n" * 20
    text = f"class A {{\n  f(x) {{\n{body}    return nope(;\n  }}\n}}\n"
    (finding,) = Linter().new_findings([Change("a.js", "", text)])
    description = describe([finding], {"a.js": text})
    assert "     1  class A {\n     2    f(x) {\n…\n" in description


def test_lines_beyond_the_end_are_no_crash() -> None:
    beyond = Finding("a.py", 9, "odd")
    assert "a.py:9: odd" in describe([beyond], {"a.py": "x = 1\n"})
    first = Finding("a.py", 1, "odd")
    description = describe([first], {"a.py": ""})
    assert description.startswith("a.py:1: odd")


def test_many_findings_are_cut_and_counted() -> None:
    names = [f"name_{number}\n" for number in range(50)]
    description = lint_and_describe("".join(names))
    assert description.count("undefined name") == 20
    assert description.endswith("… and 30 more.")


def test_the_message_stays_short_for_any_files() -> None:
    line = "x = '" + "y" * 5000 + "'\n"
    texts = {}
    findings = []
    for number in range(20):
        path = f"file_{number}.py"
        texts[path] = line * 30
        for row in (1, 15, 30):
            findings.append(Finding(path, row, "z" * 3000))
    description = describe(findings, texts)
    assert len(description) < 9_000
    assert "more." in description
