"""The steps of the tolerant search, their order, and the choice between several places."""

from __future__ import annotations

import pytest

from swe_retry.agent.formats.matching.explain import explain_ambiguity
from swe_retry.agent.formats.matching.find_lines import MatchStep, find_matches
from swe_retry.agent.formats.matching.lines import PlacingWork
from tests.support.formats import apply, block, join_lines, problem

CLASS = "class A:\n    def f(self):\n        return 1\n\n    def g(self):\n        return 1\n"


VAGUE = block("a.py", "        return 1\n", "        return 2\n")


def apply_blocks(text: str, *blocks: str) -> str | None:
    """Return ``a.py`` after ``blocks``, or None where it stays as it was."""
    return apply("diff", "".join(blocks), {"a.py": text}).contents.get("a.py")


def change(text: str, search: str, replace: str) -> str | None:
    return apply_blocks(text, block("a.py", search, replace))


@pytest.mark.parametrize(
    ("text", "search", "expected"),
    [
        ("a\nb", "a\nb", MatchStep.EXACT),
        ("a  \nb", "a\nb", MatchStep.TRAILING_SPACE),
        ("a\nb", "a \nb\t", MatchStep.TRAILING_SPACE),
        ("    a\n      b", "a\n  b", MatchStep.INDENTATION),
        ("a\n  b", "    a\n      b", MatchStep.INDENTATION),
        ("a\n\nb", "a\nb", MatchStep.BLANK_LINES),
        ("a\nb", "\na\n\n\nb\n", MatchStep.BLANK_LINES),
        ("a\nmiddle\nb", "a\n...\nb", MatchStep.ELISION),
        ("print('it’s here')\nx = 1", "print('it's here')\nx = 1", MatchStep.LIKENESS),
        (
            "if a:\n        run(a)\nelse:\n    stop()",
            "if a:\n    run(a)\nelse:\n    stop()",
            MatchStep.LIKENESS,
        ),
        ("a = 1", "b = 1", None),
        ("a\nb", "a\nc", None),
    ],
)
def test_the_first_step_that_finds_a_place_decides(
    text: str, search: str, expected: MatchStep | None
) -> None:
    lines = search.split("\n")
    assert (
        find_matches(
            text.split("\n"), lines, lines, PlacingWork(), "a.py", likeness=True
        )[0]
        is expected
    )


FUNCTION = "def f(self):\n    return 1\n"
LISTED = "a = 10\n\nb = 2\n\n\nc = 3\n"
SEARCHED = "a = 10\n\nb = 2\n\nc = 3\n"
TABS = "class A:\n\tdef f(self):\n\t\t{}\n"
# The text, what is searched, its replacement, and the text after it: None for no match.
CHANGES: dict[str, tuple[str, str, str, str | None]] = {
    "exact goes before indentation": ("    x\nx\n", "x\n", "y\n", "    x\ny\n"),
    "what was copied and left alone stays": (
        "a  \nb\t\n",
        "a\nb\n",
        "a\nc\n",
        "a  \nc\n",
    ),
    "indentation comes": (
        "class A:\n    def f(self):\n        return 1\n",
        FUNCTION,
        "def f(self):\n    if x:\n        return 2\n",
        "class A:\n    def f(self):\n        if x:\n            return 2\n",
    ),
    "indentation goes": (
        "def f():\n    pass\n",
        "    def f():\n        pass\n",
        "    def g():\n        pass\n",
        "def g():\n    pass\n",
    ),
    "a blank line too few": ("a\n\nb\nc\n", "a\nb\n", "a\nB\n", "a\n\nB\nc\n"),
    "a blank line too many": ("a\nb\nc\n", "a\n\nb\n", "a\n\nB\n", "a\nB\nc\n"),
    "a blank line that is there is not added again": (
        "a\n  \nb\nc\n",
        "a\nb\nc\n",
        "a\n\nb\nd\n",
        "a\n  \nb\nd\n",
    ),
    "blank lines below a change stay": (
        LISTED,
        SEARCHED,
        SEARCHED.replace("10", "11"),
        LISTED.replace("10", "11"),
    ),
    "blank lines around a change stay": (
        LISTED,
        SEARCHED,
        SEARCHED.replace("b = 2", "b = 4"),
        LISTED.replace("b = 2", "b = 4"),
    ),
    "spaces for tabs": (
        TABS.format("return 1"),
        "    def f(self):\n        return 1\n",
        "    def f(self):\n        if x:\n            return 2\n",
        TABS.format("if x:\n\t\t\treturn 2"),
    ),
    "a blank line at the end is decoration": ("a\nb\n", "a\n", "A\n\n", "A\nb\n"),
    "a blank line that is searched for goes": ("a\n\n", "a\n\n", "b\n", "b\n"),
    "elided lines are kept": (
        "a\nb\nc\n",
        "a\n...\nc\n",
        "A\n...\nC\n",
        "A\nb\nC\n",
    ),
    "dots after a part of a line": (
        "xa\nb\nc\n",
        "a\n...\nc\n",
        "A\n...\nC\n",
        None,
    ),
    "dots after two places": ("a\nb\na\nc\n", "a\n...\nc\n", "A\n...\nC\n", None),
    "dots that are not replaced": ("a\nb\nc\n", "a\n...\nc\n", "A\nC\n", None),
    "dots between another order": (
        "a\nb\nc\n",
        "c\n...\na\n",
        "C\n...\nA\n",
        None,
    ),
    "dots alone": ("a\nb\n", "...\n", "...\n", None),
    "a line of dots that is code": (
        "def f():\n    ...\n",
        "def f():\n    ...\n",
        "def f():\n    pass\n",
        "def f():\n    pass\n",
    ),
    "no final newline": ("a\nb", "b\n", "c\n", "a\nc"),
    "no final newline below": ("a\nb", "a\n", "c\n", "c\nb"),
    "a final newline": ("a\nb\n", "b\n", "c\n", "a\nc\n"),
    "no final newline of a deleted line": ("a\nb", "b\n", "", "a"),
}


@pytest.mark.parametrize(
    ("text", "search", "replace", "expected"), CHANGES.values(), ids=CHANGES
)
def test_a_change_is_made_where_it_is_meant(
    text: str, search: str, replace: str, expected: str | None
) -> None:
    assert change(text, search, replace) == expected


DOC = 'def area(radius):\n    """Return the aera of the circle."""\n    return 3 * radius ** 2\n'


def test_one_wrong_character_in_prose() -> None:
    search = DOC.replace("aera", "area")
    pi = ("return 3 *", "return PI *")
    assert change(DOC, search, search.replace(*pi)) == DOC.replace(*pi)


CALL = "def f(first):\n    {}\n    return [first, second, third]\n"
RESULT = (
    "def f(first, second):\n    result = first {} second\n    return result, first\n"
)
STEPS = "".join(f"    step_{number}(first, second)\n" for number in range(20))
RAISE = f"def f(first, second):\n    raise_it('{{}}')\n{STEPS}"


@pytest.mark.parametrize(
    ("template", "text", "quoted"),
    [
        # An identifier or a number.
        (DOC.replace("radius", "{}"), "radius", "radios"),
        (DOC.replace("area", "{}"), "area", "arena"),
        (DOC.replace("return 3", "{}"), "return 3", "return 4"),
        # A name in a string, or another sentence.
        (CALL, "run('fast', total=1)", "run('fest', total=1)"),
        (
            CALL,
            'log("the file log_level_a.py is read now")',
            'log("the file log_level_b.py is read now")',
        ),
        (
            CALL,
            "x = compute(first, 'some words in here', 1)",
            "x = compute(first, 'other ones to be read', 1)",
        ),
        # One line of another sentence, however long the rest is.
        (RAISE, "the house that we built", "no such module is there"),
        # An operator.
        (RESULT, ">", ">="),
        (RESULT, ">=", ">"),
        (RESULT, "+", "-"),
        (RESULT, "==", "!="),
        (RESULT, "* 2 +", "* 2 -"),
    ],
)
def test_a_change_that_may_mean_something_is_no_match(
    template: str, text: str, quoted: str
) -> None:
    search = template.replace("{}", quoted)
    assert change(template.replace("{}", text), search, "pass\n") is None


def test_likeness_needs_a_clear_lead() -> None:
    first = "total = first_value +  second_value\nprint(total , 'a')\n"
    other = "total = first_value + second_value \nprint(total,  'a')\n"
    search = "total = first_value + second_value\nprint(total, 'a' )\n"
    assert change(first, search, "x\n") == "x\n"
    assert change(first + "\n" + other, search, "x\n") is None


def test_an_ambiguous_search_is_an_error_that_says_where() -> None:
    report = apply("diff", VAGUE, {"a.py": CLASS})
    assert report.contents == {}
    text = problem(report)
    assert "2 places" in text
    assert "    3  return 1    (in: def f(self):)" in text
    assert "    6  return 1    (in: def g(self):)" in text


def test_an_ambiguous_place_behind_the_end_is_named_by_its_number() -> None:
    explanation = explain_ambiguity("a.py", "x\n", [0, 9], "x\n")
    assert "    1  x\n   10  \n" in explanation


def test_two_equal_blocks_for_two_equal_places_are_meant_for_both() -> None:
    assert apply_blocks(CLASS, VAGUE, VAGUE) == CLASS.replace("1", "2")
    other = VAGUE.replace("2", "3")
    expected = CLASS.replace("1", "2", 1).replace("1", "3")
    assert apply_blocks(CLASS, VAGUE, other) == expected


def test_equal_blocks_that_put_their_own_lines_down_again() -> None:
    old = "        return 1\n"
    first = block("a.py", old, f"        x()\n{old}")
    expected = CLASS.replace(old, f"        {{}}()\n{old}").format("x", "y")
    assert apply_blocks(CLASS, first, first.replace("x()", "y()")) == expected


def test_three_equal_blocks_for_two_places_are_an_error() -> None:
    assert apply_blocks(CLASS, VAGUE, VAGUE, VAGUE) is None


@pytest.mark.parametrize(
    ("text", "edits", "expected"),
    [
        (
            "x\na\nx\nb\nx\n",
            [("a", "A"), ("x", "y"), ("b", "B")],
            "x\nA\ny\nB\nx\n",
        ),
        # Places move with the lines that others put above them.
        (
            "0\nx\na\nx\nb\nx\n",
            [("a", "A"), ("x", "y"), ("b", "B"), ("0", "0", "0", "0")],
            "0\n0\n0\nx\nA\ny\nB\nx\n",
        ),
    ],
)
def test_blocks_around_an_ambiguous_one_settle_its_place(
    text: str, edits: list[tuple[str, ...]], expected: str
) -> None:
    blocks = []
    for old, *new in edits:
        blocks.append(block("a.py", f"{old}\n", join_lines(new)))
    assert apply_blocks(text, *blocks) == expected


@pytest.mark.parametrize("first", [True, False])
def test_a_block_in_the_same_function_settles_the_place(first: bool) -> None:
    named = block("a.py", "    def g(self):\n", "    def h(self):\n")
    blocks = (named, VAGUE) if first else (VAGUE, named)
    before, after = CLASS.split("    def g")
    assert apply_blocks(CLASS, *blocks) == f"{before}    def h{after.replace('1', '2')}"


def test_blocks_in_another_function_settle_nothing() -> None:
    text = f"{CLASS}\n    def k(self):\n        pass\n"
    other = block("a.py", "        pass\n", "        return 0\n")
    report = apply("diff", other + VAGUE, {"a.py": text})
    assert [result.applied for result in report.results] == [True, False]


def test_the_nearest_lines_and_existing_replacements_are_reported() -> None:
    misspelt = block("a.py", "    retrun 1\n", "        return 1\n")
    text = problem(apply("diff", misspelt, {"a.py": CLASS}))
    assert "    3          return 1" in text
    assert "already in a.py" in text
