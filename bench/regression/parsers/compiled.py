"""Output of ``go test`` and ``cargo test``. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping

from bench.regression.parsers.base import (
    FAILED,
    PASSED,
    SKIPPED,
    ParsedOutput,
    blocks,
    detail,
    total,
    worst,
)

_GO_STATUSES = {"PASS": PASSED, "FAIL": FAILED, "SKIP": SKIPPED}
# A test may print without a line end before its result.
_GO_TEST = re.compile(r"^.*?--- (PASS|FAIL|SKIP): (\S+) \([\d.]+s\)$")
_GO_PACKAGE = re.compile(r"^(ok  |FAIL)\t(\S+)(?:\s+(.*))?$")
_GO_RUN = re.compile(r"^=== (?:RUN|CONT|NAME) +(\S+)$")
_GO_NOISE = re.compile(
    r"^=== |^ *--- (?:PASS|FAIL|SKIP): |^(?:PASS|FAIL)$|^ok  \t|^FAIL\t|^exit status "
)
_NO_TESTS = re.compile(r"\[no tests? (?:files|to run)\]")

_CARGO_UNIT = re.compile(r"^ +Running (?:unittests )?(\S+)(?: \((\S+)\))?$")
_CARGO_DOCS = re.compile(r"^ +Doc-tests (\S+)$")
_CARGO_HASH = re.compile(r"-[0-9a-f]{16}(?:\.exe)?$")
_CARGO_TEST = re.compile(r"^test (\S.*?)(?: - should panic)? \.\.\. (.*)$")
_CARGO_STATUS = re.compile(r"(ok|FAILED|ignored)(?:, .*)?$")
_CARGO_COUNT = re.compile(r"^test result: \w+\. (\d+) passed; ", re.MULTILINE)
# An edit above a documentation test moves it.
_DOC_LINE = re.compile(r" \(line \d+\)")
_CARGO_REASON = re.compile(r"^---- (\S.*) (?:stdout|stderr) ----$")
_CARGO_END = re.compile(r"^failures:$|^test result: ")
_CARGO_STATUSES = {"ok": PASSED, "FAILED": FAILED, "ignored": SKIPPED}


def parse_go(output: str) -> ParsedOutput:
    """Parse ``go test -v``: tests are named ``package::Test/sub``.

    Without ``-v``, or where a package cannot be built, the package itself is the test.
    """
    lines = output.split("\n")
    results = worst(_go_results(lines))
    return ParsedOutput(results, _go_details(lines, results))


def _go_results(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    waiting: list[tuple[str, str]] = []
    for line in lines:
        if test := _GO_TEST.match(line):
            waiting.append((test[2], _GO_STATUSES[test[1]]))
        elif package := _GO_PACKAGE.match(line):
            status = PASSED if package[1] == "ok  " else FAILED
            yield from ((f"{package[2]}::{name}", found) for name, found in waiting)
            # A package fails without a failed test where it cannot be built or its process dies.
            told = waiting if status == PASSED else [w for w in waiting if w[1] == FAILED]
            if not told and not _NO_TESTS.search(package[3] or ""):
                yield package[2], status
            waiting = []
    yield from waiting


def _go_details(lines: Iterable[str], results: Mapping[str, str]) -> dict[str, str]:
    printed: dict[str, list[str]] = {}
    current = ""
    for line in lines:
        if started := _GO_RUN.match(line):
            current = started[1]
        elif ended := _GO_TEST.match(line):
            current = ended[2]  # without -v, its output follows
        elif current and not _GO_NOISE.match(line):
            printed.setdefault(current, []).append(line)
        elif _GO_PACKAGE.match(line):
            current = ""
    failed = (name for name, status in results.items() if status == FAILED)
    return {n: detail(printed[t]) for n in failed if (t := n.rpartition("::")[2]) in printed}


def parse_go_json(output: str) -> ParsedOutput:
    """Parse ``go test -json``, with names as in ``parse_go``."""
    found: list[tuple[str, str]] = []
    printed: dict[str, list[str]] = {}
    for event in _go_events(output):
        package, test, action = event["Package"], event.get("Test"), event["Action"]
        name = f"{package}::{test}" if test else package
        if action == "output":
            printed.setdefault(name, []).append(str(event.get("Output", "")).rstrip("\n"))
        elif action.upper() in _GO_STATUSES:
            found.append((name, _GO_STATUSES[action.upper()]))
    results = worst(_without_explained_packages(found))
    failed = [name for name, status in results.items() if status == FAILED and name in printed]
    kept = {n: [line for line in printed[n] if not _GO_NOISE.match(line)] for n in failed}
    return ParsedOutput(results, {name: detail(lines) for name, lines in kept.items()})


def _go_events(output: str) -> Iterator[dict[str, str]]:
    for line in output.split("\n"):
        if not line.startswith("{"):
            continue
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(event.get("Package"), str) and isinstance(event.get("Action"), str):
            yield event


def _without_explained_packages(found: list[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    told = {(name.partition("::")[0], status) for name, status in found if "::" in name}
    packages = {package for package, _ in told}
    for name, status in found:
        explained = (name, FAILED) in told if status == FAILED else name in packages
        if "::" in name or not (explained or status == SKIPPED):
            yield name, status


def parse_cargo(output: str) -> ParsedOutput:
    """Parse ``cargo test``: tests are named ``crate src/lib.rs: module::test``."""
    lines = output.split("\n")
    results = worst(_cargo_results(lines))
    reasons = blocks(lines, _CARGO_REASON, _CARGO_END)
    details = {n: reasons[t] for n in results if (t := n.partition(": ")[2] or n) in reasons}
    return ParsedOutput(results, details, total(_CARGO_COUNT, output)).checked()


def _cargo_results(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    unit, waiting = "", ""
    for line in lines:
        if (started := _CARGO_UNIT.match(line)) or _CARGO_DOCS.match(line):
            unit, waiting = _cargo_unit(line) if started else f"{line.split()[-1]} docs: ", ""
        elif test := _CARGO_TEST.match(line):
            name = unit + _DOC_LINE.sub("", test[1])
            status = _CARGO_STATUS.match(test[2])
            if status:
                yield name, _CARGO_STATUSES[status[1]]
            # With --nocapture the test's output follows, and then its status.
            waiting = "" if status else name
        elif waiting and line in ("ok", "FAILED"):
            yield waiting, _CARGO_STATUSES[line]
            waiting = ""


def _cargo_unit(line: str) -> str:
    """Return ``crate src/lib.rs: `` from cargo's line about a test program that it starts."""
    match = _CARGO_UNIT.match(line)
    assert match is not None
    source, program = match.groups()
    crate = _CARGO_HASH.sub("", (program or source).rpartition("/")[2])
    return f"{crate} {source}: " if program else f"{crate}: "
