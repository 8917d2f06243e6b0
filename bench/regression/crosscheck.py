"""Cross-check results in the text output of runners, so that tests cannot forge them. Pure.

Runners without a report file mix their lines with the output of the code under test. But they also
count the tests at the end and print a heading per failure; code under test can only add lines.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from bench.regression.runners import Runner

_UNITTEST_END = re.compile(
    r"^Ran (\d+) tests? in [\d.]+s\n\n(?:OK|FAILED|NO TESTS RAN)(?: \((.*)\))?$", re.M
)
_UNITTEST_HEADING = re.compile(r"^=+\n(?:FAIL|ERROR): ((?:.+\n){1,3}?)-{10,}$", re.M)
_STEP_OF_CLASS = re.compile(r"^(?:setUp|tearDown)(?:Class|Module) ")
_SUBTEST = re.compile(r"^(\S+ \(\S+\)) [\[(].*")
_SKIPPED = re.compile(r"\bskipped=(\d+)")
# In a pipe, sympy wraps its closing line at 80 columns and ignores COLUMNS.
_SYMPY_END = re.compile(
    r"^[= ]*tests finished: (\d+) passed,(?:[ \n]+[\w ]{1,60},){0,8}[ \n]+in [\d.]+ seconds", re.M
)
# There are no underscores around a name as long as the line.
_SYMPY_HEADING = re.compile(r"^_* (\S+\.py:(\w+)) _*$", re.M)
# sympy puts the result of a long name on the next line, and a file's result after its last test.
_SYMPY_WRAPPED = re.compile(r"^(test_\w+) \n(?=(?:ok|E|F)(?: +\[\w+\])?$)", re.M)
_SYMPY_LAST = re.compile(r"^(test_\w+ (?:ok|E|F)) +\[(?:OK|FAIL)\]$", re.M)
# Before 3.11 Python prints no line end after failing subtests: "a (A) ... b (A) ... ok".
_UNITTEST_GLUED = re.compile(r"^.* \.\.\. (?=\w+ \([\w.]+\)(?: \.\.\. |$))", re.M)
_PASSES = ("PASSED", "XFAIL")
_LONGEST_LINE = 500
_NOTE, _MOST_NOTES = "Testing against Django installed in", 100


def limited_output(output: str) -> str:
    """Limit ``output`` so that swebench's parsers end in time.

    Some of their patterns take time by the square of a line's length, or of the number of lines
    that look like a certain note of Django. Lines that name a test are shorter.
    """
    if output.count(_NOTE) > _MOST_NOTES:
        return ""
    return "\n".join(line[:_LONGEST_LINE] for line in output.split("\n"))


def one_per_line(output: str, runner: Runner) -> str:
    """Return ``output`` with each test and its result on one line, as swebench's parsers expect.

    Otherwise they miss sympy's tests with long names and the last test of each file, and merge two
    tests of unittest into one, which disappears once a failing subtest is fixed.
    """
    if runner is Runner.SYMPY:
        return _SYMPY_LAST.sub(r"\1", _SYMPY_WRAPPED.sub(r"\1 ", output))
    return _UNITTEST_GLUED.sub("", output)


def cross_checked(results: Mapping[str, str], output: str, runner: Runner) -> dict[str, str]:
    """Return the ``results`` that the rest of ``output`` confirms.

    A test with an explained failure has failed, whatever its result line says. Nothing is known if
    more tests passed or were skipped than the runner counted, or without exactly one count.
    """
    if runner is Runner.SYMPY:
        return _sympy(results, output)
    return _unittest(results, output)


def _sympy(results: Mapping[str, str], output: str) -> dict[str, str]:
    names = {name for pair in _SYMPY_HEADING.findall(output) for name in pair}
    kept = _with_failed(results, names)
    counts = [int(number) for number in _SYMPY_END.findall(output)]
    return kept if len(counts) == 1 and _count(kept, _PASSES) <= counts[0] else {}


def _unittest(results: Mapping[str, str], output: str) -> dict[str, str]:
    headings = [heading.splitlines() for heading in _UNITTEST_HEADING.findall(output)]
    failed = {_SUBTEST.sub(r"\1", lines[0]) for lines in headings}
    # In one of the two places the first line of a docstring may replace the name.
    kept = _with_failed(results, failed | {line for lines in headings for line in lines[1:]})
    ends = _UNITTEST_END.findall(output)
    if len(ends) != 1:
        return {}
    (ran, remarks) = ends[0]
    counted = {name for name in failed if not _STEP_OF_CLASS.match(name)}
    skipped = _SKIPPED.search(remarks)
    may_skip = int(skipped.group(1)) if skipped else 0
    enough = _count(kept, _PASSES) <= int(ran) - len(counted)
    return kept if enough and _count(kept, ("SKIPPED",)) <= may_skip else {}


def _with_failed(results: Mapping[str, str], names: Collection[str]) -> dict[str, str]:
    return {name: "FAILED" if name in names else status for name, status in results.items()}


def _count(results: Mapping[str, str], statuses: Collection[str]) -> int:
    return sum(status in statuses for status in results.values())
