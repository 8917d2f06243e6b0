"""Both sets of rules: the truth table, the order of rules, and properties of the filter."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Sequence
from operator import itemgetter

from hypothesis import given, settings
from hypothesis import strategies as st
from rapidfuzz.distance import Levenshtein

from exercises.tests.support.editpack import (
    edit,
    generated_edits,
    plain_cleanup,
    plain_distance,
    plain_verdict,
)
from swe_retry_exercises.editpack.filter import (
    Cleanup,
    FilterRules,
    RuleSet,
    broken_rule,
    clean_text,
    judge_rows,
)
from swe_retry_exercises.editpack.rows import NEW, OLD, EditRow, JudgedRow, reason

OF = "def f(x):\n    return x\n"
MORE = OF + "\n\ndef g(x):\n    return 2 * x\n"
NINE = "y = 12345"
TEN = "y = 123456"
ASSIGNED = 'T = """\na\n"""\n'
assert (len(NINE), len(TEN)) == (9, 10)


def parser(texts: Sequence[str]) -> list[str]:
    return list(map(problem_in, texts))


def problem_in(text: str) -> str:
    try:
        ast.parse(text)
    except (SyntaxError, ValueError) as error:
        return type(error).__name__
    return ""


def judged_row(
    row: EditRow,
    rules: RuleSet = RuleSet.CODE,
    cleanup: Cleanup = Cleanup.REFERENCE,
) -> JudgedRow:
    filter_rules = FilterRules(rules=rules, cleanup=cleanup)
    [judged] = judge_rows([(row, None)], filter_rules, parser)
    return judged


def rule_of(
    row: EditRow,
    rules: RuleSet = RuleSet.CODE,
    cleanup: Cleanup = Cleanup.REFERENCE,
) -> str:
    _, dropped = judged_row(row, rules, cleanup)
    if dropped:
        return dropped["rule"]
    return ""


# What `code` and `paper` say, and the old and new sides of which they say it.
TABLE = {
    ("small", ""): {
        "nine characters": (OF, OF + NINE),
        "nine replaced": ("a" * 9 + " = 1\n", "b" * 9 + " = 1\n"),
    },
    ("", ""): {
        "ten characters": (OF, OF + TEN),
        "Todo": (OF, MORE + "# Todo: more\n"),
        "fix  me": (OF, MORE + "# fix  me\n"),
        "TODO in the old side": (OF + "# TODO: g\n", MORE),
        "a licence with TODO": (f"# TODO\n{OF}", f"# TODO\n{MORE}"),
        "a docstring of a line": (f'"""One."""\n{OF}', f'"""One."""\n{MORE}'),
        "setuptools as a name": (OF, "import os, setuptools\n" + MORE),
        "an old side that does not parse": ("print 'it'\n", MORE),
    },
    ("small", "small"): {
        "no change": (OF, OF),
        "a licence": (f"# (c) 2011 A. N. Owner\n{OF}", f"# (c) 2012 Somebody\n{OF}"),
    },
    ("words", ""): {
        "debug": (OF, MORE + "logging.debug(1)\n"),
        "todo": (OF, MORE + "todos = []\n"),
        "FIX ME": (OF, MORE + "# FIX ME\n"),
        "fix me": (OF, MORE + "# fix me\n"),
        "setuptools": (OF, "import setuptools\n" + MORE),
        "from setuptools": (OF, "from setuptools import setup\n" + MORE),
    },
    ("words", "words"): {
        "TODO": (OF, MORE + "# TODO: more\n"),
        "FIXME": (OF, MORE + "# FIXME\n"),
        "BUG in a word": (OF, MORE + "DEBUGGING = 1\n"),
        "a docstring of a line that holds TODO": (OF, f'"""TODO."""\n{MORE}'),
        "words, small": (OF, OF + "TODO"),
        "words, syntax": (OF, MORE + "TODO ("),
    },
    ("syntax", "syntax"): {
        "a print statement": (OF, MORE + "print 'it'\n"),
        "a null byte": (OF, MORE + "\0"),
        "a lone surrogate": (OF, MORE + "x = '\ud800'\n"),
    },
    ("blank", "blank"): {
        "nothing before": (" \n\t\n", MORE),
        "nothing after": (OF, ""),
        "only comments after": (OF, "# gone\n"),
        "blank, words, syntax": ("", "# a\nTODO ("),
    },
    ("small", "syntax"): {
        "small, syntax": (OF, OF + "("),
    },
}


def test_the_truth_table() -> None:
    for (code, paper), edits in TABLE.items():
        for name, (old, new) in edits.items():
            row = edit(old, new)
            assert rule_of(row) == code, name
            assert rule_of(row, RuleSet.PAPER) == paper, name
            *_, plain_rule = plain_verdict(row)
            assert plain_rule == code, name


def test_the_cleanups_decide_what_the_rules_see() -> None:
    assigned = edit(ASSIGNED + OF, ASSIGNED + MORE)
    expected = {
        "reference": MORE,
        "exact": ASSIGNED + MORE,
        "none": ASSIGNED + MORE,
    }
    for cleanup in Cleanup:
        row, dropped = judged_row(assigned, cleanup=cleanup)
        assert not dropped
        assert row[NEW] == expected[cleanup.value]

    def rules_of(old_head: str, new_head: str, new: str) -> list[str]:
        row = edit(old_head + OF, new_head + new)
        return [rule_of(row, cleanup=cleanup) for cleanup in Cleanup]

    assert [cleanup.value for cleanup in Cleanup] == ["reference", "exact", "none"]
    licence = "# TODO\n# (c) 2011\n"
    new_licence = "# TODO\n# (c) 2012 Somebody\n"
    assert rules_of(licence, new_licence, OF) == ["small", "small", "words"]
    single = "'''a\nTODO'''\n"
    assert rules_of(single, single, MORE) == ["words", "", "words"]


def test_the_details() -> None:
    def reason_of(old: str, new: str, rules: RuleSet = RuleSet.CODE) -> object:
        _, dropped = judged_row(edit(old, new), rules, Cleanup.NONE)
        return dropped

    assert reason_of("", " ") == reason("blank", "old and new")
    assert reason_of("a", "\n") == reason("blank", "new")
    todo = f"{OF}setup(debug=1)  # TODO"
    assert reason_of(OF, todo) == reason("words", "TODO")
    assert reason_of(OF, OF + NINE) == reason("small", "distance 9")
    assert reason_of(OF, f"{MORE}(") == reason("syntax", "SyntaxError")
    equal = reason_of(OF, OF, RuleSet.PAPER)
    assert equal == reason("small", "equal sides")
    assert reason_of(OF, MORE) is None


def test_only_what_passes_the_other_rules_is_parsed() -> None:
    parsed_texts: list[str] = []

    def parse(texts: Sequence[str]) -> list[str]:
        parsed_texts.extend(texts)
        return ["wrong"] * len(texts)

    rows = [
        edit("", "("),
        edit(OF, "TODO ("),
        edit(OF, f"{OF}("),
        edit(OF, MORE),
    ]
    judged = judge_rows([(row, None) for row in rows], FilterRules(), parse)
    assert all(dropped for _, dropped in judged)
    assert parsed_texts == [MORE]


def test_a_dropped_row_is_the_row_as_it_was() -> None:
    small = edit("# a\nx", "# b\nx", stars=3)
    assert judged_row(small) == (small, reason("small", "equal sides"))
    syntax = edit(OF, f"# c\n{MORE}(")
    assert judged_row(syntax) == (syntax, reason("syntax", "SyntaxError"))
    unreadable = ({"row": 1}, reason("unreadable"))
    assert judge_rows([unreadable], FilterRules(), parser) == [unreadable]


PARTS = [
    OF,
    MORE,
    "# c\n",
    '"""a\nb"""\n',
    "TODO",
    "x = 1\n",
    "(",
    NINE,
    "\n",
    " ",
]
SIDES = st.lists(st.sampled_from(PARTS), max_size=5).map("".join)
ROWS = st.lists(st.builds(edit, SIDES, SIDES), max_size=8)
RULES = st.sampled_from(RuleSet)


def passing_rows(rows: list[EditRow], rules: RuleSet) -> list[EditRow]:
    filter_rules = FilterRules(rules=rules, cleanup=Cleanup.NONE)
    judged = judge_rows([(row, None) for row in rows], filter_rules, parser)
    return [row for row, dropped in judged if not dropped]


@given(ROWS, RULES)
def test_filtering_twice_is_filtering_once(rows: list[EditRow], rules: RuleSet) -> None:
    once = passing_rows(rows, rules)
    assert passing_rows(once, rules) == once


def orders_of(rows: list[EditRow]) -> st.SearchStrategy[list[EditRow]]:
    """Return the orders of rows whose commits are their numbers."""
    numbered = []
    for number, row in enumerate(rows):
        numbered.append(row | {"commit": number})
    return st.permutations(numbered)


@settings(max_examples=50)
@given(ROWS.flatmap(orders_of), RULES)
def test_the_order_of_rows_decides_nothing(
    mixed: list[EditRow], rules: RuleSet
) -> None:
    by_commit = itemgetter("commit")
    in_order = sorted(mixed, key=by_commit)
    passing = sorted(passing_rows(mixed, rules), key=by_commit)
    assert passing == passing_rows(in_order, rules)


SHORT_TEXTS = st.text("ab\n", max_size=14)


@settings(max_examples=200)
@given(SHORT_TEXTS, SHORT_TEXTS)
def test_the_distance_and_its_limit(old: str, new: str) -> None:
    distance = plain_distance(old, new)
    assert Levenshtein.distance(old, new) == distance
    rule = broken_rule(f"x{old}", f"x{new}", RuleSet.CODE)
    assert (rule is not None) == (distance < 10)


@given(st.text('"#\n xr\f', max_size=30))
def test_the_published_cleanup_is_as_written_down(text: str) -> None:
    assert clean_text(text, Cleanup.REFERENCE) == plain_cleanup(text)


def test_generated_rows_have_the_verdicts_of_the_rules_as_written_down() -> None:
    verdicts = Counter[str]()
    for row in generated_edits(400):
        old, new, rule = plain_verdict(row)
        judged, dropped = judged_row(row)
        if dropped:
            assert dropped["rule"] == rule
        else:
            assert rule == ""
            assert judged[OLD] == old
            assert judged[NEW] == new
        verdicts[rule] += 1
    assert min(verdicts.values()) > 20
    assert set(verdicts) == {"", "blank", "words", "small", "syntax"}
