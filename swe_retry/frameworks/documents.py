"""Reports of runners in JSON, and in JUnit's XML. Pure."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator

from swe_retry.core.jsontypes import JsonMapping
from swe_retry.frameworks.results import (
    ERROR,
    FAILED,
    PASSED,
    SKIPPED,
    STATUSES,
    ParsedOutput,
    limit_detail,
    worst_statuses,
)

_MOCHA_STATUSES = {"passes": PASSED, "failures": FAILED, "pending": SKIPPED}
_RSPEC_UNLOADED = re.compile(r"(?m)^An error occurred while loading (\S+?)\.?$")
_OBJECT = re.compile(r"(?m)^\{")
# One report per run, and few other lines that begin with a brace.
_MAX_OBJECTS = 200
_XML_START = re.compile(r"(?m)^<\?xml |(?<=>)<\?xml ")
XML_STATUSES = {"failure": FAILED, "error": ERROR, "skipped": SKIPPED}


def parse_json(output: str) -> ParsedOutput:
    """Parse the JSON reports of jest, vitest, mocha and RSpec, wherever they begin in a line."""
    results = []
    reasons: dict[str, str] = {}
    for report in _json_objects(output):
        try:
            cases = [*_jest_cases(report), *_mocha_cases(report), *_rspec_cases(report)]
        except (AttributeError, KeyError, TypeError):
            continue
        for name, status, reason in cases:
            results.append((name, status))
            if reason and status == FAILED:
                reasons[name] = limit_detail(reason.split("\n"))
    return ParsedOutput(worst_statuses(results), reasons)


def _json_objects(output: str) -> Iterator[JsonMapping]:
    decoder = json.JSONDecoder()
    position = 0
    for _ in range(_MAX_OBJECTS):
        start = _OBJECT.search(output, position)
        if start is None:
            return
        try:
            value, position = decoder.raw_decode(output, start.start())
        except (ValueError, RecursionError):
            position = start.end()
        else:
            yield value


def _jest_cases(report: JsonMapping) -> Iterator[tuple[str, str, str]]:
    """Yield name, status and reason of the tests in a report of jest or vitest."""
    for file in report.get("testResults", ()):
        path = file["name"]
        cases = file["assertionResults"]
        for case in cases:
            suites = case["ancestorTitles"]
            name = " > ".join([path, *suites, case["title"]])
            reason = "\n".join(case.get("failureMessages") or ())
            yield name, STATUSES.get(case["status"], FAILED), reason
        if not cases:
            reason = str(file.get("message", ""))
            yield path, STATUSES.get(file["status"], FAILED), reason


def _mocha_cases(report: JsonMapping) -> Iterator[tuple[str, str, str]]:
    if "stats" not in report:
        return
    for key, status in _MOCHA_STATUSES.items():
        for case in report.get(key, ()):
            error = case.get("err") or {}
            yield case["fullTitle"], status, str(error.get("stack", ""))


def _rspec_cases(report: JsonMapping) -> Iterator[tuple[str, str, str]]:
    for case in report.get("examples", ()):
        name = f"{case['file_path']}: {case['full_description']}"
        exception = case.get("exception") or {}
        reason = str(exception.get("message", ""))
        yield name, STATUSES.get(case["status"], FAILED), reason
    for message in report.get("messages", ()):
        unloaded = _RSPEC_UNLOADED.search(message)
        if unloaded:
            yield unloaded[1], FAILED, message


def parse_xml(output: str) -> ParsedOutput:
    """Parse reports of JUnit's form, as Maven, Gradle and many others write them.

    Tests are named ``class::test``.
    """
    starts = [match.start() for match in _XML_START.finditer(output)] or [0]
    ends = [*starts[1:], len(output)]
    pairs = []
    reasons: dict[str, str] = {}
    for start, end in zip(starts, ends, strict=True):
        for case in cases_of(output[start:end].strip()):
            name = f"{case.get('classname', '')}::{case.get('name', '')}"
            problems = problems_of(case)
            if not problems:
                pairs.append((name, PASSED))
            for problem in problems:
                pairs.append((name, XML_STATUSES[problem.tag]))
                reason = problem.text or problem.get("message") or ""
                reasons[name] = limit_detail(reason.split("\n"))
    results = worst_statuses(pairs)
    details = {}
    for name, reason in reasons.items():
        if reason and results[name] in (FAILED, ERROR):
            details[name] = reason
    return ParsedOutput(results, details)


def problems_of(case: ElementTree.Element) -> list[ElementTree.Element]:
    """Return what tells that a test case did not pass."""
    return [child for child in case if child.tag in XML_STATUSES]


def cases_of(report: str) -> Iterator[ElementTree.Element]:
    """Yield the test cases of one report; none if it is incomplete or defines entities."""
    if "<!DOCTYPE" in report or "<!ENTITY" in report:
        return
    try:
        root = ElementTree.fromstring(report)
    except (ElementTree.ParseError, ValueError):
        return
    yield from root.iter("testcase")
