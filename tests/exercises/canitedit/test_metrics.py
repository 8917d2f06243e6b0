"""The estimator, the three definitions of ExcessCode, and what is measured beyond the paper."""

from __future__ import annotations

import ast
import sys
from dataclasses import replace
from typing import Any

import pytest

from exercises.canitedit.metrics import (
    ProblemScore,
    diff_lines,
    measures,
    parses,
    score,
)
from exercises.canitedit.problems import GroupBy, InstructionKind, Problem
from exercises.canitedit.reporting.report import (
    figures,
    grouped,
    pass_shares,
)
from exercises.canitedit.results import (
    Completion,
    Decoding,
    EvaluatedProgram,
    ProblemFile,
    ProgramStatus,
)
from tests.support.canitedit import evaluated, failed, passed, problems

CLAMP, COUNT, STACK, *_ = problems()


def edited(
    before: str, *results: EvaluatedProgram, after: str = "a = 2\n"
) -> ProblemFile:
    """Return a file of a problem that edits ``before``."""
    problem = CLAMP.model_copy(update={"before": before, "after": after})
    return ProblemFile(problem, InstructionKind.LAZY, Decoding(), (), results)


def scored(
    problem: Problem = CLAMP, good: int = 1, of: int = 2, **sampling: Any
) -> ProblemScore:
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
def test_the_estimator(n: int, c: int, k: int, expected: float) -> None:
    assert pass_shares([scored(good=c, of=n)], k) == {
        "1001_clamp": pytest.approx(expected, abs=5e-11)
    }


def test_pass_at_more_than_the_completions_is_unknown() -> None:
    assert pass_shares([scored(of=20), scored(of=4)], 5) is None
    found = figures([scored(of=4)], (1, 5))
    assert found.pass_at_k[5] is None
    assert found.pass_at_k[1] is not None


def test_a_toy_by_the_three_definitions() -> None:
    # Three statements, one of which does not run; the diff has five lines, four of them changed.
    program = "a = 1\n# note\nif not a:\n    stop()"
    found = score(edited("a = 1\nb = 2", passed(program, 67, (4,)))).excess
    assert found is not None
    assert (found.code, found.changed, found.v1) == (20.0, 25.0, 33.0)


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
    found = score(edited("class T:\n    pass", passed(shape, 78, missed))).excess
    assert found is not None
    assert found.v1 == 22.0


def test_gold_has_no_excess() -> None:
    for problem in problems():
        found = score(evaluated(problem, good=2, of=2)).excess
        assert found is not None
        assert (found.code, found.changed, found.v1) == (0.0, 0.0, 0.0)


def test_completions_are_averaged_and_v1_takes_their_median() -> None:
    one, two = passed("a = 1\nb = 3", 90, (1,)), passed("a = 1\nb = 3", 40, (1, 2))
    found = score(edited("a = 1\nb = 2", one, two, two, failed("x"))).excess
    counts = diff_lines("a = 1\nb = 2", "a = 1\nb = 3")
    assert found is not None
    # The diff marks what changed in a line with lines of its own, which count in *code*.
    assert counts == (5, 2)
    assert found.code == pytest.approx(100 * (1 + 2 + 2) / 5 / 3)
    assert found.changed == pytest.approx(100 * (1 + 2 + 2) / 2 / 3)
    assert found.v1 == 60.0


def test_an_unchanged_program_has_no_changed_lines() -> None:
    found = score(edited("a = 1", passed("a = 1", 50, (1,)))).excess
    assert found is not None
    assert (found.code, found.changed) == (100.0, 0.0)


def test_problems_without_a_pass_do_not_count_in_excess_code() -> None:
    bad = score(edited("a = 1", passed("a = 1\nb = 2", 50, (2,))))
    scores = [bad, scored(good=2), scored(good=0)]
    found = figures(scores, (1,)).code
    assert found is not None
    assert found.problems == 2
    assert found.mean == pytest.approx(25.0)
    # Population deviation / √m: values 50 and 0.
    assert found.standard_error == pytest.approx(25 / 2**0.5)
    assert figures([scored(good=0)], (1,)).v1 is None


def test_unknown_coverage_counts_in_no_excess_code() -> None:
    unknown = passed("a = 2").model_copy(update={"coverage_missing": None})
    found = score(edited("a = 1", unknown, passed("a = 2")))
    assert (found.passed, found.unknown_coverage) == (2, 1)
    lines = "\n".join(f"a{number} = {number}" for number in range(1000))
    large = score(edited(lines, passed(lines)))
    assert (large.passed, large.unknown_coverage, large.excess) == (1, 1, None)


def test_ok_with_another_exit_code_does_not_pass() -> None:
    odd = passed("a = 2").model_copy(update={"exit_code": 1})
    assert score(edited("a = 1", odd)).passed == 0


def test_programs_are_measured_against_both_sides() -> None:
    before, after = "a = 1\nb = 2\nc = 3", "a = 1\nb = 20\nc = 3\n"
    gold = measures(before, after, after)
    assert (gold.lines, gold.distance, gold.unchanged) == (1.0, 1, False)
    assert measures(before, after, before + "\n").unchanged
    assert measures(before, after, before).lines == 0.0
    assert measures(before, after, "a = 1\nb = 20\nc = 3\nd = 4\n").lines == 1.5
    assert measures(before, before, after).lines is None


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
    file = edited("a = 1", *map(failed, programs), after="a = 2")
    made = tuple(
        Completion(program=program, reply=reply, truncated=number == 2)
        for number, (program, reply) in enumerate(zip(programs, replies, strict=True))
    )
    chat = Decoding(script_args={"prompt": "chat"})
    found = score(replace(file, completions=made, sampling=chat))
    assert (found.unchanged, found.empty, found.not_parsing) == (1, 1, 1)
    assert (found.truncated, found.without_fence, found.too_large) == (1, 1, 1)
    assert found.statuses == {"Exception": 5}
    editcoder = Decoding(script_args={"prompt": "editcoder"})
    assert (
        score(replace(file, completions=made, sampling=editcoder)).without_fence is None
    )
    assert score(file).truncated is None


def test_groups_of_problems() -> None:
    scores = [scored(problem) for problem in problems()]
    names = {
        by: {name: len(group) for name, group in grouped(scores, by)} for by in GroupBy
    }
    assert names == {
        GroupBy.CHANGE_KIND: {"adaptive": 3, "corrective": 1, "perfective": 2},
        GroupBy.TOPIC: {"DSA": 1, "Data Science": 1, "Language": 2, "Math": 2},
        GroupBy.LIBRARIES: {
            "statistics": 1,
            "with libraries": 1,
            "without libraries": 5,
        },
        GroupBy.LENGTH: {"1 to 25 lines": 6},
    }
    long = replace(scores[0], before_lines=26), replace(scores[0], before_lines=56)
    assert [name for name, _ in grouped([*long[::-1], scores[0]], GroupBy.LENGTH)] == [
        "1 to 25 lines",
        "26 to 55 lines",
        "56 lines and more",
    ]


def test_statuses_are_counted() -> None:
    file = edited(
        "a = 1",
        passed("a = 2"),
        failed("a", ProgramStatus.TIMEOUT),
        failed("b", ProgramStatus.TIMEOUT),
    )
    assert score(file).statuses == {"OK": 1, "Timeout": 2}
    assert figures([score(file), score(file)], (1,)).statuses == {"OK": 2, "Timeout": 4}
