"""Check the entry's name, ``metadata.yaml``, README and logo."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date

from pydantic import ValidationError

from core.parsing.untrusted import yaml_of
from reports.submission.meta import Metadata, mistakes
from reports.submission.package import (
    RESEARCH_RULE_DAY,
    Kind,
    PackageFinding,
    PackageFolder,
    PackageHalves,
    PathType,
    Split,
    UnusableError,
    entry_date,
    findings_of,
)

METADATA = "metadata.yaml"
_README = "README.md"
# The subjects of the leaderboard's checklist, with words that every answer contains.
_CHECKLIST = {
    "pass@1 (one prediction per instance)": re.compile(r"pass@1|one prediction", re.I),
    "test knowledge (PASS_TO_PASS, FAIL_TO_PASS)": re.compile(r"PASS_TO_PASS|FAIL_TO_PASS"),
    "hints": re.compile(r"hints", re.I),
    "the results (the output of analysis/get_results.py)": re.compile(r"Resolved \d+ instances \("),
    "web browsing": re.compile(r"web[- ]brows|brows\w+ the web", re.I),
}
_AFFILIATED = re.compile(r"affiliat|universit|institut|research|college|\blab\b", re.IGNORECASE)
_OPEN_BOX = re.compile(r"^\s*[-*] \[ \]", re.MULTILINE)


def check_entry(entry: PackageFolder, today: date) -> Iterator[PackageFinding]:
    """Yield the faults of the entry except those of ``results/``."""
    yield from _name(entry, today)
    yield from findings_of(_metadata(entry))
    yield from findings_of(_readme(entry))
    if not any(name.startswith("logo.") for name in entry.names()):
        yield entry.fault(Kind.MISSING, "logo.*", "is missing", "add the logo's file")


def attempts_tag(entry: PackageFolder) -> str:
    """Return the tag of the metadata, ``1`` or ``2+``; empty if the metadata are not valid."""
    metadata = _read(entry)
    return metadata.tags.system.attempts if metadata else ""


def research_notes(places: PackageHalves) -> Iterator[str]:
    """Yield notes on requirements of research submissions that the entry does not seem to meet.

    These are not faults, because the maintainers decide about the rule.
    """
    entry, split = places.entry, places.split
    if entry is None or split is None or not split.research_only:
        return
    if (entry_date(entry.path.name) or RESEARCH_RULE_DAY) < RESEARCH_RULE_DAY:
        return
    metadata = _read(entry)
    if metadata and not metadata.tags.os_system:
        yield f"note: {METADATA} says os_system: false, and {split.value} asks for open methods"
    try:
        named = _AFFILIATED.search(entry.text(_README))
    except UnusableError:
        return
    if not named:
        yield f"note: {_README} names no affiliation, and {split.value} asks for one"


def _read(entry: PackageFolder) -> Metadata | None:
    try:
        return Metadata.model_validate(yaml_of(entry.text(METADATA)))
    except (UnusableError, ValueError):
        return None


def _name(entry: PackageFolder, today: date) -> Iterator[PackageFinding]:
    day, splits = entry_date(entry.path.name), [split.value for split in Split]
    if day is None:
        fix = "name it by the date and a name, as 20260930_agent_model"
        yield entry.fault(Kind.NAME, "", "is not named YYYYMMDD_name", fix)
    elif day > today:
        problem = f"its date {day} is in the future"
        yield entry.fault(Kind.NAME, "", problem, "use the day of the submission")
    if entry.path.parent.name not in splits:
        fix = f"use one of: {', '.join(splits)}"
        yield entry.fault(Kind.NAME, "", "is not in the folder of a split", fix)


def _metadata(entry: PackageFolder) -> Iterator[PackageFinding]:
    place = entry.place(METADATA)
    text = entry.text(METADATA)
    try:
        metadata = Metadata.model_validate(yaml_of(text))
    except ValidationError as error:
        for key, words in mistakes(error):
            problem, _, fix = words.partition(": ")
            yield PackageFinding(Kind.METADATA, f"{place}: {key}", problem, fix or "fix it")
        return
    except ValueError as error:
        yield PackageFinding(Kind.UNREADABLE, place, f"is not YAML ({error})", "fix it")
        return
    if metadata.tags.checked:
        problem = "checked is true, which only the leaderboard's maintainers may set"
        yield PackageFinding(Kind.METADATA, f"{place}: tags: checked", problem, "set it to false")
    logo = metadata.info.logo
    if "://" not in logo and ("/" in logo or entry.sort(logo) is not PathType.FILE):
        problem = f"{logo} is not a file of the entry"
        yield PackageFinding(Kind.METADATA, f"{place}: info: logo", problem, "name the logo's file")


def _readme(entry: PackageFolder) -> Iterator[PackageFinding]:
    text = entry.text(_README)
    for subject, words in _CHECKLIST.items():
        if not words.search(text):
            problem = f"the checklist's answer on {subject} is missing"
            yield entry.fault(Kind.README, _README, problem, "add it")
    if _OPEN_BOX.search(text):
        yield entry.fault(Kind.README, _README, "a box of the checklist is open", "check it")
