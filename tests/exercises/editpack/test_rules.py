"""Both sets of rules: the truth table, the order of rules, and properties of the filter."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Sequence
from operator import itemgetter

from hypothesis import given, settings
from hypothesis import strategies as st
from rapidfuzz.distance import Levenshtein

from exercises.editpack.filter import (
    Cleanup,
    FilterRules,
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
    return list(map(problem_in, texts))


def problem_in(text: str) -> str:
    try:
        ast.parse(text)
    except (SyntaxError, ValueError) as error:
        return type(error).__name__
    return ""


def judged_row(
    row: EditRow, rules: RuleSet = RuleSet.CODE, cleanup: Cleanup = Cleanup.REFERENCE
) -> JudgedRow:
    chosen = FilterRules(rules=rules, cleanup=cleanup)
    [judged] = judge_rows([(row, None)], chosen, parser)
    return judged


def rule_of(
    row: EditRow, rules: RuleSet = RuleSet.CODE, cleanup: Cleanup = Cleanup.REFERENCE
) -> str:
    dropped = judged_row(row, rules, cleanup)[1]
    if dropped:
        return dropped["rule"]
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


def test_the_truth_table() -> None:
    for name, (old, new, code, paper) in TABLE.items():
        row = edit(old, new)
        assert rule_of(row) == code, name
        assert rule_of(row, RuleSet.PAPER) == paper, name
        assert plain_verdict(row)[2] == code, name


def test_the_cleanups_decide_what_the_rules_see() -> None:
    assigned = edit(ASSIGNED + OF, ASSIGNED + MORE)
    expected = {"reference": MORE, "exact": ASSIGNED + MORE, "none": ASSIGNED + MORE}
    for cleanup in Cleanup:
        row, dropped = judged_row(assigned, cleanup=cleanup)
        assert not dropped
        assert row[NEW] == expected[cleanup.value]

    def rules_of(head: str, new_head: str, new: str) -> list[str]:
        row = edit(f"{head}{OF}", f"{new_head}{new}")
        return [rule_of(row, cleanup=cleanup) for cleanup in Cleanup]

    assert [cleanup.value for cleanup in Cleanup] == ["reference", "exact", "none"]
    licence = "# TODO\n# (c) 2011\n"
    new_licence = "# TODO\n# (c) 2012 Somebody\n"
    assert rules_of(licence, new_licence, OF) == ["small", "small", "words"]
    single = "'''a\nTODO'''\n"
    assert rules_of(single, single, MORE) == ["words", "", "words"]


def test_the_details() -> None:
    for old, new, rule, detail in (
        ("", " ", "blank", "old and new"),
        ("a", "\n", "blank", "new"),
        (OF, f"{OF}setup(debug=1)  # TODO", "words", "TODO"),
        (OF, OF + NINE, "small", "distance 9"),
        (OF, f"{MORE}(", "syntax", "SyntaxError"),
    ):
        dropped = judged_row(edit(old, new), cleanup=Cleanup.NONE)[1]
        assert dropped == reason(rule, detail)
    equal = judged_row(edit(OF, OF), RuleSet.PAPER, Cleanup.NONE)[1]
    assert equal == reason("small", "equal sides")
    assert judged_row(edit(OF, MORE), cleanup=Cleanup.NONE)[1] is None


def test_only_what_passes_the_other_rules_is_parsed() -> None:
    parsed_texts: list[str] = []

    def parse(texts: Sequence[str]) -> list[str]:
        parsed_texts.extend(texts)
        return ["wrong"] * len(texts)

    sides = (("", "("), (OF, "TODO ("), (OF, f"{OF}("), (OF, MORE))
    rows = [edit(old, new) for old, new in sides]
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


SIDES = st.lists(
    st.sampled_from(
        [OF, MORE, "# c\n", '"""a\nb"""\n', "TODO", "x = 1\n", "(", NINE, "\n", " "]
    ),
    max_size=5,
).map("".join)
ROWS = st.lists(st.builds(edit, SIDES, SIDES), max_size=8)


def kept_rows(rows: list[EditRow], rules: RuleSet) -> list[EditRow]:
    chosen = FilterRules(rules=rules, cleanup=Cleanup.NONE)
    judged = judge_rows([(row, None) for row in rows], chosen, parser)
    return [row for row, why in judged if not why]


RULES = st.sampled_from(RuleSet)


@given(ROWS, RULES)
def test_filtering_twice_is_filtering_once(rows: list[EditRow], rules: RuleSet) -> None:
    once = kept_rows(rows, rules)
    assert kept_rows(once, rules) == once


@settings(max_examples=50)
@given(ROWS.flatmap(lambda rows: st.permutations(list(enumerate(rows)))), RULES)
def test_the_order_of_rows_decides_nothing(
    numbered: list[tuple[int, EditRow]], rules: RuleSet
) -> None:
    mixed = [row | {"commit": number} for number, row in numbered]
    in_order = sorted(mixed, key=itemgetter("commit"))
    left = sorted(kept_rows(mixed, rules), key=itemgetter("commit"))
    assert left == kept_rows(in_order, rules)


@settings(max_examples=200)
@given(st.text("ab\n", max_size=14), st.text("ab\n", max_size=14))
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
