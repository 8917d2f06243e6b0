"""From a command that runs certain tests to the one that runs all. Pure.

Scripts of evaluation name hidden tests on their command lines, as files, patterns or names. So
nothing is taken over but the program, and options that are known to select nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import dropwhile

from bench.regression.commands.shell import only_command
from bench.regression.runners import Runner, pattern_of, runner_of

_VARIABLE = re.compile(
    r"(?:RUSTFLAGS|CARGO_TERM_COLOR|CGO_ENABLED|GO111MODULE|GOFLAGS|NODE_ENV|CI|TZ|NODE_OPTIONS"
    r"|FASTLANE_SKIP_UPDATE_CHECK|TERM|RAILS_ENV)=.*"
)


@dataclass(frozen=True)
class _Whole:
    """What may stay of a runner's command.

    Attributes:
        start: matches its beginning: variables aside, the program and its subcommand.
        flags: options that select nothing.
        values: such options whose value is the next word.
        end: added, for all tests.
    """

    start: re.Pattern[str]
    flags: re.Pattern[str]
    values: frozenset[str] = frozenset()
    end: str = ""


_PROGRAM = r"(?:(?:npx|yarn|pnpm|bun|bundle exec|php)(?: exec)? +)?(?:[\w./-]*/)?"
_KNOWN: Mapping[Runner, _Whole] = {
    Runner.GO: _Whole(
        re.compile(r"go test\b"),
        re.compile(r"-v|-json|-race|-short|-count=\d+|-timeout=\w+|-tags=[\w,]+"),
        frozenset({"-timeout", "-tags", "-p"}),
        "./...",
    ),
    Runner.CARGO: _Whole(
        re.compile(r"cargo (?:\+\S+ )?(?:nextest run|test)\b"),
        re.compile(r"--(?:offline|locked|release|all-features|no-default-features|workspace|all"
                   r"|no-fail-fast|features=[\w,/-]+)"),
        frozenset({"--features"}),
    ),
    Runner.JEST: _Whole(
        re.compile(_PROGRAM + r"jest(?:\.js)?(?= |$)"),
        re.compile(r"--(?:verbose|ci|no-color|runInBand|silent|json|colors|no-coverage"
                   r"|coverage=false)|-i"),
    ),
    Runner.VITEST: _Whole(
        re.compile(_PROGRAM + r"vitest(?: run)?(?= |$)"),
        re.compile(r"--(?:run|reporter=[\w-]+|no-watch|no-color)"),
    ),
    Runner.MOCHA: _Whole(
        re.compile(_PROGRAM + r"_?mocha(?= |$)"),
        re.compile(r"--(?:exit|recursive|no-color|reporter=\w+)"),
        frozenset({"-R", "--reporter"}),
    ),
    Runner.MAVEN: _Whole(
        re.compile(r"(?:[\w./-]*/)?mvn[dw]?(?= )(?= (?:.* )?(?:test|verify)\b)"),
        re.compile(r"test|verify|-B|-q|-o|-fae|-fn|--offline|--batch-mode|-Dstyle\.color=never"),
        frozenset({"-T"}),
    ),
    Runner.GRADLE: _Whole(
        re.compile(r"(?:[\w./-]*/)?gradlew?(?= )"),
        re.compile(r"test|--continue|--offline|--no-daemon|--console=\w+|--rerun-tasks"),
    ),
    Runner.PHPUNIT: _Whole(
        re.compile(_PROGRAM + r"phpunit(?= |$)"),
        re.compile(r"--(?:testdox|colors=\w+|no-coverage|no-progress)"),
    ),
    Runner.RSPEC: _Whole(
        re.compile(_PROGRAM + r"rspec(?= |$)"),
        re.compile(r"--(?:no-color|format=\w+)"),
        frozenset({"--format", "-f"}),
    ),
    Runner.CTEST: _Whole(
        re.compile(r"ctest(?= |$)"),
        re.compile(r"-V|--output-on-failure|-j\d*|--verbose"),
        frozenset({"--test-dir", "-j"}),
    ),
}  # fmt: skip


def whole_suite(command: str) -> str | None:
    """Return the command that runs all tests with the runner of ``command``.

    None where its runner or its form is not understood. A pipe behind it is left out.
    """
    runner = runner_of(command)
    known = _KNOWN.get(runner) if runner else None
    one = only_command(command, pattern_of(runner)) if runner and known else None
    if one is None or known is None or one.folder:
        return None
    variables = [word for word in one.words if _VARIABLE.fullmatch(word)]
    rest = " ".join(dropwhile(re.compile(r"\w+=").match, one.words))
    start = known.start.match(rest)
    if start is None:
        return None
    kept = _kept(tuple(rest[start.end() :].split()), known)
    return " ".join([*variables, start[0], *kept, *([known.end] if known.end else [])])


def _kept(words: tuple[str, ...], known: _Whole) -> Iterator[str]:
    before = ""
    for word in words:
        if word == "--":
            return
        value = before in known.values and re.fullmatch(r"[\w.,:/-]+", word)
        if word in known.values or value or known.flags.fullmatch(word):
            yield word
        before = word
