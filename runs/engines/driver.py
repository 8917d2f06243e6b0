"""What engines work with on the driver's side."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from bench.assembly import Options
from bench.cli.config import RunConfig
from core.stop import Stop
from runs.calls.hub import Hub
from runs.progress.board import Steps
from runs.storage.store import RunStore


@dataclass(frozen=True)
class Driver:
    """The process that holds the run's lock, and all that it shares with no other.

    Attributes:
        run_key: see ``runs.leftovers.run_key``.
        warn_once: tells the user, each thing once.
        log: the run's log.
    """

    config: RunConfig
    options: Options
    store: RunStore
    hub: Hub
    stop: Stop
    board: Steps
    run_key: str
    warn_once: Callable[[str], None]
    log: logging.Logger
