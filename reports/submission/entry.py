"""The entry: the user's ``meta.yaml``, the ``metadata.yaml`` made from it, and its check."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    ValidationError,
)

from core.errors import UserError
from core.parsing.untrusted import yaml_of
from reports.submission.package import (
    RESEARCH_RULE_DAY,
    PackageFolder,
    Split,
)

METADATA = "metadata.yaml"
_AFFILIATED = re.compile(
    r"affiliat|universit|institut|research|college|\blab\b", re.IGNORECASE
)
_OPEN_BOX = re.compile(r"^\s*[-*] \[ \]", re.MULTILINE)


def check_entry(package: PackageFolder, meta: Meta, today: date) -> Iterator[str]:
    """Yield the faults of the entry."""
    if meta.date > today:
        problem = f"its date {meta.date} is in the future"
        yield package.fault(
            "name", package.entry, problem, "use the day of the submission"
        )
    if _OPEN_BOX.search(package.readme.read_text(encoding="utf-8")):
        problem = "a box of the checklist is open"
        yield package.fault("readme", package.readme, problem, "check it")


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


def _first_mistake(error: ValidationError) -> str:
    item = error.errors()[0]
    place = ": ".join(map(str, item["loc"])) or "the file"
    message = item["msg"].removeprefix("Value error, ")
    if item["type"] == "string_pattern_mismatch":
        message = (
            "must be a full URL, as https://…" if "http" in message else "is empty"
        )
    return f"{place} {_FIXES.get(item['type'], message)}"


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

    def metadata(self, *, several_attempts: bool) -> dict[str, Any]:
        """Return the content of ``metadata.yaml``; its tags are the filters of the table."""
        repo = self.artifacts.rstrip("/")
        tree = f"{repo}/tree/main"
        return {
            "info": {
                "name": self.name,
                "site": self.site,
                "report": self.report,
                "authors": ", ".join(self.authors),
                "logo": self.logo_name,
            },
            "tags": {
                "checked": False,  # only the maintainers set it to true
                "model": self.model,
                "org": self.org,
                "os_model": self.os_model,
                "os_system": self.os_system,
                # ``2+`` is best@k with one prediction.
                "system": {"attempts": "2+" if several_attempts else "1"},
                "agent": self.agent,
                "agent_org": self.agent_org,
                "model_display": self.model_display,
                "model_org": self.model_org,
            },
            "assets": {
                "repo": repo,
                "logs": self.logs or f"{tree}/logs",
                "trajs": self.trajs or f"{tree}/trajs",
            },
        }

    @property
    def entry_name(self) -> str:
        """The name of the entry's folder."""
        return f"{self.date:%Y%m%d}_{self.folder}"

    @property
    def logo_name(self) -> str:
        return f"logo{Path(self.logo).suffix.lower()}"


def read_meta(path: Path) -> Meta:
    """Return what the file says; where there is none, write a template and raise a UserError."""
    try:
        if not path.exists():
            path.write_text(_TEMPLATE.read_text(encoding="utf-8"), encoding="utf-8")
            raise ValueError("it is a new template: fill it in")
        text = path.read_text(encoding="utf-8")
        data = yaml_of(text)
        if "TODO" in str(data):
            raise ValueError("a TODO is left in it: fill it in")
        meta = Meta.model_validate(data)
    except OSError as error:
        raise _mistake(path, f"cannot be read ({error.strerror})") from error
    except ValidationError as error:
        raise _mistake(path, _first_mistake(error)) from error
    except ValueError as error:  # not UTF-8, not YAML
        raise _mistake(path, f"cannot be used: {error}") from error
    if meta.web_browsing and not meta.web_measures.strip():
        raise _mistake(
            path,
            "web_measures is empty: describe how looking up solutions was prevented",
        )
    if Path(meta.logo).suffix.lower() not in _LOGOS:
        raise _mistake(path, f"logo must name an image ({', '.join(_LOGOS)})")
    return meta


def _mistake(path: Path, words: str) -> UserError:
    return UserError(f"--meta {path}: {words}")
