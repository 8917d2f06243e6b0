"""The steps of the tolerant search, their order, and the choice between several places."""

from __future__ import annotations

import pytest

from agent.formats.matching.explain import explain_ambiguity
from agent.formats.matching.find_lines import MatchStep, find_matches
from agent.formats.matching.lines import Work
from tests.support.formats import apply, block, problem

CLASS = "class A:\n    def f(self):\n        return 1\n\n    def g(self):\n        return 1\n"


def change(
    text: str,
    search: str,
    replace: str,
    path: str = "a.py",
) -> str | None:
    return apply("diff", block(path, search, replace), {path: text}).contents.get(path)


def step(
    text: str,
    search: str,
    path: str = "a.py",
) -> MatchStep | None:
    lines = search.split("\n")
    return find_matches(text.split("\n"), lines, lines, Work(), path)[0]


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
    assert step(text, search) is expected


def test_exact_goes_before_indentation() -> None:
    assert change("    x\nx\n", "x\n", "y\n") == "    x\ny\n"


def test_what_was_copied_and_left_alone_stays_as_it_is() -> None:
    assert change("a  \nb\t\n", "a\nb\n", "a\nc\n") == "a  \nc\n"


def test_indentation_comes_and_goes() -> None:
    assert change(
        "class A:\n    def f(self):\n        return 1\n",
        "def f(self):\n    return 1\n",
        "def f(self):\n    if x:\n        return 2\n",
    ) == ("class A:\n    def f(self):\n        if x:\n            return 2\n")
    assert change(
        "def f():\n    pass\n",
        "    def f():\n        pass\n",
        "    def g():\n        pass\n",
    ) == ("def g():\n    pass\n")


def test_one_blank_line_too_few_or_too_many() -> None:
    assert change("a\n\nb\nc\n", "a\nb\n", "a\nB\n") == "a\n\nB\nc\n"
    assert change("a\nb\nc\n", "a\n\nb\n", "a\n\nB\n") == "a\nB\nc\n"


def test_a_blank_line_that_is_there_already_is_not_added_again() -> None:
    assert change("a\n  \nb\nc\n", "a\nb\nc\n", "a\n\nb\nd\n") == "a\n  \nb\nd\n"


def test_blank_lines_of_the_file_stay_where_they_are() -> None:
    text = "a = 10\n\nb = 2\n\n\nc = 3\n"
    search = "a = 10\n\nb = 2\n\nc = 3\n"
    assert change(text, search, search.replace("a = 10", "a = 11")) == text.replace(
        "10", "11"
    )
    assert change(text, search, search.replace("b = 2", "b = 4")) == text.replace(
        "b = 2", "b = 4"
    )


def test_spaces_for_tabs() -> None:
    text = "class A:\n\tdef f(self):\n\t\treturn 1\n"
    search = "    def f(self):\n        return 1\n"
    wanted = "class A:\n\tdef f(self):\n\t\tif x:\n\t\t\treturn 2\n"
    replace = "    def f(self):\n        if x:\n            return 2\n"
    assert change(text, search, replace) == wanted


def test_a_blank_line_at_the_end_of_a_part_is_decoration() -> None:
    assert change("a\nb\n", "a\n", "A\n\n") == "A\nb\n"
    assert change("a\n\n", "a\n\n", "b\n") == "b\n"


def test_elided_lines_are_kept_and_dots_stand_for_whole_lines() -> None:
    assert change("a\nb\nc\n", "a\n...\nc\n", "A\n...\nC\n") == "A\nb\nC\n"
    assert change("xa\nb\nc\n", "a\n...\nc\n", "A\n...\nC\n") is None
    assert change("a\nb\na\nc\n", "a\n...\nc\n", "A\n...\nC\n") is None
    assert change("a\nb\nc\n", "a\n...\nc\n", "A\nC\n") is None
    assert change("a\nb\nc\n", "c\n...\na\n", "C\n...\nA\n") is None


def test_dots_alone_are_no_match() -> None:
    assert change("a\nb\n", "...\n", "...\n") is None


def test_a_line_of_dots_that_is_code_is_found_as_it_is() -> None:
    assert change(
        "def f():\n    ...\n", "def f():\n    ...\n", "def f():\n    pass\n"
    ) == ("def f():\n    pass\n")


DOC = 'def area(radius):\n    """Return the aera of the circle."""\n    return 3 * radius ** 2\n'


def test_one_wrong_character_in_prose() -> None:
    wanted = DOC.replace("return 3 *", "return PI *")
    search = DOC.replace("aera", "area")
    assert change(DOC, search, search.replace("return 3 *", "return PI *")) == wanted


@pytest.mark.parametrize(
    ("old", "new"), [("radius", "radios"), ("area", "arena"), ("return 3", "return 4")]
)
def test_a_changed_identifier_or_number_is_no_match(old: str, new: str) -> None:
    search = DOC.replace(old, new)
    assert change(DOC, search, "pass\n") is None


@pytest.mark.parametrize(
    ("have", "said"),
    [
        ("run('fast', total=1)", "run('fest', total=1)"),
        (
            'log("the file log_level_a.py is read now")',
            'log("the file log_level_b.py is read now")',
        ),
        (
            "x = compute(first, 'some words in here', 1)",
            "x = compute(first, 'other ones to be read', 1)",
        ),
    ],
)
def test_a_changed_name_in_a_string_or_another_sentence_is_no_match(
    have: str, said: str
) -> None:
    around = "def f(first):\n    {}\n    return [first, second, third]\n"
    assert change(around.format(have), around.format(said), "pass\n") is None


def test_one_line_of_another_sentence_is_no_match_however_long_the_rest() -> None:
    rest = "".join(f"    step_{number}(first, second)\n" for number in range(20))
    text = f"def f(first, second):\n    raise_it('{{}}')\n{rest}"
    search = text.format("no such module is there")
    assert change(text.format("the house that we built"), search, "pass\n") is None


@pytest.mark.parametrize(
    ("have", "said"),
    [(">", ">="), (">=", ">"), ("+", "-"), ("==", "!="), ("* 2 +", "* 2 -")],
)
def test_a_changed_operator_is_no_match(have: str, said: str) -> None:
    text = "def f(first, second):\n    result = first {} second\n    return result, first\n"
    assert change(text.format(have), text.format(said), "pass\n") is None


def test_likeness_needs_a_clear_lead() -> None:
    one = "total = first_value +  second_value\nprint(total , 'a')\n"
    other = "total = first_value + second_value \nprint(total,  'a')\n"
    search = "total = first_value + second_value\nprint(total, 'a' )\n"
    assert change(one, search, "x\n") == "x\n"
    assert change(one + "\n" + other, search, "x\n") is None


def test_an_ambiguous_search_is_an_error_that_says_where() -> None:
    report = apply(
        "diff",
        block("a.py", "        return 1\n", "        return 2\n"),
        {"a.py": CLASS},
    )
    assert report.contents == {}
    text = problem(report)
    assert "2 places" in text
    assert "    3  return 1    (in: def f(self):)" in text
    assert "    6  return 1    (in: def g(self):)" in text


def test_an_ambiguous_place_behind_the_end_is_named_by_its_number() -> None:
    explanation = explain_ambiguity("a.py", "x\n", [0, 9], "x\n")
    assert "    1  x\n   10  \n" in explanation


def test_two_equal_blocks_for_two_equal_places_are_meant_for_both() -> None:
    one = block("a.py", "        return 1\n", "        return 2\n")
    assert apply("diff", one + one, {"a.py": CLASS}).contents["a.py"] == CLASS.replace(
        "1", "2"
    )
    other = block("a.py", "        return 1\n", "        return 3\n")
    changed = apply("diff", one + other, {"a.py": CLASS}).contents["a.py"]
    assert changed == CLASS.replace("1", "2", 1).replace("return 1", "return 3")


def test_equal_blocks_that_put_their_own_lines_down_again() -> None:
    first = block("a.py", "        return 1\n", "        x()\n        return 1\n")
    second = block("a.py", "        return 1\n", "        y()\n        return 1\n")
    changed = apply("diff", first + second, {"a.py": CLASS}).contents["a.py"]
    assert changed == CLASS.replace(
        "        return 1\n", "        {}()\n        return 1\n"
    ).format("x", "y")


def test_three_equal_blocks_for_two_places_are_an_error() -> None:
    one = block("a.py", "        return 1\n", "        return 2\n")
    assert apply("diff", one * 3, {"a.py": CLASS}).contents == {}


def test_blocks_around_an_ambiguous_one_settle_its_place() -> None:
    text = "x\na\nx\nb\nx\n"
    reply = (
        block("a", "a\n", "A\n") + block("a", "x\n", "y\n") + block("a", "b\n", "B\n")
    )
    assert apply("diff", reply, {"a": text}).contents["a"] == "x\nA\ny\nB\nx\n"


def test_places_move_with_the_lines_that_others_put_above_them() -> None:
    text = "0\nx\na\nx\nb\nx\n"
    reply = "".join(
        block("a", search, replace)
        for search, replace in [
            ("a\n", "A\n"),
            ("x\n", "y\n"),
            ("b\n", "B\n"),
            ("0\n", "0\n0\n0\n"),
        ]
    )
    assert apply("diff", reply, {"a": text}).contents["a"] == "0\n0\n0\nx\nA\ny\nB\nx\n"


@pytest.mark.parametrize("first", [True, False])
def test_a_block_in_the_same_function_settles_the_place(first: bool) -> None:
    named = block("a.py", "    def g(self):\n", "    def h(self):\n")
    vague = block("a.py", "        return 1\n", "        return 2\n")
    reply = named + vague if first else vague + named
    changed = apply("diff", reply, {"a.py": CLASS}).contents["a.py"]
    assert changed == (
        "class A:\n    def f(self):\n        return 1\n\n    def h(self):\n        return 2\n"
    )


def test_blocks_in_another_function_settle_nothing() -> None:
    text = CLASS + "\n    def k(self):\n        pass\n"
    reply = block("a.py", "        pass\n", "        return 0\n")
    vague = block("a.py", "        return 1\n", "        return 2\n")
    report = apply("diff", reply + vague, {"a.py": text})
    assert [result.applied for result in report.results] == [True, False]


def test_the_nearest_lines_and_existing_replacements_are_reported() -> None:
    report = apply(
        "diff", block("a.py", "    retrun 1\n", "        return 1\n"), {"a.py": CLASS}
    )
    text = problem(report)
    assert "    3          return 1" in text
    assert "already in a.py" in text


def test_the_final_newline_stays_as_it_was() -> None:
    assert change("a\nb", "b\n", "c\n") == "a\nc"
    assert change("a\nb", "a\n", "c\n") == "c\nb"
    assert change("a\nb\n", "b\n", "c\n") == "a\nc\n"
    assert change("a\nb", "b\n", "") == "a"
