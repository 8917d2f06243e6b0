"""Results per test in the output of the runners of other languages than Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bench.regression.noise import plain
from bench.regression.parsers import compiled, documents, javascript, lines, scripting
from bench.regression.parsers.base import LONGEST_LINE, ParsedOutput, Parser, merged
from bench.regression.runners import Runner

__all__ = ["ParsedOutput", "parse_output"]

# Reports in JSON have all of their text on one line, so they are read before lines are cut.
_WHOLE: Mapping[Runner, Sequence[Parser]] = {
    Runner.GO: (compiled.parse_go_json,),
    Runner.JEST: (documents.parse_json,),
    Runner.VITEST: (documents.parse_json,),
    Runner.MOCHA: (documents.parse_json,),
    Runner.RSPEC: (documents.parse_json,),
    Runner.SCRIPT: (compiled.parse_go_json, documents.parse_json),
}
_BY_LINES: Mapping[Runner, Sequence[Parser]] = {
    Runner.GO: (compiled.parse_go,),
    Runner.CARGO: (compiled.parse_cargo, lines.NEXTEST.parse),
    Runner.JEST: (javascript.parse_jest, lines.BRACKETED.parse),
    Runner.VITEST: (javascript.parse_vitest,),
    Runner.MOCHA: (javascript.parse_spec, javascript.parse_tap),
    Runner.NODE: (javascript.parse_tap, javascript.parse_spec),
    Runner.MAVEN: (documents.parse_maven,),
    Runner.GRADLE: (lines.GRADLE.parse,),
    Runner.PHPUNIT: (scripting.parse_testdox,),
    Runner.RSPEC: (scripting.parse_rspec, lines.SUFFIXED.parse),
    Runner.MINITEST: (scripting.parse_minitest, scripting.parse_test_unit),
}
# Each test of ctest may hold many tests of GoogleTest.
_TOGETHER: Sequence[Parser] = (lines.parse_ctest, lines.GTEST.parse)
_OTHERS: Sequence[Parser] = (
    lines.AUTOMAKE.parse,
    lines.REDIS.parse,
    lines.PYTEST_SUMMARY.parse,
    lines.PYTEST_VERBOSE.parse,
)


def parse_output(output: str, runner: Runner) -> ParsedOutput:
    """Return the results in ``output``; empty where it holds none or contradicts itself.

    A runner may print in several formats. The one with the most results counts, because lines of
    one format may look like those of another.
    """
    text = plain(output)
    cut = "\n".join(line[:LONGEST_LINE] for line in text.split("\n"))
    found = [parser(text) for parser in _WHOLE.get(runner, ())]
    found += [parser(cut) for parser in _parsers(runner)]
    if runner in (Runner.CTEST, Runner.SCRIPT):
        found.append(merged(parser(cut) for parser in _TOGETHER))
    return max(found, key=lambda one: len(one.results), default=ParsedOutput())


def _parsers(runner: Runner) -> Sequence[Parser]:
    if runner is not Runner.SCRIPT:
        return _BY_LINES.get(runner, ())
    every = [parser for parsers in _BY_LINES.values() for parser in parsers]
    return [*dict.fromkeys(every), *_OTHERS]
