"""The protocol of engines, and what the driver gives them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from core.shutdown import Shutdown
from runs.calls.coordinator import CallCoordinator
from runs.jobs import Finished, Job, JobKind
from runs.options import Scale
from runs.progress.state import Steps
from runs.storage.run_log import instance_log
from runs.storage.store import RunStore


class Engine(Protocol):
    """Works on jobs, several at once."""

    def run(self, jobs: Sequence[Job], may_start: Callable[[], bool]) -> Iterator[Finished[Any]]:
        """Start ``jobs`` in their order, and yield each as it ends.

        When ``may_start`` returns False, no further job starts; those that started are yielded.
        """


@dataclass(frozen=True)
class Driver:
    """The process that holds the run's lock, with what only this process has.

    ``warn_once`` shows a text to the user, each text once.
    """

    kind: JobKind
    scale: Scale
    cache: Path
    store: RunStore
    coordinator: CallCoordinator
    stop: Shutdown
    progress: Steps
    run_key: str
    warn_once: Callable[[str], None]
    log: logging.Logger

    @contextmanager
    def started(self, key: str) -> Iterator[logging.Logger]:
        """Give the log of a job while it is worked on; its earlier files are out of the way."""
        self.store.begin(key)
        path = self.store.logs / f"{key}.log"
        with instance_log(path, key, self.log, self.store.redact) as log:
            self.progress.started(key)
            yield log
