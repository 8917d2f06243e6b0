"""No environment: no command runs."""

from __future__ import annotations

from dataclasses import dataclass, field

from environments.base import Project, Session, UnavailableError


@dataclass(frozen=True)
class NoEnvironment:
    """Refuses every session."""

    name: str = field(default="none", init=False)

    def start(self, project: Project) -> Session:
        raise UnavailableError("tests are not run (--environment none)")
