"""Pure: what completions are worth, from one program to the figures of a group of problems.

Three definitions of ExcessCode, the share of an edit that the tests do not need:

- *code*: uncovered lines of all lines of the diff between ``before`` and the program
- *changed*: uncovered lines of the lines that the diff adds or removes
- *v1* (the first version of the paper): statements that are not covered

All are per cent of passing completions: *code* and *changed* their mean, *v1* their median.
"""

from __future__ import annotations

import ast
import math
import warnings
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from difflib import Differ
from functools import lru_cache
from itertools import chain, zip_longest
from statistics import fmean, median, pstdev
from typing import Any, get_args

from rapidfuzz.distance import Indel, Levenshtein

from swe_retry.kit import Interval, pass_at_k, ratio
from swe_retry_exercises.canitedit.problems import MOST_CHARACTERS, Problem
from swe_retry_exercises.canitedit.prompts import STOP, Prompt, has_fence
from swe_retry_exercises.canitedit.results import (
    CompletionFile,
    EvaluatedProgram,
    Status,
)
from swe_retry_exercises.statistics import bootstrap_mean
from swe_retry_exercises.values import values_of

ScoreRow = dict[str, Any]
"""Figures by name; None is unknown."""
SAMPLING = ("prompt", "temperature", "top_p", "max_tokens")
EXCESS = ("code", "changed", "v1")
SHARES = ("unchanged", "truncated", "without_fence", "empty", "not_parsing")
_UNMEASURED: ScoreRow = {
    "lines": None,
    "distance": None,
    "unchanged": False,
    "not_parsing": False,
}
_FENCED = [prompt.value for prompt in Prompt if prompt not in STOP]
# ``Differ`` compares each line with each where nothing is equal: these take it about ten seconds.
_MAX_PAIRS = 200_000


def score(file: CompletionFile) -> ScoreRow:
    """Return what is known of a file, and the figures of each of its completions."""
    prompt = file.script_args.get("prompt")
    completions = []
    columns = zip_longest(file.results, file.truncated, file.replies)
    for result, truncated, reply in columns:
        program = result.program_no_test
        without_fence = None
        if prompt in _FENCED and reply is not None:
            without_fence = not has_fence(reply)
        row = {
            "status": result.status,
            "passed": result.has_passed,
            "truncated": truncated,
            "without_fence": without_fence,
            "empty": not program.strip(),
            **measures(file.before, file.after, program),
            **excess_code(file.before, result),
        }
        completions.append(row)
    return {
        "id": file.id,
        "name": file.full_name,
        "instruction": file.kind,
        "prompt": prompt if isinstance(prompt, str) else None,
        "temperature": file.temperature,
        "top_p": file.top_p,
        "max_tokens": file.max_tokens,
        "groups": groups_of(file),
        "completions": completions,
    }


def groups_of(problem: Problem) -> dict[str, list[str]]:
    """Return the groups that a problem belongs to, by what they group."""
    taxonomy = problem.taxonomy
    libraries = ["without libraries"]
    if taxonomy.libraries:
        libraries = ["with libraries", *taxonomy.libraries]
    # About a third of the 105 problems each.
    length = "1 to 25 lines"
    lines = len(problem.before.splitlines())
    if lines > 25:
        length = "26 to 55 lines"
    if lines > 55:
        length = "56 lines and more"
    return {
        "change_kind": [taxonomy.change_kind],
        "topic": [taxonomy.topic],
        "libraries": libraries,
        "length": [length],
    }


def excess_code(before: str, result: EvaluatedProgram) -> ScoreRow:
    """Return the ExcessCode of a program that passed, whose coverage and diff are known."""
    counts = diff_lines(before, result.program_no_test)
    missing = result.coverage_missing
    if not result.has_passed or counts is None or missing is None:
        return dict.fromkeys(EXCESS)
    if result.coverage is None:
        return dict.fromkeys(EXCESS)
    uncovered = 100 * len(missing)
    lines, changed = counts
    return {
        "code": ratio(uncovered, lines) or 0.0,
        "changed": ratio(uncovered, changed) or 0.0,
        "v1": 100.0 - result.coverage,
    }


# A file's completions are often equal: of 4,200 recorded ones, 1,955 are distinct.
@lru_cache(maxsize=64)
def diff_lines(before: str, program: str) -> tuple[int, int] | None:
    """Return the number of all lines of the diff, and of those that are added or removed.

    The lines are those of ``difflib.Differ``: also context and the marks of changes in a line.
    None for programs that are too large for it.
    """
    old = before.splitlines()
    new = program.splitlines()
    if len(old) * len(new) > _MAX_PAIRS or len(program) > MOST_CHARACTERS:
        return None
    lines = list(Differ().compare(old, new))
    changed = [line.startswith(("+ ", "- ")) for line in lines]
    return len(lines), sum(changed)


@lru_cache(maxsize=64)
def measures(before: str, after: str, program: str) -> ScoreRow:
    """Measure a program against the program to edit and the solution.

    *lines* are those changed from ``before``, of those that the solution changes; None if it
    changes none. A line counts as changed if the shortest edit by whole lines adds or removes it.
    *distance* is Levenshtein's, from ``before``, in characters. Ends of lines at the end of a
    program do not count. A program that is too large is not measured.
    """
    if len(program) > MOST_CHARACTERS:
        return _UNMEASURED
    old = before.rstrip("\n").split("\n")
    new = program.rstrip("\n").split("\n")
    expected = Indel.distance(old, after.rstrip("\n").split("\n"))
    return {
        "lines": ratio(Indel.distance(old, new), expected),
        "distance": Levenshtein.distance(before.rstrip("\n"), program.rstrip("\n")),
        "unchanged": old == new,
        "not_parsing": not parses(program),
    }


def parses(program: str) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(program)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def pass_shares(scores: Iterable[ScoreRow], k: int) -> dict[str, float]:
    """Return pass@k of each problem by name; none where one has fewer completions than ``k``."""
    shares = {}
    for score in scores:
        completions = score["completions"]
        if len(completions) < k:
            return {}
        passed = sum(values_of(completions, "passed"))
        shares[score["name"]] = pass_at_k(len(completions), passed, k)
    return shares


def figures_of(scores: Sequence[ScoreRow], ks: Iterable[int]) -> ScoreRow:
    """Return the figures of problems for one instruction; there is at least one problem.

    Shares are from 0 to 1. ExcessCode is per cent, with the population deviation over the m
    problems that have it / √m.
    """
    rows = list(chain.from_iterable(values_of(scores, "completions")))
    figures: ScoreRow = {"problems": len(scores), "completions": len(rows)}
    for k in ks:
        shares = pass_shares(scores, k)
        figures[f"pass@{k}"] = _mean(shares.values())
        figures |= bounds(bootstrap_mean(shares.values()), f"pass@{k}_")
    for name in EXCESS:
        values = _values_by_problem(scores, name)
        figures[f"excess_{name}"] = _mean(values)
        figures[f"excess_{name}_se"] = None
        if values:
            figures[f"excess_{name}_se"] = pstdev(values) / math.sqrt(len(values))
    figures["m"] = len(values)
    for name in ("lines", "distance"):
        figures[name] = _mean(_values_by_problem(scores, name))
    for name in SHARES:
        flags = values_of(rows, name)
        figures[name] = None
        if None not in flags:
            figures[name] = sum(flags) / len(flags)
    unmeasured = values_of(rows, "v1").count(None) - values_of(rows, "passed").count(
        False
    )
    figures["unknown_coverage"] = unmeasured
    statuses = Counter(values_of(rows, "status"))
    for status in get_args(Status):
        figures[status] = statuses[status]
    return figures


def _values_by_problem(scores: Iterable[ScoreRow], name: str) -> list[float]:
    """Return the mean, of *v1* the median, for each problem with completions that know it."""
    average = median if name == "v1" else fmean
    values = []
    for score in scores:
        numbers = []
        for number in values_of(score["completions"], name):
            if number is not None:
                numbers.append(number)
        if numbers:
            values.append(average(numbers))
    return values


def _mean(values: Collection[float]) -> float | None:
    return fmean(values) if values else None


def bounds(interval: Interval | None, prefix: str = "") -> ScoreRow:
    """Return an interval as two figures."""
    if interval is None:
        return {f"{prefix}low": None, f"{prefix}high": None}
    return {f"{prefix}low": interval.low, f"{prefix}high": interval.high}
