"""``metadata.yaml`` of an entry, the source of the leaderboard's table.

The leaderboard silently drops the row of a malformed file, so types are strict.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictBool, ValidationError

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
Agent = Annotated[Text, AfterValidator(_without_version)]

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
    """The filters of the table; only the maintainers set ``checked`` to true."""

    model_config = ConfigDict(protected_namespaces=())

    checked: StrictBool
    model: Names
    org: Text | Names
    os_model: StrictBool
    os_system: StrictBool
    system: System
    agent: Agent
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
        place = [str(part) for part in item["loc"] if not _is_type_name(part)]
        words = _FIXES.get(item["type"], _plain(item["msg"], item["type"]))
        found.setdefault(": ".join(place) or "the file", words)
    return list(found.items())


def _is_type_name(part: object) -> bool:
    return isinstance(part, str) and ("[" in part or part == "constrained-str")


def _plain(message: str, kind: str) -> str:
    if kind == "string_pattern_mismatch":
        return "must be a full URL, as https://…" if "http" in message else "is empty"
    return message.removeprefix("Value error, ")
