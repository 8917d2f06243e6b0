"""The protocol of engines, and what the driver gives them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from swe_retry.core.plaintext import Say
from swe_retry.core.shutdown import Shutdown
from swe_retry.record.run_log import instance_log
from swe_retry.runner.benchmark import Benchmark
from swe_retry.runner.calls.coordinator import CallCoordinator
from swe_retry.runner.jobs import Finished, Job
from swe_retry.runner.leftovers import run_key
from swe_retry.runner.progress.state import Steps


class Engine(Protocol):
    """Works on jobs, several at once."""

    def run(
        self,
        jobs: Sequence[Job],
        may_start: Callable[[], bool],
    ) -> Iterator[Finished[Any]]:
        """Start ``jobs`` in their order, and yield each as it ends.

        When ``may_start`` returns False, no further job starts; those that started are yielded.
        """


@dataclass(frozen=True)
class Driver:
    """The process that holds the run's lock, with what only this process has.

    ``warn_once`` shows a text to the user, each text once.
    """

    benchmark: Benchmark[Any]
    coordinator: CallCoordinator
    progress: Steps
    warn_once: Say
    log: logging.Logger

    @property
    def stop(self) -> Shutdown:
        return self.coordinator.stop

    @property
    def run_key(self) -> str:
        return run_key(self.benchmark.store.folder)

    @contextmanager
    def start_job(self, key: str) -> Iterator[logging.Logger]:
        """Give the log of a job while it is worked on; its earlier files are out of the way."""
        store = self.benchmark.store
        store.begin(key)
        with instance_log(
            store.logs / f"{key}.log",
            key,
            self.log,
            store.redact,
        ) as log:
            self.progress.note_start(key)
            yield log
