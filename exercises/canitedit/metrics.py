"""Pure: what completions of one problem are worth.

Three definitions of ExcessCode, the share of an edit that the tests do not need:

- *code*: uncovered lines of all lines of the diff between ``before`` and the program
- *changed*: uncovered lines of the lines that the diff adds or removes
- *v1* (the first version of the paper): statements that are not covered

All are per cent of passing completions: *code* and *changed* their mean, *v1* their median.
"""

from __future__ import annotations

import ast
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import Differ
from functools import lru_cache
from statistics import fmean, median

from rapidfuzz.distance import Indel, Levenshtein

from exercises.canitedit.problems import (
    MOST_CHARACTERS,
    InstructionKind,
    Problem,
    Taxonomy,
)
from exercises.canitedit.prompts import Prompt, has_fence
from exercises.canitedit.results import EvaluatedProgram, ProblemFile

# ``Differ`` compares each line with each where nothing is equal: these take it about ten seconds.
_MOST_PAIRS = 200_000


@dataclass(frozen=True)
class ExcessCode:
    """The three definitions, in per cent."""

    code: float
    changed: float
    v1: float


@dataclass(frozen=True)
class ProgramMeasures:
    """A program beside the one to edit.

    Attributes:
        lines: changed from ``before``, of those that the solution changes; None if it changes none.
        distance: Levenshtein's, from ``before``, in characters.
    """

    lines: float | None
    distance: int
    unchanged: bool
    parses: bool


@dataclass(frozen=True)
class ProblemScore:
    """The completions of one problem for one instruction.

    Attributes:
        excess: None if no completion passed, or none of these has a known coverage.
        unknown_coverage: passing completions without coverage, or too large for a diff.
        lines, distance: means over the completions; see ``ProgramMeasures``.
        too_large: completions that were not measured; they pass or fail as evaluated.
        truncated, without_fence: None if a file does not say it.
    """

    problem_id: int
    name: str
    kind: InstructionKind
    taxonomy: Taxonomy
    before_lines: int
    completions: int
    passed: int
    statuses: dict[str, int]
    excess: ExcessCode | None
    unknown_coverage: int
    lines: float | None
    distance: float | None
    unchanged: int
    empty: int
    not_parsing: int
    too_large: int
    truncated: int | None
    without_fence: int | None


def score(file: ProblemFile) -> ProblemScore:
    problem, results = file.problem, file.results
    programs = [result.program_no_test for result in results]
    measured = [
        measures(problem.before, problem.after, program)
        for program in programs
        if len(program) <= MOST_CHARACTERS
    ]
    passing = [result for result in results if result.passed]
    excess = [found for result in passing if (found := excess_code(problem, result))]
    lines = [one.lines for one in measured if one.lines is not None]
    fenced = file.sampling.prompt in {one.value for one in Prompt if one.is_chat}
    return ProblemScore(
        problem_id=problem.id,
        name=problem.full_name,
        kind=file.kind,
        taxonomy=problem.taxonomy,
        before_lines=len(problem.before.splitlines()),
        completions=len(results),
        passed=len(passing),
        statuses=dict(Counter(result.status.value for result in results)),
        excess=mean_excess(excess),
        unknown_coverage=len(passing) - len(excess),
        lines=fmean(lines) if lines else None,
        distance=fmean(one.distance for one in measured) if measured else None,
        unchanged=sum(one.unchanged for one in measured),
        empty=sum(not program.strip() for program in programs),
        not_parsing=sum(not one.parses for one in measured),
        too_large=len(results) - len(measured),
        truncated=_count(made.truncated for made in file.completions),
        without_fence=_count(
            not has_fence(made.reply) if fenced and made.reply is not None else None
            for made in file.completions
        ),
    )


def _count(values: Iterable[bool | None]) -> int | None:
    known = list(values)
    return None if not known or None in known else known.count(True)


def mean_excess(found: Sequence[ExcessCode]) -> ExcessCode | None:
    """Return the ExcessCode of a problem from those of its passing completions."""
    if not found:
        return None
    return ExcessCode(
        code=fmean(one.code for one in found),
        changed=fmean(one.changed for one in found),
        v1=median(one.v1 for one in found),
    )


def excess_code(problem: Problem, result: EvaluatedProgram) -> ExcessCode | None:
    """Return the ExcessCode of a passing program; None if its coverage or diff is unknown."""
    counts = diff_lines(problem.before, result.program_no_test)
    if counts is None or result.coverage is None or result.coverage_missing is None:
        return None
    every, changed = counts
    missed = 100 * len(result.coverage_missing)
    return ExcessCode(
        code=missed / every if every else 0.0,
        changed=missed / changed if changed else 0.0,
        v1=100.0 - result.coverage,
    )


# A file's completions are often equal: of 4,200 recorded ones, 1,955 are distinct.
@lru_cache(maxsize=64)
def diff_lines(before: str, program: str) -> tuple[int, int] | None:
    """Return the number of all lines of the diff, and of those that are added or removed.

    The lines are those of ``difflib.Differ``: also context and the marks of changes in a line.
    None for programs that are too large for it.
    """
    old, new = before.splitlines(), program.splitlines()
    if len(old) * len(new) > _MOST_PAIRS or len(program) > MOST_CHARACTERS:
        return None
    lines = list(Differ().compare(old, new))
    return len(lines), sum(line.startswith(("+ ", "- ")) for line in lines)


@lru_cache(maxsize=64)
def measures(before: str, after: str, program: str) -> ProgramMeasures:
    """Measure a program against the program to edit and the solution.

    A line counts as changed if the shortest edit by whole lines adds or removes it. Ends of lines
    at the end of a program do not count.
    """
    old, gold, new = (
        text.rstrip("\n").split("\n") for text in (before, after, program)
    )
    expected = Indel.distance(old, gold)
    return ProgramMeasures(
        lines=Indel.distance(old, new) / expected if expected else None,
        distance=Levenshtein.distance(before.rstrip("\n"), program.rstrip("\n")),
        unchanged=old == new,
        parses=parses(program),
    )


def parses(program: str) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(program)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True
