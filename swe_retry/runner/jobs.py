"""Jobs, the pieces of a run's work: what one has, how it ends, and in which order they start."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import Any, Generic, Protocol, TypeVar

from swe_retry.core.plaintext import Say
from swe_retry.core.shutdown import Shutdown
from swe_retry.llm.tracing import CallSpans
from swe_retry.record.keys import is_safe_key
from swe_retry.record.records import Attempt
from swe_retry.record.result import InstanceStatus
from swe_retry.runner.calls.coordinator import AttemptGate, WorkerCalls, recorded_calls
from swe_retry.runner.calls.journal import JournalEntry, finished_attempts
from swe_retry.runner.progress.state import Steps, WorkStep
from swe_retry.runner.slots import Slot, Slots

T_co = TypeVar("T_co", covariant=True)
J = TypeVar("J", bound="Job")


@dataclass(frozen=True)
class WorkerAccess:
    """What a worker process shares among its jobs.

    Attributes:
        cache: a folder of this machine that outlives the run.
        key: marks everything that the process starts; see ``swe_retry.runner.leftovers``.
        slots: limit the work of this machine, but not the jobs that wait for a model.
        warn_once: shows a text to the user, each text once.
    """

    cache: Path
    key: str
    slots: Slots
    stop: Shutdown
    warn_once: Say

    @property
    def work(self) -> Path:
        """The folder for what its jobs write and remove."""
        return self.cache / "work" / self.key


@dataclass(frozen=True)
class JobContext:
    """What a job in work has of its run and of its process."""

    key: str
    worker: WorkerAccess
    calls: WorkerCalls
    steps: Steps
    log: logging.Logger

    @cached_property
    def entries(self) -> Sequence[JournalEntry]:
        """The job's journal as it was when the work began."""
        return self.calls.entries(self.key)

    @cached_property
    def slot(self) -> Slot:
        return Slot(self.worker.slots)

    def step(self, attempt: int, model: str, step: WorkStep) -> None:
        self.steps.step(self.key, attempt, model, step)

    def finished_attempts(self) -> list[Attempt]:
        """Return the attempts that earlier starts finished."""
        return finished_attempts(self.entries)

    def note_attempt(self, attempt: Attempt) -> None:
        """Keep an attempt that ended for a later start."""
        self.calls.note_attempt(self.key, attempt)

    def gate(
        self,
        attempt: int,
        seconds: float | None = None,
        spans: CallSpans | None = None,
    ) -> AttemptGate:
        """Return the gate of an attempt, which replays the calls that were paid for."""
        recorded = recorded_calls(self.entries, attempt)
        return AttemptGate(
            self.calls,
            self.key,
            attempt,
            recorded,
            self.worker.stop.wait,
            seconds,
            spans,
        )


@dataclass(frozen=True)
class End(Generic[T_co]):
    """How the work on a job ended.

    Attributes:
        status: an ``InstanceStatus``, or a benchmark's own text.
        value: what ``Benchmark.save`` saves; None for a job that must be redone.
    """

    status: InstanceStatus | str
    reason: str
    value: T_co | None = None


@dataclass(frozen=True)
class Finished(Generic[T_co]):
    """A job that ended, after so many seconds of wall-clock time."""

    key: str
    end: End[T_co]
    attempts: tuple[Attempt, ...] = ()
    seconds: float = 0.0

    @classmethod
    def without_log(cls, key: str, error: OSError) -> Finished[Any]:
        """Return the end of a job whose log cannot be written; others may need less disk."""
        return cls(
            key, End(InstanceStatus.INFRA_ERROR, f"cannot write its log: {error}")
        )


class JobWork(Protocol[T_co]):
    """The work on one job."""

    def run(self) -> End[T_co]:
        """Do the work; an exception becomes the end in ``work_on``."""

    def attempts(self, end: End[Any]) -> Sequence[Attempt]:
        """Return what was done so far, also after an exception."""


class Job(Protocol):
    """One piece of a run's work; it can be pickled."""

    @property
    def key(self) -> str:
        """Names the job's files: letters, digits and ``._+-``."""

    @property
    def description(self) -> str:
        """The job in words, for the display."""

    @property
    def group(self) -> str:
        """Jobs of one group are expected to take equally long; keys are ``<group>-<rest>``."""

    def portable(self) -> Job:
        """Return the job with everything that it reads on the driver's machine."""

    def start(self, services: Any, context: JobContext) -> JobWork[Any]:  # noqa: ANN401
        """Return the work; ``services`` is what ``Benchmark.services`` built in this process."""


def longest_first(jobs: Sequence[J], seconds: Mapping[str, float]) -> list[J]:
    """Return ``jobs``, the longest expected first; equals keep their order.

    Longest processing time first ends at most a third later than the best order (Graham, 1969).
    ``seconds`` are those that jobs took before, by key. A job without an entry counts as the median
    of its group, else of all.
    """
    if not seconds:
        return list(jobs)
    groups = {job.key: job.group for job in jobs}
    by_group: dict[str, list[float]] = {}
    for key, value in seconds.items():
        prefix = key.rpartition("-")[0]
        group = groups.get(key) or prefix
        by_group.setdefault(group, []).append(value)
    usual = median(seconds.values())
    typical = {group: median(values) for group, values in by_group.items()}

    def expected_seconds(job: J) -> float:
        return seconds.get(job.key, typical.get(job.group, usual))

    return sorted(jobs, key=expected_seconds, reverse=True)


def check_keys(jobs: Sequence[Job]) -> None:
    """Check that files can be named by the keys of ``jobs``."""
    counts = Counter(job.key for job in jobs)
    for key, count in counts.items():
        if not is_safe_key(key) or count > 1:
            raise ValueError(
                f"{key!r} cannot be the key of {count} job(s): files are named by it"
            )
