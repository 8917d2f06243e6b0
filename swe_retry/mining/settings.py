"""Which commits of a repository become rows, and how much is measured."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Annotated

from pydantic import Field

from swe_retry.attempts.own_settings import ProjectSettings
from swe_retry.core.settings import Commas, Folder, Section, TextList
from swe_retry.runner.settings import FolderSettings
from swe_retry.testing.testsettings import Tests


class Mining(Section):
    """Which commits are taken, and how often their tests run."""

    since: str = ""
    """Take commits from this day or month on; default: of the last twelve months."""

    until: str = ""
    """Take commits up to this day or month."""

    limit: int = Field(default=50, ge=1)
    """Try so many commits that fit, the newest first."""

    max_files: int = Field(default=3, ge=1)
    """Take commits with at most so many source files; a renamed one counts once."""

    paths: TextList = ()
    """Take commits whose source files all fit one of these globs or folders."""

    issues: Annotated[tuple[Folder, ...], Commas] = ()
    """Take statements from this JSON of `gh issue list` or `gh pr list`, or of GitLab's
    API; repeatable."""

    titles: bool = False
    """Take commits whose message is a title alone too."""

    repeat: int = Field(default=2, ge=2)
    """Run the tests so often on each tree."""

    jobs: int = Field(default=1, ge=1)
    """Measure so many commits at once."""

    minutes: float | None = Field(default=None, ge=0)
    """Start no commit after so many minutes."""

    @property
    def first_day(self) -> str:
        """The day or month of the oldest commits."""
        return self.since or (date.today() - timedelta(days=365)).isoformat()


class MiningSettings(Section):
    """All that ``mine`` is told."""

    mine: Mining = Mining()
    project: ProjectSettings = ProjectSettings()
    tests: Tests = Tests()
    folders: FolderSettings = Field(default_factory=FolderSettings)
