"""The estimator, the three definitions of ExcessCode, and what is measured beyond the paper."""

from __future__ import annotations

import ast
import sys
from collections import Counter, defaultdict
from typing import Any

import pytest

from exercises.canitedit.metrics import (
    ScoreRow,
    diff_lines,
    figures_of,
    groups_of,
    measures,
    parses,
    pass_shares,
    score,
)
from exercises.canitedit.problems import Problem
from exercises.canitedit.results import CompletionFile, EvaluatedProgram
from tests.support.canitedit import (
    completion_file,
    evaluated,
    failed,
    passed,
    problems,
)

CLAMP, COUNT, STACK, *_ = problems()


def edited(
    before: str,
    *results: EvaluatedProgram,
    after: str = "a = 2\n",
    **values: Any,
) -> CompletionFile:
    """Return a file of a problem that edits ``before``."""
    problem = CLAMP.model_copy(update={"before": before, "after": after})
    return completion_file(problem, "lazy", results, **values)


def figures(*files: CompletionFile) -> ScoreRow:
    """Return the figures of files, with pass@1."""
    return figures_of(list(map(score, files)), (1,))


def excess(file: CompletionFile) -> tuple[float, float, float]:
    """Return the three kinds of ExcessCode of a problem."""
    row = figures(file)
    return row["excess_code"], row["excess_changed"], row["excess_v1"]


def scored(
    problem: Problem = CLAMP,
    good: int = 1,
    of: int = 2,
    **sampling: Any,
) -> ScoreRow:
    return score(evaluated(problem, good=good, of=of, **sampling))


@pytest.mark.parametrize(
    ("n", "c", "k", "expected"),
    [
        (20, 5, 1, 0.25),
        (20, 5, 5, 0.8063080495),
        (20, 1, 10, 0.5),
        (200, 13, 100, 0.9999194972),
        (20, 0, 10, 0.0),
        (20, 20, 1, 1.0),
        (3, 2, 3, 1.0),
    ],
)
def test_the_estimator(
    n: int,
    c: int,
    k: int,
    expected: float,
) -> None:
    assert pass_shares([scored(good=c, of=n)], k) == {
        "1001_clamp": pytest.approx(expected, abs=5e-11)
    }


def test_pass_at_more_than_the_completions_is_unknown() -> None:
    assert pass_shares([scored(of=20), scored(of=4)], 5) == {}
    found = figures_of([scored(of=4)], (1, 5))
    assert (found["pass@5"], found["pass@5_low"]) == (None, None)
    assert found["pass@1"] == 0.25


def test_a_toy_by_the_three_definitions() -> None:
    # Three statements, one of which does not run; the diff has five lines, four of them changed.
    program = "a = 1\n# note\nif not a:\n    stop()"
    file = edited("a = 1\nb = 2", passed(program, 67, (4,)))
    assert excess(file) == (20.0, 25.0, 33.0)


def test_an_unneeded_function_as_in_figure_11_of_the_first_paper() -> None:
    shape = "class T:\n" + "\n".join(
        f"    def {name}(self):\n" + "".join(f"        {line}\n" for line in body)
        for name, body in {
            "__init__": ["self.a = 1"],
            "m": ["return 1"],
            "n": ["return 2"],
            "relu": ["for i in []:", "    for j in i:", "        j = 0"],
            "flatten": [
                "b = []",
                "for i in []:",
                "    for j in i:",
                "        b += j",
                "return b",
            ],
            "unused": [
                "c = []",
                "for i in []:",
                "    for j in i:",
                "        c += j",
                "return c",
            ],
        }.items()
    )
    statements = [
        node for node in ast.walk(ast.parse(shape)) if isinstance(node, ast.stmt)
    ]
    assert len(statements) == 23
    missed = tuple(sorted(node.lineno for node in statements)[-5:])
    assert round(100 * (23 - len(missed)) / 23) == 78
    assert excess(edited("class T:\n    pass", passed(shape, 78, missed)))[2] == 22.0


def test_gold_has_no_excess() -> None:
    for problem in problems():
        assert excess(evaluated(problem, good=2, of=2)) == (0.0, 0.0, 0.0)


def test_completions_are_averaged_and_v1_takes_their_median() -> None:
    one = passed("a = 1\nb = 3", 90, (1,))
    two = passed("a = 1\nb = 3", 40, (1, 2))
    code, changed, v1 = excess(edited("a = 1\nb = 2", one, two, two, failed("x")))
    counts = diff_lines("a = 1\nb = 2", "a = 1\nb = 3")
    # The diff marks what changed in a line with lines of its own, which count in *code*.
    assert counts == (5, 2)
    assert code == pytest.approx(100 * (1 + 2 + 2) / 5 / 3)
    assert changed == pytest.approx(100 * (1 + 2 + 2) / 2 / 3)
    assert v1 == 60.0


def test_an_unchanged_program_has_no_changed_lines() -> None:
    assert excess(edited("a = 1", passed("a = 1", 50, (1,))))[:2] == (100.0, 0.0)


def test_problems_without_a_pass_do_not_count_in_excess_code() -> None:
    bad = edited("a = 1", passed("a = 1\nb = 2", 50, (2,)))
    found = figures(bad, evaluated(CLAMP, good=2), evaluated(CLAMP, good=0))
    assert found["m"] == 2
    assert found["excess_code"] == pytest.approx(25.0)
    # Population deviation / √m: values 50 and 0.
    assert found["excess_code_se"] == pytest.approx(25 / 2**0.5)
    none = figures(evaluated(CLAMP, good=0))
    assert (none["m"], none["excess_v1"], none["excess_v1_se"]) == (0, None, None)


def test_unknown_coverage_counts_in_no_excess_code() -> None:
    unknown = passed("a = 2").model_copy(update={"coverage_missing": None})
    found = figures(edited("a = 1", unknown, passed("a = 2")))
    assert (found["pass@1"], found["unknown_coverage"], found["m"]) == (1.0, 1, 1)
    lines = "\n".join(f"a{number} = {number}" for number in range(1000))
    large = figures(edited(lines, passed(lines)))
    assert (large["pass@1"], large["unknown_coverage"], large["m"]) == (1.0, 1, 0)


def test_ok_with_another_exit_code_does_not_pass() -> None:
    odd = passed("a = 2").model_copy(update={"exit_code": 1})
    assert figures(edited("a = 1", odd))["pass@1"] == 0


def test_programs_are_measured_against_both_sides() -> None:
    before = "a = 1\nb = 2\nc = 3"
    after = "a = 1\nb = 20\nc = 3\n"
    gold = measures(before, after, after)
    assert gold == {
        "lines": 1.0,
        "distance": 1,
        "unchanged": False,
        "not_parsing": False,
    }
    assert measures(before, after, before + "\n")["unchanged"]
    assert measures(before, after, before)["lines"] == 0.0
    assert measures(before, after, "a = 1\nb = 20\nc = 3\nd = 4\n")["lines"] == 1.5
    assert measures(before, before, after)["lines"] is None


@pytest.mark.parametrize(
    ("program", "good"),
    [
        ("x = 1\n", True),
        ("", True),
        ("x = '\\d'", True),
        ("x = ", False),
        ("x = 1\0", False),
        ("(" * 5000, False),
        # Python 3.10 parses it.
        ("x" + "+x" * 50_000, sys.version_info < (3, 11)),
        ("x = '\ud800'", False),
    ],
    ids=[
        "code",
        "nothing",
        "escape",
        "cut",
        "null",
        "brackets",
        "long sum",
        "surrogate",
    ],
)
@pytest.mark.filterwarnings("error")
def test_programs_that_do_not_parse(program: str, good: bool) -> None:
    assert parses(program) is good


def test_completions_are_counted_by_what_ails_them() -> None:
    programs = ["a = 1\n", "", "x = (", "a = 2\n", "y" * 200_001]
    replies = [
        "```\na = 1\n```",
        "no",
        "```py\nx = (",
        "```\na = 2\n```",
        "```\n" + "y" * 200_001,
    ]
    values: dict[str, Any] = {
        "completions": programs,
        "replies": replies,
        "truncated": [number == 2 for number in range(5)],
    }
    results = list(map(failed, programs))
    chat: dict[str, Any] = {"script_args": {"prompt": "chat"}}
    found = figures(edited("a = 1", *results, after="a = 2", **values, **chat))
    shares = ("unchanged", "empty", "not_parsing", "truncated", "without_fence")
    assert [found[name] for name in shares] == [0.2] * 5
    assert (found["Exception"], found["completions"]) == (5, 5)
    # A program that is too large is not measured: the means are of the others.
    assert found["distance"] == pytest.approx((0 + 5 + 2 + 1) / 4)
    editcoder: dict[str, Any] = {"script_args": {"prompt": "editcoder"}}
    found = figures(edited("a = 1", *results, **values, **editcoder))
    assert found["without_fence"] is None
    others = figures(edited("a = 1", *results))
    assert (others["truncated"], others["without_fence"]) == (None, None)
    odd: dict[str, Any] = {"script_args": {"prompt": ["chat"]}}
    assert score(edited("a = 1", *results, **values, **odd))["prompt"] is None


def test_groups_of_problems() -> None:
    names: dict[str, Counter[str]] = defaultdict(Counter)
    for problem in problems():
        for by, groups in groups_of(problem).items():
            names[by].update(groups)
    assert names == {
        "change_kind": {"adaptive": 3, "corrective": 1, "perfective": 2},
        "topic": {"DSA": 1, "Data Science": 1, "Language": 2, "Math": 2},
        "libraries": {"statistics": 1, "with libraries": 1, "without libraries": 5},
        "length": {"1 to 25 lines": 6},
    }
    lengths = {
        0: "1 to 25 lines",
        25: "1 to 25 lines",
        26: "26 to 55 lines",
        55: "26 to 55 lines",
        56: "56 lines and more",
    }
    for lines, length in lengths.items():
        problem = CLAMP.model_copy(update={"before": "x\n" * lines})
        assert groups_of(problem)["length"] == [length]


def test_statuses_are_counted() -> None:
    file = edited(
        "a = 1", passed("a = 2"), failed("a", "Timeout"), failed("b", "Timeout")
    )
    found = figures(file, file)
    assert (found["OK"], found["Timeout"], found["SyntaxError"]) == (2, 4, 0)
