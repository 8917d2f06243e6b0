"""``meta.yaml``, which the user writes, and the entry's ``metadata.yaml``, made of it.

The leaderboard's table comes from ``metadata.yaml``. It silently drops the row of a malformed file,
so types are strict.
"""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictBool, ValidationError

from core.errors import UserError
from core.parsing.untrusted import yaml_of

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
    """The locations of the artifacts."""

    repo: Url
    logs: AssetUrl
    trajs: AssetUrl


class Metadata(BaseModel):
    """The content of ``metadata.yaml``."""

    info: Info
    tags: Tags
    assets: Assets


def mistakes(error: ValidationError) -> list[tuple[str, str]]:
    """Return the path and the problem of each invalid key."""
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
        """Return the content of ``metadata.yaml``."""
        repo = self.artifacts.rstrip("/")
        tree = f"{repo}/tree/main"
        return Metadata(
            info=Info(
                name=self.name,
                site=self.site,
                report=self.report,
                authors=", ".join(self.authors),
                logo=self.logo_name,
            ),
            tags=Tags(
                checked=False,
                model=self.model,
                org=self.org,
                os_model=self.os_model,
                os_system=self.os_system,
                system=System(attempts="2+" if several_attempts else "1"),
                agent=self.agent,
                agent_org=self.agent_org,
                model_display=self.model_display,
                model_org=self.model_org,
            ),
            assets=Assets(
                repo=repo,
                logs=self.logs or f"{tree}/logs",
                trajs=self.trajs or f"{tree}/trajs",
            ),
        )

    @property
    def logo_name(self) -> str:
        """The logo's file name in the entry."""
        return f"logo{Path(self.logo).suffix.lower()}"


def template() -> str:
    """Return the commented template of ``meta.yaml``."""
    return _TEMPLATE.read_text(encoding="utf-8")


def read_meta(path: Path) -> Meta:
    """Return the user's ``meta.yaml``."""
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
