"""The user's ``meta.yaml``, and the ``metadata.yaml`` of the entry that is made from it."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path
from typing import Annotated

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    ValidationError,
)

from swe_retry.core.errors import UserError
from swe_retry.core.jsontypes import JsonObject
from swe_retry.core.untrusted import yaml_of

METADATA = "metadata.yaml"
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


_TEMPLATE = Path(__file__).with_name("meta-template.yaml")
_LOGOS = (".svg", ".png", ".jpg", ".jpeg", ".webp")


class Meta(BaseModel):
    """The user's part of a submission; meta-template.yaml describes each key."""

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

    def metadata(self, *, several_attempts: bool) -> JsonObject:
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
    """Return what the file says.

    Raises:
        UserError: it is wrong, or was missing: then it is a template now.
    """
    try:
        meta = Meta.model_validate(_read_yaml(path))
    except OSError as error:
        raise _mistake(path, f"cannot be read ({error.strerror})") from error
    except ValidationError as error:
        raise _mistake(path, _describe(error)) from error
    except ValueError as error:  # not UTF-8, not YAML
        raise _mistake(path, f"cannot be used: {error}") from error
    if meta.web_browsing and not meta.web_measures.strip():
        fix = "describe how looking up solutions was prevented"
        raise _mistake(path, f"web_measures is empty: {fix}")
    logo = path.parent / meta.logo
    if logo.suffix.lower() not in _LOGOS:
        raise _mistake(path, f"logo must name an image ({', '.join(_LOGOS)})")
    if not logo.is_file():
        raise _mistake(path, f"the logo {logo} does not exist")
    return meta


def _read_yaml(path: Path) -> object:
    if not path.exists():
        path.write_text(_TEMPLATE.read_text("utf-8"), "utf-8")
        raise ValueError("it is a new template: fill it in")
    data = yaml_of(path.read_text("utf-8"))
    if "TODO" in str(data):
        raise ValueError("a TODO is left in it: fill it in")
    return data


def _describe(error: ValidationError) -> str:
    """Return the first mistake in words."""
    mistake = error.errors()[0]
    key = ": ".join(map(str, mistake["loc"])) or "the file"
    message = mistake["msg"].removeprefix("Value error, ")
    if mistake["type"] != "string_pattern_mismatch":
        return f"{key} {_FIXES.get(mistake['type'], message)}"
    if "http" in message:
        return f"{key} must be a full URL, as https://…"
    return f"{key} is empty"


def _mistake(path: Path, problem: str) -> UserError:
    return UserError(f"--meta {path}: {problem}")
