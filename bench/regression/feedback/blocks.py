"""The blocks of a runner's output that explain failures, each with its titles."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bench.regression.runners import Runner

_RULE = re.compile(r"^(=+|-+|_+)$")
_SECTION = re.compile(r"^=+ (.+?) =+$")
_PYTEST_TITLE = re.compile(r"^_+ (?![_ ]+$)(.+?) _+$")
_PYTEST_STEP = re.compile(r"^(?:ERROR at (?:setup|teardown) of |ERROR collecting |\[doctest\] )")
_CAPTURED = re.compile(r"^-+ Captured .+ -+$")
_UNITTEST_TITLE = re.compile(r"^(?:ERROR|FAIL): (.+)$")
_SYMPY_TITLE = re.compile(r"^_+ (\S+\.py:\w+) _+$")
_SYMPY_END = re.compile(r"^[= ]*tests finished:|^_{40,}$")


@dataclass(frozen=True)
class FailureBlock:
    """One explanation: the titles above it, and its lines."""

    titles: tuple[str, ...]
    lines: tuple[str, ...]


def blocks_of(output: str, runner: Runner) -> list[FailureBlock]:
    """Return the blocks of ``output`` in order; noise must be removed before."""
    lines = output.split("\n")
    if runner is Runner.PYTEST:
        return list(_pytest(lines))
    if runner is Runner.SYMPY:
        return list(_sympy(lines))
    return list(_unittest(lines))


def _pytest(lines: Sequence[str]) -> Iterator[FailureBlock]:
    """Yield the blocks of the sections FAILURES and ERRORS, without captured output.

    A title is `test_a`, `TestA.test_b[1]`, or the path of a file that cannot be imported.
    """
    inside = False
    title: str | None = None
    body: list[str] = []
    for line in [*lines, "= end ="]:
        section, heading = _SECTION.match(line), _PYTEST_TITLE.match(line)
        if title is not None and (section or (inside and heading)):
            yield FailureBlock((title,), tuple(_before_captured(body)))
            title = None
        if section:
            inside = section.group(1) in ("FAILURES", "ERRORS")
        elif inside and heading:
            title, body = _PYTEST_STEP.sub("", heading.group(1)), []
        else:
            body.append(line)


def _before_captured(body: Sequence[str]) -> Iterator[str]:
    for line in body:
        if _CAPTURED.match(line):
            return
        yield line


def _unittest(lines: Sequence[str]) -> Iterator[FailureBlock]:
    """Yield the blocks `FAIL: test_a (module.Class)`; the first line of a docstring may follow."""
    starts = [
        number
        for number, line in enumerate(lines)
        if _UNITTEST_TITLE.match(line) and number and lines[number - 1].startswith("====")
    ]
    every = [n for n, line in enumerate(lines) if len(line) > 40 and _RULE.match(line)]
    for start in starts:
        at = bisect_left(every, start)
        if rules := every[at : at + 2]:
            end = rules[1] if len(rules) > 1 else len(lines)
            titles = [_UNITTEST_TITLE.sub(r"\1", line) for line in lines[start : rules[0]]]
            yield FailureBlock(tuple(titles), tuple(lines[rules[0] + 1 : end]))


def _sympy(lines: Sequence[str]) -> Iterator[FailureBlock]:
    title: str | None = None
    body: list[str] = []
    for line in [*lines, "_" * 80]:
        if title is not None and _SYMPY_END.match(line):
            yield FailureBlock((title, title.rpartition(":")[2]), tuple(body))
            title = None
        if heading := _SYMPY_TITLE.match(line):
            title, body = heading.group(1), []
        else:
            body.append(line)
