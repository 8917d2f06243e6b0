"""Distinctive lines of an instance's hidden half, by which it is found in a trajectory."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bench.instances.bundled import BUNDLED
from bench.instances.instance import Evaluation, Instance
from bench.repos.mirrors import Mirrors, has_commit
from core.git import git_result

# Shorter lines are common, as `return result`. 7 of 124 gold patches of SWE-bench Lite have no
# longer line that is neither in the issue nor in the context of the patches.
_SHORTEST_LINE = 16
# Shorter names of tests are common, as `test_copy`.
_SHORTEST_NAME = 12
_WORD = re.compile(r"[A-Za-z]{3,}")
_INDEX = re.compile(r"^index [0-9a-f]{7,}\.\.[0-9a-f]{7,}")
_DEFINED = re.compile(r"\b(?:def|class|function|func|fn)\s+(\w+)")
_NAME = re.compile(r"\w+")
# The dataset's names of hidden fields: they occur only in prompts that were made from it.
_FIELDS = ("FAIL_TO_PASS", "PASS_TO_PASS")


StandInBase = Callable[[Sequence[str]], frozenset[str]]
"""Returns those of some lines that are in the base commit."""


@dataclass(frozen=True)
class Hidden:
    """One hidden field and its distinctive texts.

    Attributes:
        what: the name of the field.
        lines: lines that are unlikely in texts that may be shown.
        marks: texts of which each one alone is evidence.
    """

    what: str
    lines: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()


def hidden_of(instance: Instance, evaluation: Evaluation) -> tuple[Hidden, ...]:
    """Return the distinctive lines of each hidden field of an instance.

    A line is distinctive if it is long enough, contains two words, and is neither in the issue nor
    in the lines of the base commit that the patches show. A patch's ``index`` line is distinctive
    as well, because it contains the hash of the patched file.
    """
    known = "\n".join(
        [
            instance.problem_statement,
            *_lines(evaluation.patch, " -"),
            *_lines(evaluation.test_patch, " -"),
        ]
    )
    gold, tests = evaluation.patch, evaluation.test_patch
    fields = tuple(name for name in _FIELDS if name not in known)
    names = _names(evaluation, known)
    return (
        Hidden("the gold patch", _distinctive(_lines(gold, "+"), known), _index_lines(gold)),
        Hidden(
            "the hidden tests",
            _distinctive(_lines(tests, "+"), known),
            (*_index_lines(tests), *names),
        ),
        Hidden("the hints", _distinctive(evaluation.hints_text.splitlines(), known)),
        Hidden("the dataset's lists of tests", marks=fields),
    )


def _index_lines(patch: str) -> tuple[str, ...]:
    found = (_INDEX.match(line) for line in patch.split("\n"))
    return tuple(dict.fromkeys(match[0] for match in found if match))


def _lines(patch: str, marks: str) -> list[str]:
    lines = patch.split("\n")
    return [t[1:] for t in lines if t[:1] in tuple(marks) and t[:4] not in ("+++ ", "--- ")]


def _distinctive(lines: Iterable[str], known: str) -> tuple[str, ...]:
    stripped = dict.fromkeys(line.strip() for line in lines)
    return tuple(
        line
        for line in stripped
        if len(line) >= _SHORTEST_LINE and len(_WORD.findall(line)) > 1 and line not in known
    )


def _names(evaluation: Evaluation, known: str) -> tuple[str, ...]:
    added = _lines(evaluation.test_patch, "+")
    defined = {name for line in added for name in _DEFINED.findall(line)}
    listed = {w for test in evaluation.fail_to_pass for w in _NAME.findall(test)}
    new = defined & listed if listed else {n for n in defined if n.lower().startswith("test")}
    return tuple(sorted(n for n in new if len(n) >= _SHORTEST_NAME and n not in known))


def mirrors_at_hand(dataset: str, repos: Path | None, cache: Path) -> Mirrors:
    """Return the mirrors in which base commits are looked up; nothing is cloned.

    Args:
        dataset: the name of the dataset: bundled ones have mirrors of their own.
        repos: a folder of mirrors; None for that in the cache.
    """
    own = f"{dataset}-mirrors" if dataset in BUNDLED else "mirrors"
    return Mirrors(repos or cache / own)


def base_lookup(instance: Instance, mirrors: Mirrors | None) -> StandInBase | None:
    """Return the function that tells which lines are in an instance's base commit.

    None without a mirror that has the commit.
    """
    mirror = mirrors.find(instance.repo) if mirrors else None
    if mirror is None or not has_commit(mirror, instance.base_commit):
        return None
    return partial(stand_in_base, mirror, instance.base_commit)


def stand_in_base(mirror: Path, commit: str, lines: Sequence[str]) -> frozenset[str]:
    """Return those of ``lines`` that are in the tree of ``commit``, which a model may be shown."""
    if not lines:
        return frozenset()
    patterns = [word for line in lines for word in ("-e", line)]
    result = git_result("grep", "-a", "-h", "-F", *patterns, commit, "--", cwd=mirror)
    found = result.stdout.decode("utf-8", "replace")
    return frozenset(line for line in lines if line in found)
