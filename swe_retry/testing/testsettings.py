"""Where tests run, which of them, and for how long."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from swe_retry.core.settings import Section
from swe_retry.environments.base import GIB, EnvironmentKind, ResourceLimits


class TestChoice(StrEnum):
    """Which pre-existing tests run."""

    __test__ = False

    RELATED = "related"
    ALL = "all"
    NONE = "none"


class Tests(Section):
    """The pre-existing tests that judge candidates; seconds."""

    __test__ = False

    environment: EnvironmentKind | None = None
    """Run tests in docker, local (virtual environments) or none; default: docker if an
    engine answers, else local."""

    which: TestChoice = TestChoice.RELATED
    """Run these pre-existing tests of a project."""

    full_suite: bool | None = None
    """Run all tests on the candidate that would be chosen; default: with an own
    repository alone."""

    required: bool | None = None
    """Go on after a candidate that no test could judge; default: with an own repository
    alone."""

    min_passing: float = Field(default=0.2, ge=0, le=1)
    """With local environments, call no model where a smaller share of a sample of tests
    passes at the base commit; tests.required=false calls it."""

    timeout: float = Field(default=300, ge=1)
    """End a run of a candidate's tests after these seconds."""

    baseline_timeout: float = Field(default=600, ge=1)
    """End the tests at the base commit after these seconds."""

    memory: float = Field(default=ResourceLimits.memory / GIB, gt=0)
    """Give a command and all that it starts this memory, in GiB."""

    processes: int = Field(default=ResourceLimits.processes, ge=1)
    """Let a command have this many processes and threads at a time."""

    @property
    def limits(self) -> ResourceLimits:
        return ResourceLimits(self.processes, int(self.memory * GIB))
