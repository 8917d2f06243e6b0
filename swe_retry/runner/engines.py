"""Where jobs are worked on: threads of this process, or Ray."""

from __future__ import annotations

import os
from importlib.util import find_spec

from swe_retry.core.errors import UserError
from swe_retry.runner.engine import Driver, Engine
from swe_retry.runner.threads import ThreadEngine

__all__ = ["Driver", "Engine", "make_engine"]


def make_engine(driver: Driver) -> Engine:
    """Return the engine that ``scale.ray`` chooses."""
    scale = driver.benchmark.config.settings.scale
    if not scale.ray:
        return ThreadEngine.of(driver)
    if find_spec("ray") is None:
        raise UserError(
            "scale.ray needs Ray: run `make setup-ray`, or install the extra ray"
        )
    if not scale.cluster:
        # Ray reads it at its import: a node of this machine alone listens at 127.0.0.1 only.
        os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
    from swe_retry.runner.ray.engine import RayEngine  # its import takes a second

    return RayEngine(driver)
