"""``meta.yaml``: the details of a submission that only the user knows."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StrictBool, ValidationError

from core.errors import UserError
from core.parsing.plainyaml import yaml_of
from reports.submission.metadata import (
    Agent,
    Assets,
    Info,
    Metadata,
    Names,
    System,
    Tags,
    Text,
    Url,
    mistakes,
)

_TEMPLATE = Path(__file__).with_name("meta-template.yaml")
_LOGOS = (".svg", ".png", ".jpg", ".jpeg", ".webp")


class Meta(BaseModel):
    """The user's part of a submission; docs/submission.md describes each key.

    Attributes:
        date: the day of the submission; the name of the entry's folder starts with it.
        folder: the name of the entry's folder after the date.
        authors: the first author comes first.
        first_author_site: website or LinkedIn profile, required by the leaderboard's checklist.
        affiliations: the authors' academic institutions and research labs.
        logo: an image in the folder of ``meta.yaml``.
        artifacts: URL of the public repository for the artifacts.
        web_browsing: whether the system could browse the web.
        web_measures: how a system that could browse was prevented from looking up solutions.
    """

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
    agent: Agent
    agent_org: Text
    model_display: Text
    model_org: Text
    artifacts: Url
    logs: Url | None = None
    trajs: Url | None = None
    web_browsing: StrictBool
    web_measures: str = ""

    def metadata(self, *, several_attempts: bool) -> Metadata:
        """Return the content of ``metadata.yaml``.

        Args:
            several_attempts: whether an instance had more than one attempt.
        """
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
