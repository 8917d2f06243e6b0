"""Jobs, the pieces of a run's work, and the order in which they start."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Generic, Protocol, TypeVar

from core.shutdown import Shutdown
from runs.calls.coordinator import CallCoordinator, WorkerCalls
from runs.progress.state import Steps
from runs.progress.statuses import InstanceStatus
from runs.slots import Slots
from runs.storage.layouts import is_safe_key

T_co = TypeVar("T_co", covariant=True)
J = TypeVar("J", bound="Job")


@dataclass(frozen=True)
class Finished(Generic[T_co]):
    """How a job ended.

    Attributes:
        reason: why it has this status.
        value: what ``JobKind.save`` saves; None when nothing is known of the job's work.
        seconds: wall-clock time.
    """

    key: str
    status: InstanceStatus
    reason: str
    value: T_co | None = None
    seconds: float = 0.0


@dataclass(frozen=True)
class WorkerAccess:
    """What a worker process shares among its jobs.

    Attributes:
        cache: a folder of this machine that outlives the run.
        key: marks everything that the process starts; see ``runs.leftovers``.
        slots: limit the work of this machine, but not the jobs that wait for a model.
        warn_once: shows a text to the user, each text once.
    """

    cache: Path
    key: str
    slots: Slots
    stop: Shutdown
    warn_once: Callable[[str], None]

    @property
    def work(self) -> Path:
        """The folder for what its jobs write and remove."""
        return self.cache / "work" / self.key


@dataclass(frozen=True)
class JobAccess:
    """How a job reaches its run: for permission to call a model, its progress and its log."""

    calls: WorkerCalls
    steps: Steps
    log: logging.Logger


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

    def work(self, services: Any, access: JobAccess) -> Finished[Any]:  # noqa: ANN401
        """Do the work; ``services`` is what ``JobKind.services`` built in this process."""


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
        by_group.setdefault(groups.get(key) or key.rpartition("-")[0], []).append(value)
    usual = median(seconds.values())
    typical = {group: median(values) for group, values in by_group.items()}

    def expected(job: J) -> float:
        return seconds.get(job.key, typical.get(job.group, usual))

    return sorted(jobs, key=expected, reverse=True)


@dataclass(frozen=True)
class JobKind:
    """What a run has to know about its kind of job.

    Attributes:
        services: builds what jobs need, once in each process; can be pickled.
        save: writes the result of a job, in the process that holds the run's lock. A job whose
            prediction file exists afterwards is done.
        finish: called after the last job, also after an exception.
        packages: imported by a worker on another machine, beside those of the runs.
        cpus: reserved by Ray for a job.
        containers: whether a worker that was killed may leave containers.
        words: the display's words for statuses, where they are not the statuses' names.
        order: orders the jobs by the seconds that they and others took before.
        around: a context for the jobs in their order; it may show lines to the user.
        more: lines on the run as a whole, which a terminal shows below the first.
    """

    services: Callable[[WorkerAccess], Any]
    save: Callable[[Finished[Any], CallCoordinator], None]
    finish: Callable[[], None] = lambda: None
    packages: tuple[str, ...] = ()
    cpus: float = 1.0
    containers: bool = False
    words: Mapping[InstanceStatus, str] = field(default_factory=dict)
    more: Callable[[], Sequence[str]] = tuple
    order: Callable[[Sequence[Any], Mapping[str, float]], Sequence[Job]] = longest_first
    around: Callable[[Sequence[Any], Callable[[str], None]], AbstractContextManager[None]] = (
        lambda _, __: nullcontext()
    )


def check_keys(jobs: Sequence[Job]) -> None:
    """Check that files can be named by the keys of ``jobs``."""
    counts = Counter(job.key for job in jobs)
    for key, count in counts.items():
        if not is_safe_key(key) or count > 1:
            raise ValueError(f"{key!r} cannot be the key of {count} job(s): files are named by it")
