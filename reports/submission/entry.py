"""The entry: the user's ``meta.yaml``, the ``metadata.yaml`` made from it, and its check."""

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
    Split,
)

METADATA = "metadata.yaml"
_AFFILIATED = re.compile(r"affiliat|universit|institut|research|college|\blab\b", re.IGNORECASE)
_OPEN_BOX = re.compile(r"^\s*[-*] \[ \]", re.MULTILINE)


def check_entry(package: PackageFolder, meta: Meta, today: date) -> Iterator[PackageFinding]:
    """Yield the faults of the entry."""
    if meta.date > today:
        problem = f"its date {meta.date} is in the future"
        yield package.fault(Kind.NAME, package.entry, problem, "use the day of the submission")
    if _OPEN_BOX.search(package.readme.read_text(encoding="utf-8")):
        problem = "a box of the checklist is open"
        yield package.fault(Kind.README, package.readme, problem, "check it")


def research_notes(package: PackageFolder, meta: Meta, split: Split) -> Iterator[str]:
    """Yield notes, not faults: the maintainers decide about the rule."""
    if not split.research_only or meta.date < RESEARCH_RULE_DAY:
        return
    if not meta.os_system:
        yield f"note: {METADATA} says os_system: false, and {split.value} asks for open methods"
    if not _AFFILIATED.search(package.readme.read_text(encoding="utf-8")):
        yield f"note: {package.readme.name} names no affiliation, and {split.value} asks for one"


_VERSION = re.compile(r"\bv?\d+\.\d+|\bv\d+\b", re.IGNORECASE)


def _without_version(name: str) -> str:
    if _VERSION.search(name):
        raise ValueError("name the agent without its version")
    return name


Text = Annotated[str, Field(strict=True, min_length=1, pattern=r"\S")]
Url = Annotated[str, Field(strict=True, pattern=r"^https?://[^\s/]+\.\S+$")]
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
    authors: Text
    logo: Text


class System(BaseModel):
    """The number of attempts: ``1``, or ``2+`` for best@k with one prediction."""

    attempts: Literal["1", "2+"]


class Tags(BaseModel):
    """The filters of the table."""

    model_config = ConfigDict(protected_namespaces=())

    checked: StrictBool  # only the maintainers set it to true
    model: Names
    org: Text
    os_model: StrictBool
    os_system: StrictBool
    system: System
    agent: AgentName
    agent_org: Text
    model_display: Text
    model_org: Text


class Assets(BaseModel):
    repo: Url
    logs: Url
    trajs: Url


class Metadata(BaseModel):
    info: Info
    tags: Tags
    assets: Assets


def mistakes(error: ValidationError) -> list[tuple[str, str]]:
    found: dict[str, str] = {}
    for item in error.errors():
        place = ": ".join(map(str, item["loc"]))
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
    def entry_name(self) -> str:
        """The name of the entry's folder."""
        return f"{self.date:%Y%m%d}_{self.folder}"

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
