"""Reports of runners in JSON, and in JUnit's XML. Pure."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Mapping
from typing import Any

from bench.regression.runners.base import (
    ERROR,
    FAILED,
    PASSED,
    SKIPPED,
    ParsedOutput,
    detail,
    worst,
)

_WORDS = {"passed": PASSED, "pass": PASSED, "pending": SKIPPED, "skipped": SKIPPED}
_WORDS |= {"todo": SKIPPED, "disabled": SKIPPED, "focused": PASSED}
_RSPEC_UNLOADED = re.compile(
    r"^An error occurred while loading (\S+?)\.?$", re.MULTILINE
)
_OBJECT = re.compile(r"^\{", re.MULTILINE)
# One report per run, and few other lines that begin with a brace.
_MOST_OBJECTS = 200
_XML_START = re.compile(r"^<\?xml |(?<=>)<\?xml ", re.MULTILINE)
XML_STATUSES = {"failure": FAILED, "error": ERROR, "skipped": SKIPPED}


def parse_json(output: str) -> ParsedOutput:
    """Parse the JSON reports of jest, vitest, mocha and RSpec, wherever they begin in a line."""
    results: list[tuple[str, str]] = []
    reasons: dict[str, str] = {}
    for report in _objects(output):
        try:
            cases = list(_cases(report))
        except (AttributeError, KeyError, TypeError):
            continue
        for name, status, reason in cases:
            results.append((name, status))
            if reason and status == FAILED:
                reasons[name] = detail(reason.split("\n"))
    return ParsedOutput(worst(results), reasons)


def _objects(output: str) -> Iterator[Mapping[str, Any]]:
    decoder, position = json.JSONDecoder(), 0
    for _ in range(_MOST_OBJECTS):
        start = _OBJECT.search(output, position)
        if start is None:
            return
        try:
            value, position = decoder.raw_decode(output, start.start())
        except (ValueError, RecursionError):
            position = start.end()
        else:
            yield value


def _cases(report: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    # jest and vitest
    for file in report.get("testResults", ()):
        cases = file["assertionResults"]
        for case in cases:
            name = " > ".join([file["name"], *case["ancestorTitles"], case["title"]])
            reason = "\n".join(case.get("failureMessages") or ())
            yield name, _WORDS.get(case["status"], FAILED), reason
        if not cases:
            yield (
                file["name"],
                _WORDS.get(file["status"], FAILED),
                str(file.get("message", "")),
            )
    mocha = {"passes": PASSED, "failures": FAILED, "pending": SKIPPED}
    for key, status in mocha.items() if "stats" in report else ():
        for case in report.get(key, ()):
            yield (
                case["fullTitle"],
                status,
                str((case.get("err") or {}).get("stack", "")),
            )
    # RSpec
    for case in report.get("examples", ()):
        name = f"{case['file_path']}: {case['full_description']}"
        reason = str((case.get("exception") or {}).get("message", ""))
        yield name, _WORDS.get(case["status"], FAILED), reason
    for message in report.get("messages", ()):
        if unloaded := _RSPEC_UNLOADED.search(message):
            yield unloaded[1], FAILED, message


def parse_xml(output: str) -> ParsedOutput:
    """Parse reports of JUnit's form, as Maven, Gradle and many others write them.

    Tests are named ``class::test``.
    """
    starts = [match.start() for match in _XML_START.finditer(output)] or [0]
    results: list[tuple[str, str]] = []
    reasons: dict[str, str] = {}
    for start, end in zip(starts, [*starts[1:], len(output)], strict=True):
        for case in cases_of(output[start:end].strip()):
            name = f"{case.get('classname', '')}::{case.get('name', '')}"
            found = [child for child in case if child.tag in XML_STATUSES]
            results += [(name, XML_STATUSES[child.tag]) for child in found] or [
                (name, PASSED)
            ]
            for child in found:
                reasons[name] = detail(
                    (child.text or child.get("message") or "").split("\n")
                )
    failed = worst(results)
    kept = {
        n: text for n, text in reasons.items() if text and failed[n] in (FAILED, ERROR)
    }
    return ParsedOutput(failed, kept)


def cases_of(report: str) -> Iterator[ElementTree.Element]:
    """Yield the test cases of one report; none if it is incomplete or defines entities."""
    if "<!DOCTYPE" in report or "<!ENTITY" in report:
        return
    try:
        yield from [*ElementTree.fromstring(report).iter("testcase")]
    except (ElementTree.ParseError, ValueError):
        return
