"""jest, vitest, mocha, Node and TAP: tests in commands, output and files. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from bench.regression.runners.base import (
    COMMAND_START,
    FAILED,
    LONGEST_LINE,
    PASSED,
    SKIPPED,
    STATUS_WORDS,
    Convention,
    Nesting,
    ParsedOutput,
    ResultLines,
    RunnerSupport,
    WholeSuite,
    blocks,
    detail,
    total,
    worst,
)
from bench.regression.runners.documents import parse_json

_PROGRAM = r"(?:(?:npx|yarn|pnpm|bun|bundle exec|php)(?: exec)? +)?(?:[\w./-]*/)?"
_DURATION = r"(?: \(?\d+(?:\.\d+)? ?m?s\)?)?"
_MARKS = {
    "✓": PASSED,
    "✔": PASSED,
    "√": PASSED,
    "✕": FAILED,
    "✖": FAILED,
    "×": FAILED,
    "✗": FAILED,
}
_MARKS |= {"○": SKIPPED, "✎": SKIPPED, "↓": SKIPPED, "□": SKIPPED, "﹣": SKIPPED}
_JEST_FILE = re.compile(r"^(PASS|FAIL) +(?:.* )?(\S+\.\S+)(?: \([\d.]+ m?s\))?$")
_JEST_TEST = re.compile(rf"^ +([✓✔√✕×○✎]) (?:skipped |todo )?(.+?){_DURATION}$")
_JEST_COUNT = re.compile(r"^Tests: +(?:.*?(\d+) passed)?.*\d+ total$", re.MULTILINE)
_JEST_REASON = re.compile(r"^  ● (\S.*)$")
_JEST_UNLOADED = "Test suite failed to run"
_JEST_END = re.compile(r"^(?:PASS|FAIL|Test Suites:) ")
_VITEST_TEST = re.compile(
    rf"^ *([✓×✗↓□❯]) (?:\|.*?\| )?(\S+\.\S+ > .+?)(?: \(retry x\d+\))?{_DURATION}$"
)
_VITEST_FILE = re.compile(
    rf"^ *([✓×✗❯↓]) (?:\|.*?\| )?(\S+\.\S+) +\((\d+).*\){_DURATION}$"
)
_VITEST_SUITE = re.compile(r"^ FAIL  (?:\|.*?\| )?(\S+\.\S+) \[ .* \]$")
_VITEST_COUNT = re.compile(r"^ +Tests +(?:.*?(\d+) passed)?.*\(\d+\)$", re.MULTILINE)
_VITEST_REASON = re.compile(r"^ FAIL  (?:\|.*?\| )?(\S.*?)(?: \[ .* \])?$")
_VITEST_END = re.compile(r"^⎯+")
_SPEC_TEST = re.compile(
    r"^( *)(?:([✓✔√✖✗×﹣])|(\d+\))|(-)) (.+?)(?: \(\d+(?:\.\d+)? ?m?s\)(?: # .*)?)?$"
)
# Lines without indentation are output of tests.
_SPEC_SUITE = re.compile(r"^(  +)(\S.*)$")
_SPEC_OPEN = re.compile(r"^( *)▶ (\S.*)$")
# mocha's explanations of failures begin with a number, or are indented by more.
_SPEC_AGAIN = re.compile(r"^  [^\s\d]")
_SPEC_END = re.compile(r"^(?: +\d+ (?:passing\b|tests? passed)|ℹ tests )")
_SPEC_NUMBER = re.compile(r"^  \d+\) ", re.MULTILINE)
_SPEC_COUNT = re.compile(r"^(?: +(\d+) (?:passing\b.*|tests? passed)|ℹ pass (\d+))$")
_TAP_TEST = re.compile(
    r"^( *)(not )?ok\b *(\d*)(?: -)? ?([^#]*?(?:\\#[^#]*?)*)(?: +# *(.*))?$"
)
_TAP_SUBTEST = re.compile(r"^( *)# Subtest: (.+)$")
_TAP_NOISE = re.compile(
    r"^ *(?:---|\.\.\.|\d+\.\.\d+|duration_ms: .*|# (?:tests|pass|fail) +\d+)$"
)
BRACKETED = ResultLines(
    re.compile(
        r"^\[(?P<status>PASSED|FAILED|PENDING|SKIPPED|TODO|DISABLED)\] (?P<name>\S.*)$"
    ),
    STATUS_WORDS,
)
"""jest's report as some task sets rewrite it with jq."""
_SUFFIXES = (".js", ".jsx", ".ts", ".tsx", ".mjs", ".cjs", ".mts", ".cts")
_JEST_SPECIAL = re.compile(r"([\[\](){}^$*+?|\\])")


def parse_jest(output: str) -> ParsedOutput:
    """Parse jest with ``--verbose``: tests are named ``file > suite > test``.

    Without it, and where a file cannot be loaded, the file itself is the test.
    """
    lines = output.split("\n")
    results = worst(_jest_results(lines))
    reasons = blocks(lines, _JEST_REASON, _JEST_END)
    tested = any(" > " in name for name in results)
    passed = total(_JEST_COUNT, output) if tested else None
    failed = (name for name, status in results.items() if status == FAILED)
    titles = {name: name.partition(" > ")[2].replace(" > ", " › ") for name in failed}
    details = {
        name: reasons[title] for name, title in titles.items() if title in reasons
    }
    if _JEST_UNLOADED in reasons:
        details |= {
            name: reasons[_JEST_UNLOADED] for name in results if " > " not in name
        }
    return ParsedOutput(results, details, passed).checked()


def _jest_results(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    file, failed, tests, inside = "", False, 0, False
    around = Nesting()
    for line in [*lines, "PASS end.end"]:
        if heading := _JEST_FILE.match(line):
            if file and not tests:
                yield file, FAILED if failed else PASSED
            file, failed, tests, inside = heading[2], heading[1] == "FAIL", 0, True
            around = Nesting()
        elif inside and (test := _JEST_TEST.match(line)):
            tests += 1
            yield (
                around.named(file, len(line) - len(line.lstrip()), test[2]),
                _MARKS[test[1]],
            )
        elif inside and line.startswith("  ") and not line.startswith("  ●"):
            around.enter(len(line) - len(line.lstrip()), line.strip())
        else:
            inside = False


def parse_vitest(output: str) -> ParsedOutput:
    """Parse vitest with ``--reporter=verbose``, with names as in ``parse_jest``.

    Other reporters name files that passed and no tests in them, so the files are the tests.
    """
    lines = output.split("\n")
    tests = [
        (m[2], _MARKS.get(m[1], FAILED)) for m in map(_VITEST_TEST.match, lines) if m
    ]
    known = {name.partition(" > ")[0] for name, _ in tests}
    files = [
        (m[2], m[1]) for m in map(_VITEST_FILE.match, lines) if m and m[2] not in known
    ]
    broken = [(m[1], FAILED) for m in map(_VITEST_SUITE.match, lines) if m]
    results = worst(
        [*tests, *((file, _MARKS.get(mark, FAILED)) for file, mark in files), *broken]
    )
    reasons = blocks(lines, _VITEST_REASON, _VITEST_END)
    passed = total(_VITEST_COUNT, output) if tests and not files else None
    return ParsedOutput(
        results, {n: reasons[n] for n in results if n in reasons}, passed
    ).checked()


def parse_spec(output: str) -> ParsedOutput:
    lines = output.split("\n")
    counts = [int(m[1] or m[2]) for m in map(_SPEC_COUNT.match, lines) if m]
    passed = sum(counts) if counts else None
    found: list[tuple[str, str]] = []
    around, suites, inside = Nesting(), set[str](), True
    for line in lines:
        if _SPEC_END.match(line):
            inside = False
        elif opened := _SPEC_OPEN.match(line):
            suites.add(around.named("", len(opened[1]), opened[2]))
            around.enter(len(opened[1]), opened[2])
        elif inside and (test := _SPEC_TEST.match(line)):
            name = around.named("", len(test[1]), test[5])
            skipped = test[4] or line.endswith("# SKIP")
            if name not in suites:  # Node repeats a suite's name with its result
                found.append(
                    (name, SKIPPED if skipped else _MARKS.get(test[2], FAILED))
                )
        elif suite := _SPEC_SUITE.match(line):
            inside = inside or bool(_SPEC_AGAIN.match(line))
            around.enter(len(suite[1]), suite[2])
    return ParsedOutput(
        worst(found), _spec_details(output), passed, counts=True
    ).checked()


def _spec_details(output: str) -> dict[str, str]:
    """Return mocha's explanations: ``  1) suite``, ``       test:`` and the lines below."""
    found: dict[str, str] = {}
    for part in _SPEC_NUMBER.split(output.partition(" failing\n")[2])[1:]:
        titles, colon, reason = part.partition(":\n")
        if colon and len(titles) < LONGEST_LINE:
            name = " > ".join(line.strip() for line in titles.split("\n"))
            found[name] = detail(reason.split("\n"))
    return found


def parse_tap(output: str) -> ParsedOutput:
    found: list[tuple[str, str]] = []
    reasons: dict[str, list[str]] = {}
    around, failed = Nesting(), ""
    for line in output.split("\n"):
        if subtest := _TAP_SUBTEST.match(line):
            around.enter(len(subtest[1]), subtest[2])
            failed = ""
        elif test := _TAP_TEST.match(line):
            title = test[4].strip() or f"test {test[3]}"
            left_out = (test[5] or "").upper().startswith(("SKIP", "TODO"))
            status = SKIPPED if left_out else FAILED if test[2] else PASSED
            name = around.named("", len(test[1]), title)
            found.append((name, status))
            failed = name if status == FAILED else ""
        elif failed and not _TAP_NOISE.match(line):
            reasons.setdefault(failed, []).append(line)
    # Producers differ in whether suites and skipped tests count.
    return ParsedOutput(
        worst(found), {name: detail(lines) for name, lines in reasons.items()}
    )


JEST = RunnerSupport(
    re.compile(COMMAND_START + r"jest(?:\.js)?(?!\S)"),
    suffixes=_SUFFIXES,
    parsers=(parse_jest, BRACKETED.parse),
    report_parsers=(parse_json,),
    parser_names=("jest",),
    swebench_parser="parse_log_jest",
    reports=("--verbose", "--json"),
    report_option="--verbose",
    whole=WholeSuite(
        re.compile(_PROGRAM + r"jest(?:\.js)?(?= |$)"),
        re.compile(
            r"--(?:verbose|ci|no-color|runInBand|silent|json|colors|no-coverage"
            r"|coverage=false)|-i"
        ),
    ),
    program=re.compile(r"jest(\.js)?"),
    values=frozenset(
        {"-c", "--config", "-w", "--maxWorkers", "-t", "--testNamePattern"}
    )
    | {
        "--env",
        "--reporters",
        "--projects",
        "--selectProjects",
        "--rootDir",
        "--testTimeout",
    }
    | {
        "--testPathIgnorePatterns",
        "--coverageDirectory",
        "--shard",
        "--outputFile",
        "--logLevel",
    },
    file_name=lambda path: _JEST_SPECIAL.sub(r"\\\1", path),
)


VITEST = RunnerSupport(
    re.compile(COMMAND_START + r"vitest(?:\.mjs)?(?!\S)"),
    suffixes=_SUFFIXES,
    parsers=(parse_vitest,),
    report_parsers=(parse_json,),
    parser_names=("vitest",),
    swebench_parser="parse_log_vitest",
    reports=("--reporter",),
    report_option="--reporter=verbose",
    whole=WholeSuite(
        re.compile(_PROGRAM + r"vitest(?: run)?(?= |$)"),
        re.compile(r"--(?:run|reporter=[\w-]+|no-watch|no-color)"),
    ),
    program=re.compile(r"vitest(\.mjs)?"),
    values=frozenset(
        {"-c", "--config", "-t", "--testNamePattern", "--reporter", "--root"}
    )
    | {
        "--dir",
        "--project",
        "--environment",
        "--pool",
        "--outputFile",
        "--shard",
        "--mode",
    },
    subcommands=frozenset({"run", "watch", "dev", "bench"}),
)


MOCHA = RunnerSupport(
    re.compile(COMMAND_START + r"_?mocha(?:\.js)?(?!\S)"),
    suffixes=_SUFFIXES,
    parsers=(parse_spec, parse_tap),
    report_parsers=(parse_json,),
    parser_names=("mocha",),
    reports=("spec", "tap", "json"),
    report_option="--reporter spec",
    whole=WholeSuite(
        re.compile(_PROGRAM + r"_?mocha(?= |$)"),
        re.compile(r"--(?:exit|recursive|no-color|reporter=\w+)"),
        frozenset({"-R", "--reporter"}),
    ),
    program=re.compile(r"_?mocha(\.js)?"),
    values=frozenset(
        {"-r", "--require", "-R", "--reporter", "-t", "--timeout", "-u", "--ui"}
    )
    | {
        "-g",
        "--grep",
        "-f",
        "--fgrep",
        "-s",
        "--slow",
        "--extension",
        "--config",
        "--package",
    }
    | {
        "-O",
        "--reporter-option",
        "--reporter-options",
        "--ignore",
        "-j",
        "--jobs",
        "--retries",
    }
    | {"--file", "--opts", "--import", "--loader", "-n", "--node-option"},
)


NODE = RunnerSupport(
    re.compile(COMMAND_START + r"node\s+(?:\S+\s+)*?--test(?!\S)"),
    suffixes=_SUFFIXES,
    parsers=(parse_tap, parse_spec),
    program=re.compile(r"node"),
    values=frozenset({"-r", "--require", "--import", "--loader", "--test-reporter"})
    | {"--test-name-pattern", "--test-reporter-destination", "-C", "--conditions"},
)


JAVASCRIPT_TESTS = Convention(
    (".js", ".jsx", ".ts", ".tsx", ".mjs", ".cjs", ".mts", ".cts", ".vue", ".svelte"),
    re.compile(
        r"(?:^|/)(?P<subject>[^/]+?)[._-](?:unit\.)?(?:test|tests|spec)\.[cm]?[jt]sx?$"
        r"|(?:^|/)(?:__tests__|tests?|specs?)/(?:.*/)?(?:test[-_.])?(?P<inside>[^/.]+)"
        r"(?:\.[^/.]+)?\.[cm]?[jt]sx?$"
    ),
    (r"""['"`](?:[^'"`\n]*/)?{stem}(?:\.\w+)?['"`]""",),
)
