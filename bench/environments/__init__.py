"""Where commands run: none, local (virtual environment, bubblewrap), docker."""

from bench.environments.base import (
    Changes,
    CommandResult,
    Environment,
    Session,
    UnavailableError,
)

__all__ = ["Changes", "CommandResult", "Environment", "Session", "UnavailableError"]
