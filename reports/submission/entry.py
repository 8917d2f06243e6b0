"""Check the entry's name, ``metadata.yaml``, README and logo."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictBool, ValidationError

from core.errors import UserError
from core.parsing.untrusted import yaml_of
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
    try:
        text = entry.text(_README)
    except UnusableError as error:
        yield error.finding
    else:
        for subject, words in _CHECKLIST.items():
            if not words.search(text):
                problem = f"the checklist's answer on {subject} is missing"
                yield entry.fault(Kind.README, _README, problem, "add it")
        if _OPEN_BOX.search(text):
            yield entry.fault(Kind.README, _README, "a box of the checklist is open", "check it")
    if not any(name.startswith("logo.") for name in entry.names()):
        yield entry.fault(Kind.MISSING, "logo.*", "is missing", "add the logo's file")


def attempts_tag(entry: PackageFolder) -> str:
    """Return the tag of the metadata, ``1`` or ``2+``; empty if the metadata are not valid."""
    metadata = _read(entry)
    return metadata.tags.system.attempts if metadata else ""


def research_notes(places: PackageHalves) -> Iterator[str]:
    """Yield notes, not faults: the maintainers decide about the rule."""
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


_VERSION = re.compile(r"\bv?\d+\.\d+|\bv\d+\b", re.IGNORECASE)


def _without_version(name: str) -> str:
    if _VERSION.search(name):
        raise ValueError("name the agent without its version")
    return name


Text = Annotated[str, Field(strict=True, min_length=1, pattern=r"\S")]
Url = Annotated[str, Field(strict=True, pattern=r"^https?://[^\s/]+\.\S+$")]
# The assets of entries before mid-2026 are in the leaderboard's own bucket.
AssetUrl = Annotated[str, Field(strict=True, pattern=r"^(?:https?|s3)://[^\s/]+\S+$")]
Names = Annotated[list[Text], Field(strict=True, min_length=1)]
AgentName = Annotated[Text, AfterValidator(_without_version)]

_FIXES = {
    "missing": "is missing: add it",
    "extra_forbidden": "is not a key of this file: remove it",
    "bool_type": "must be true or false, without quotes",
    "string_type": "must be a text; quote it if YAML reads it as a number or a date",
    "list_type": "must be a list, as `[a, b]`",
    "too_short": "is empty: add at least one",
    "string_too_short": "is empty: add a text",
    "model_type": "must contain keys with values",
    "date_from_datetime_parsing": "must be a date, as 2026-09-30",
    "date_type": "must be a date, as 2026-09-30",
}


class Info(BaseModel):
    """Name, links and authors; ``logo`` is a file of the entry."""

    name: Text
    site: Url
    report: Url
    authors: Text | Names
    logo: Text


class System(BaseModel):
    """The number of attempts: ``1``, or ``2+`` for best@k with one prediction."""

    attempts: Literal["1", "2+"]


class Tags(BaseModel):
    """The filters of the table."""

    model_config = ConfigDict(protected_namespaces=())

    checked: StrictBool  # only the maintainers set it to true
    model: Names
    org: Text | Names
    os_model: StrictBool
    os_system: StrictBool
    system: System
    agent: AgentName
    agent_org: Text
    model_display: Text
    model_org: Text


class Assets(BaseModel):
    repo: Url
    logs: AssetUrl
    trajs: AssetUrl


class Metadata(BaseModel):
    info: Info
    tags: Tags
    assets: Assets


def mistakes(error: ValidationError) -> list[tuple[str, str]]:
    found: dict[str, str] = {}
    for item in error.errors():
        # pydantic adds the type's name to the place if there is a choice of types.
        parts = map(str, item["loc"])
        place = ": ".join(part for part in parts if "[" not in part and part != "constrained-str")
        message = item["msg"].removeprefix("Value error, ")
        if item["type"] == "string_pattern_mismatch":
            message = "must be a full URL, as https://…" if "http" in message else "is empty"
        found.setdefault(place or "the file", _FIXES.get(item["type"], message))
    return list(found.items())


_TEMPLATE = Path(__file__).with_name("meta-template.yaml")
_LOGOS = (".svg", ".png", ".jpg", ".jpeg", ".webp")


class Meta(BaseModel):
    """The user's part of a submission; docs/submission.md describes each key."""

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())

    name: Text
    date: date
    folder: Annotated[str, Field(strict=True, pattern=r"^[A-Za-z0-9][A-Za-z0-9_.+-]*$")]
    site: Url
    report: Url
    authors: Names
    first_author_site: Url
    affiliations: Annotated[list[Text], Field(strict=True)] = []
    logo: Text
    model: Names
    org: Text
    os_model: StrictBool
    os_system: StrictBool
    agent: AgentName
    agent_org: Text
    model_display: Text
    model_org: Text
    artifacts: Url
    logs: Url | None = None
    trajs: Url | None = None
    web_browsing: StrictBool
    web_measures: str = ""

    def metadata(self, *, several_attempts: bool) -> Metadata:
        repo = self.artifacts.rstrip("/")
        own, tree = self.model_dump(), f"{repo}/tree/main"
        return Metadata(
            info=Info(**{**own, "authors": ", ".join(self.authors), "logo": self.logo_name}),
            tags=Tags(
                checked=False, system=System(attempts="2+" if several_attempts else "1"), **own
            ),
            assets=Assets(
                repo=repo,
                logs=self.logs or f"{tree}/logs",
                trajs=self.trajs or f"{tree}/trajs",
            ),
        )

    @property
    def logo_name(self) -> str:
        return f"logo{Path(self.logo).suffix.lower()}"


def template() -> str:
    return _TEMPLATE.read_text(encoding="utf-8")


def read_meta(path: Path) -> Meta:
    try:
        text = path.read_text(encoding="utf-8")
        data = yaml_of(text)
        if "TODO" in str(data):
            raise ValueError("a TODO is left in it: fill it in")
        meta = Meta.model_validate(data)
    except OSError as error:
        raise _mistake(path, f"cannot be read ({error.strerror}); {_HOW}") from error
    except ValidationError as error:
        place, words = mistakes(error)[0]
        raise _mistake(path, f"{place} {words}") from error
    except ValueError as error:  # not UTF-8, not YAML
        raise _mistake(path, f"cannot be used: {error}") from error
    if meta.web_browsing and not meta.web_measures.strip():
        raise _mistake(
            path, "web_measures is empty: describe how looking up solutions was prevented"
        )
    if Path(meta.logo).suffix.lower() not in _LOGOS:
        raise _mistake(path, f"logo must name an image ({', '.join(_LOGOS)})")
    return meta


_HOW = "make one with `python -m reports.submission > meta.yaml`"


def _mistake(path: Path, words: str) -> UserError:
    return UserError(f"--meta {path}: {words}")
