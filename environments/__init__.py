"""Where commands run: none, local (virtual environment, bubblewrap), docker."""

from core.processes import CommandResult
from core.worktree import Changes
from environments.base import (
    AS_GIVEN,
    Environment,
    FailedCommand,
    ImageSpec,
    Prepared,
    Project,
    Session,
    Setup,
    SetupWay,
    UnavailableError,
    VenvSpec,
    run_once,
)

__all__ = [
    "AS_GIVEN",
    "Changes",
    "CommandResult",
    "Environment",
    "FailedCommand",
    "ImageSpec",
    "Prepared",
    "Project",
    "Session",
    "Setup",
    "SetupWay",
    "UnavailableError",
    "VenvSpec",
    "run_once",
]
