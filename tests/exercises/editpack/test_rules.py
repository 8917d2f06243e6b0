"""Both sets of rules: the truth table, the order of rules, and properties of the filter."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rapidfuzz.distance import Levenshtein

from exercises.editpack.filter import (
    Cleanup,
    FilterRules,
    Parse,
    RuleSet,
    broken_rule,
    clean_text,
    judge_rows,
)
from exercises.editpack.rows import NEW, OLD, EditRow, JudgedRow, reason
from tests.support.editpack import (
    edit,
    generated_edits,
    plain_cleanup,
    plain_distance,
    plain_verdict,
)

OF = "def f(x):\n    return x\n"
MORE = OF + "\n\ndef g(x):\n    return 2 * x\n"
NINE = "y = 12345"
TEN = "y = 123456"
ASSIGNED = 'T = """\na\n"""\n'
assert (len(NINE), len(TEN)) == (9, 10)


def parser(texts: Sequence[str]) -> list[str]:
    return [*map(problem_in, texts)]


def problem_in(text: str) -> str:
    try:
        ast.parse(text)
    except (SyntaxError, ValueError) as error:
        return type(error).__name__
    return ""


def judged_row(
    row: EditRow,
    rules: RuleSet,
    cleanup: Cleanup,
    parse: Parse = parser,
) -> JudgedRow:
    chosen = FilterRules(rules=rules, cleanup=cleanup)
    [judged] = judge_rows([(row, None)], chosen, parse)
    return judged


def rule_of(
    row: EditRow,
    rules: RuleSet,
    cleanup: Cleanup = Cleanup.REFERENCE,
) -> str:
    _, why = judged_row(row, rules, cleanup)
    if why:
        return why["rule"]
    return ""


# Old side, new side, what `code` says, what `paper` says.
TABLE = {
    "nine characters": (OF, OF + NINE, "small", ""),
    "ten characters": (OF, OF + TEN, "", ""),
    "nine replaced": ("a" * 9 + " = 1\n", "b" * 9 + " = 1\n", "small", ""),
    "no change": (OF, OF, "small", "small"),
    "debug": (OF, MORE + "logging.debug(1)\n", "words", ""),
    "Todo": (OF, MORE + "# Todo: more\n", "", ""),
    "todo": (OF, MORE + "todos = []\n", "words", ""),
    "TODO": (OF, MORE + "# TODO: more\n", "words", "words"),
    "FIXME": (OF, MORE + "# FIXME\n", "words", "words"),
    "BUG in a word": (OF, MORE + "DEBUGGING = 1\n", "words", "words"),
    "FIX ME": (OF, MORE + "# FIX ME\n", "words", ""),
    "fix me": (OF, MORE + "# fix me\n", "words", ""),
    "fix  me": (OF, MORE + "# fix  me\n", "", ""),
    "TODO in the old side": (OF + "# TODO: g\n", MORE, "", ""),
    "a licence": (
        f"# (c) 2011 A. N. Owner\n{OF}",
        f"# (c) 2012 Somebody\n{OF}",
        "small",
        "small",
    ),
    "a licence with TODO": (f"# TODO\n{OF}", f"# TODO\n{MORE}", "", ""),
    "a docstring of a line": (f'"""One."""\n{OF}', f'"""One."""\n{MORE}', "", ""),
    "a docstring of a line that holds TODO": (
        OF,
        f'"""TODO."""\n{MORE}',
        "words",
        "words",
    ),
    "a print statement": (OF, MORE + "print 'it'\n", "syntax", "syntax"),
    "a null byte": (OF, MORE + "\0", "syntax", "syntax"),
    "a lone surrogate": (OF, MORE + "x = '\ud800'\n", "syntax", "syntax"),
    "setuptools": (OF, "import setuptools\n" + MORE, "words", ""),
    "from setuptools": (OF, "from setuptools import setup\n" + MORE, "words", ""),
    "setuptools as a name": (OF, "import os, setuptools\n" + MORE, "", ""),
    "nothing before": (" \n\t\n", MORE, "blank", "blank"),
    "nothing after": (OF, "", "blank", "blank"),
    "only comments after": (OF, "# gone\n", "blank", "blank"),
    "blank, words, syntax": ("", "# a\nTODO (", "blank", "blank"),
    "words, small": (OF, OF + "TODO", "words", "words"),
    "words, syntax": (OF, MORE + "TODO (", "words", "words"),
    "small, syntax": (OF, OF + "(", "small", "syntax"),
    "an old side that does not parse": ("print 'it'\n", MORE, "", ""),
}


@pytest.mark.parametrize("name", TABLE)
def test_the_truth_table(name: str) -> None:
    old, new, code, paper = TABLE[name]
    assert rule_of(edit(old, new), RuleSet.CODE) == code
    assert rule_of(edit(old, new), RuleSet.PAPER) == paper
    assert plain_verdict(edit(old, new))[2] == code


def test_the_cleanups_decide_what_the_rules_see() -> None:
    kept = [
        judged_row(edit(ASSIGNED + OF, ASSIGNED + MORE), RuleSet.CODE, c)
        for c in Cleanup
    ]
    assert [row[NEW] for row, why in kept if not why] == [
        MORE,
        ASSIGNED + MORE,
        ASSIGNED + MORE,
    ]
    licence = edit(f"# TODO\n# (c) 2011\n{OF}", f"# TODO\n# (c) 2012 Somebody\n{OF}")
    found = {c: rule_of(licence, RuleSet.CODE, c) for c in Cleanup}
    assert found == {"reference": "small", "exact": "small", "none": "words"}
    single = edit(f"'''a\nTODO'''\n{OF}", f"'''a\nTODO'''\n{MORE}")
    found = {c: rule_of(single, RuleSet.CODE, c) for c in Cleanup}
    assert found == {"reference": "words", "exact": "", "none": "words"}


def test_the_details() -> None:
    def detail(
        old: str, new: str, rules: RuleSet = RuleSet.CODE
    ) -> tuple[str, str] | None:
        _, why = judged_row(edit(old, new), rules, Cleanup.NONE)
        if why:
            return (why["rule"], why["detail"])
        return None

    assert detail("", " ") == ("blank", "old and new")
    assert detail("a", "\n") == ("blank", "new")
    assert detail(OF, OF + "setup(debug=1)  # TODO") == ("words", "TODO")
    assert detail(OF, OF + NINE) == ("small", "distance 9")
    assert detail(OF, OF, RuleSet.PAPER) == ("small", "equal sides")
    assert detail(OF, MORE + "(") == ("syntax", "SyntaxError")
    assert detail(OF, MORE) is None


def test_only_what_passes_the_other_rules_is_parsed() -> None:
    asked: list[str] = []

    def parse(texts: Sequence[str]) -> list[str]:
        asked.extend(texts)
        return ["wrong"] * len(texts)

    rows = []
    for sides in (("", "("), (OF, "TODO ("), (OF, OF + "("), (OF, MORE)):
        rows.append(edit(*sides))
    judged = judge_rows([(row, None) for row in rows], FilterRules(), parse)
    assert all(why for _, why in judged)
    assert asked == [MORE]


def test_a_dropped_row_is_the_row_as_it_was() -> None:
    row = edit("# a\nx", "# b\nx", stars=3)
    dropped = (row, reason("small", "equal sides"))
    assert judged_row(row, RuleSet.CODE, Cleanup.REFERENCE) == dropped
    syntax = edit(OF, "# c\n" + MORE + "(")
    assert judged_row(syntax, RuleSet.CODE, Cleanup.REFERENCE) == (
        syntax,
        reason("syntax", "SyntaxError"),
    )
    unreadable = ({"row": 1}, reason("unreadable"))
    assert judge_rows([unreadable], FilterRules(), parser) == [unreadable]


SIDES = st.lists(
    st.sampled_from(
        [OF, MORE, "# c\n", '"""a\nb"""\n', "TODO", "x = 1\n", "(", NINE, "\n", " "]
    ),
    max_size=5,
).map("".join)
ROWS = st.lists(st.builds(edit, SIDES, SIDES), max_size=8)


def kept(rows: list[EditRow], rules: RuleSet) -> list[EditRow]:
    chosen = FilterRules(rules=rules, cleanup=Cleanup.NONE)
    judged = judge_rows([(row, None) for row in rows], chosen, parser)
    return [row for row, why in judged if not why]


@given(ROWS, st.sampled_from(RuleSet))
def test_filtering_twice_is_filtering_once(rows: list[EditRow], rules: RuleSet) -> None:
    once = kept(rows, rules)
    assert kept(once, rules) == once


@given(ROWS, st.randoms(use_true_random=False), st.sampled_from(RuleSet))
def test_the_order_of_rows_decides_nothing(
    rows: list[EditRow], random: object, rules: RuleSet
) -> None:
    numbered = [{**row, "commit": str(number)} for number, row in enumerate(rows)]
    mixed = list(numbered)
    random.shuffle(mixed)  # type: ignore[attr-defined]
    key = "commit"
    assert sorted(kept(mixed, rules), key=lambda r: int(r[key])) == kept(
        numbered, rules
    )


@settings(max_examples=200)
@given(st.text("ab\n", max_size=14), st.text("ab\n", max_size=14))
def test_the_distance_and_its_limit(old: str, new: str) -> None:
    whole = plain_distance(old, new)
    assert Levenshtein.distance(old, new) == whole
    found = broken_rule(f"x{old}", f"x{new}", RuleSet.CODE)
    assert (found is not None) == (whole < 10)


@given(st.text('"#\n xr\f', max_size=30))
def test_the_published_cleanup_is_as_written_down(text: str) -> None:
    assert clean_text(text, Cleanup.REFERENCE) == plain_cleanup(text)


def test_generated_rows_have_the_verdicts_of_the_rules_as_written_down() -> None:
    verdicts = Counter[str]()
    for row in generated_edits(400):
        old, new, rule = plain_verdict(row)
        judged, why = judged_row(row, RuleSet.CODE, Cleanup.REFERENCE)
        if why:
            assert why["rule"] == rule
        else:
            assert (judged[OLD], judged[NEW], "") == (old, new, rule)
        verdicts[rule] += 1
    assert min(verdicts.values()) > 20
    assert {*verdicts} == {"", "blank", "words", "small", "syntax"}
