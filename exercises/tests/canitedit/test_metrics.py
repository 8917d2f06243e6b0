"""The estimator, the three definitions of ExcessCode, and what is measured beyond the paper."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from typing import Any

import pytest

from exercises.tests.support.canitedit import (
    completion_file,
    evaluated,
    failed,
    passed,
    problems,
)
from swe_retry_exercises.canitedit.metrics import (
    ScoreRow,
    diff_lines,
    figures_of,
    groups_of,
    measures,
    parses,
    pass_shares,
    score,
)
from swe_retry_exercises.canitedit.problems import Problem
from swe_retry_exercises.canitedit.results import CompletionFile, EvaluatedProgram

CLAMP, COUNT, STACK, *_ = problems()


def edited_file(
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


def score_row(
    problem: Problem = CLAMP,
    good: int = 1,
    of: int = 2,
    **sampling: Any,
) -> ScoreRow:
    return score(evaluated(problem, good=good, of=of, **sampling))


def test_the_estimator() -> None:
    shares = {
        (20, 5, 1): 0.25,
        (20, 5, 5): 0.8063080495,
        (20, 1, 10): 0.5,
        (200, 13, 100): 0.9999194972,
        (20, 0, 10): 0.0,
        (20, 20, 1): 1.0,
        (3, 2, 3): 1.0,
    }
    for (completions, good, k), share in shares.items():
        rows = [score_row(good=good, of=completions)]
        expected = {"1001_clamp": pytest.approx(share, abs=5e-11)}
        assert pass_shares(rows, k) == expected, (completions, good, k)


def test_pass_at_more_than_the_completions_is_unknown() -> None:
    rows = [score_row(of=20), score_row(of=4)]
    assert pass_shares(rows, 5) == {}
    row = figures_of([score_row(of=4)], (1, 5))
    assert row["pass@5"] is None
    assert row["pass@5_low"] is None
    assert row["pass@1"] == 0.25


def test_a_toy_by_the_three_definitions() -> None:
    # Three statements, one of which does not run; the diff has five lines, four of them changed.
    program = "a = 1\n# note\nif not a:\n    stop()"
    file = edited_file("a = 1\nb = 2", passed(program, 67, (4,)))
    assert excess(file) == (20.0, 25.0, 33.0)


UNNEEDED = """class T:
    def __init__(self):
        self.a = 1
    def m(self):
        return 1
    def n(self):
        return 2
    def relu(self):
        for i in []:
            for j in i:
                j = 0
    def flatten(self):
        b = []
        for i in []:
            for j in i:
                b += j
        return b
    def unused(self):
        c = []
        for i in []:
            for j in i:
                c += j
        return c
"""


def test_an_unneeded_function_as_in_figure_11_of_the_first_paper() -> None:
    lines = []
    for node in ast.walk(ast.parse(UNNEEDED)):
        if isinstance(node, ast.stmt):
            lines.append(node.lineno)
    assert len(lines) == 23
    lines.sort()
    missing = tuple(lines[-5:])
    assert round(100 * (23 - 5) / 23) == 78
    program = passed(UNNEEDED.rstrip(), coverage=78, missing=missing)
    _, _, v1 = excess(edited_file("class T:\n    pass", program))
    assert v1 == 22.0


def test_gold_has_no_excess() -> None:
    for problem in problems():
        assert excess(evaluated(problem, good=2, of=2)) == (0.0, 0.0, 0.0)


def test_completions_are_averaged_and_v1_takes_their_median() -> None:
    before = "a = 1\nb = 2"
    program = "a = 1\nb = 3"
    missing_one = passed(program, 90, (1,))
    missing_two = passed(program, 40, (1, 2))
    file = edited_file(
        before,
        missing_one,
        missing_two,
        missing_two,
        failed("x"),
    )
    code, changed, v1 = excess(file)
    counts = diff_lines(before, program)
    # The diff marks what changed in a line with lines of its own, which count in *code*.
    assert counts == (5, 2)
    assert code == pytest.approx(100 * (1 + 2 + 2) / 5 / 3)
    assert changed == pytest.approx(100 * (1 + 2 + 2) / 2 / 3)
    assert v1 == 60.0


def test_an_unchanged_program_has_no_changed_lines() -> None:
    unchanged = passed("a = 1", 50, (1,))
    code, changed, _ = excess(edited_file("a = 1", unchanged))
    assert code == 100.0
    assert changed == 0.0


def test_problems_without_a_pass_do_not_count_in_excess_code() -> None:
    half_run = passed("a = 1\nb = 2", 50, (2,))
    row = figures(
        edited_file("a = 1", half_run),
        evaluated(CLAMP, good=2),
        evaluated(CLAMP, good=0),
    )
    assert row["m"] == 2
    assert row["excess_code"] == pytest.approx(25.0)
    # Population deviation / √m: values 50 and 0.
    assert row["excess_code_se"] == pytest.approx(25 / 2**0.5)
    none = figures(evaluated(CLAMP, good=0))
    assert none["m"] == 0
    assert none["excess_v1"] is None
    assert none["excess_v1_se"] is None


def test_unknown_coverage_counts_in_no_excess_code() -> None:
    good = passed("a = 2")
    unknown = good.model_copy(update={"coverage_missing": None})
    row = figures(edited_file("a = 1", unknown, good))
    assert row["pass@1"] == 1.0
    assert row["unknown_coverage"] == 1
    assert row["m"] == 1
    lines = "\n".join(f"a{number} = {number}" for number in range(1000))
    large = figures(edited_file(lines, passed(lines)))
    assert large["pass@1"] == 1.0
    assert large["unknown_coverage"] == 1
    assert large["m"] == 0


def test_ok_with_another_exit_code_does_not_pass() -> None:
    odd = passed("a = 2").model_copy(update={"exit_code": 1})
    assert figures(edited_file("a = 1", odd))["pass@1"] == 0


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
    assert measures(before, after, f"{after}d = 4\n")["lines"] == 1.5
    assert measures(before, before, after)["lines"] is None


@pytest.mark.filterwarnings("error")
def test_programs_that_do_not_parse() -> None:
    parsing = {
        "x = 1\n": True,
        "": True,
        "x = '\\d'": True,
        "x = ": False,
        "x = 1\0": False,
        "(" * 5000: False,
        "x" + "+x" * 50_000: False,
        "x = '\ud800'": False,
    }
    for program, expected in parsing.items():
        assert parses(program) is expected, ascii(program[:20])


def test_completions_are_counted_by_what_ails_them() -> None:
    large = "y" * 200_001
    programs = ["a = 1\n", "", "x = (", "a = 2\n", large]
    replies = [
        "```\na = 1\n```",
        "no",
        "```py\nx = (",
        "```\na = 2\n```",
        f"```\n{large}",
    ]
    results = list(map(failed, programs))

    def file_of(prompt: object, after: str = "a = 2\n") -> CompletionFile:
        return edited_file(
            "a = 1",
            *results,
            after=after,
            completions=programs,
            replies=replies,
            truncated=[False, False, True, False, False],
            script_args={"prompt": prompt},
        )

    row = figures(file_of("chat", after="a = 2"))
    shares = ("unchanged", "empty", "not_parsing", "truncated", "without_fence")
    assert [row[name] for name in shares] == [0.2] * 5
    assert row["Exception"] == 5
    assert row["completions"] == 5
    # A program that is too large is not measured: the means are of the others.
    assert row["distance"] == pytest.approx((0 + 5 + 2 + 1) / 4)
    assert figures(file_of("editcoder"))["without_fence"] is None
    assert score(file_of(["chat"]))["prompt"] is None
    others = figures(edited_file("a = 1", *results))
    assert others["truncated"] is None
    assert others["without_fence"] is None


def test_groups_of_problems() -> None:
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for problem in problems():
        for by, groups in groups_of(problem).items():
            counts[by].update(groups)
    assert counts == {
        "change_kind": {"adaptive": 3, "corrective": 1, "perfective": 2},
        "topic": {"DSA": 1, "Data Science": 1, "Language": 2, "Math": 2},
        "libraries": {"statistics": 1, "with libraries": 1, "without libraries": 5},
        "length": {"1 to 25 lines": 6},
    }
    for length, group in {
        0: "1 to 25 lines",
        25: "1 to 25 lines",
        26: "26 to 55 lines",
        55: "26 to 55 lines",
        56: "56 lines and more",
    }.items():
        problem = CLAMP.model_copy(update={"before": "x\n" * length})
        assert groups_of(problem)["length"] == [group]


def test_statuses_are_counted() -> None:
    file = edited_file(
        "a = 1",
        passed("a = 2"),
        failed("a", "Timeout"),
        failed("b", "Timeout"),
    )
    row = figures(file, file)
    assert row["OK"] == 2
    assert row["Timeout"] == 4
    assert row["SyntaxError"] == 0
