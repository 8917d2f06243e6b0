"""An instance as a job of a run: all its attempts, however they end."""

from __future__ import annotations

import time
import traceback
from dataclasses import dataclass, replace

from bench.attempts.attempts import Solved, Solver
from bench.attempts.records import AttemptRecord
from bench.attempts.services import Services
from bench.instances.instances import Instance
from bench.repos.checkout import LeakError
from core.errors import InfrastructureError, StoppedError, UserError
from core.processes import remove_tree
from runs.calls.modelsource import ReplayedModels
from runs.jobs import Finished, JobAccess
from runs.progress.statuses import InstanceStatus
from runs.slots import Slot


@dataclass(frozen=True)
class Work:
    """What was done on an instance.

    Attributes:
        solved: the choice; None where there is none yet, and the instance must be redone.
    """

    records: tuple[AttemptRecord, ...]
    solved: Solved | None


@dataclass(frozen=True)
class InstanceJob:
    """An instance to solve; see ``runs.jobs.Job``.

    Attributes:
        recordings: that are replayed; None where models are called.
    """

    instance: Instance
    recordings: ReplayedModels | None = None

    @property
    def key(self) -> str:
        """The instance's id."""
        return self.instance.instance_id

    @property
    def description(self) -> str:
        """The instance's id."""
        return self.instance.instance_id

    @property
    def group(self) -> str:
        """The repository as ids contain it."""
        return self.instance.repo.replace("/", "__")

    def portable(self) -> InstanceJob:
        """Return the job with the recordings of its instance."""
        if self.recordings is None:
            return self
        read = {self.key: self.recordings.attempts(self.key)}
        return replace(self, recordings=replace(self.recordings, read=read))

    def work(self, services: Services, access: JobAccess) -> Finished[Work]:
        """Solve the instance; see ``runs.jobs.Job``."""
        return solve(self.instance, services, access, self.recordings)


def _solved(solver: Solver) -> Solved:
    try:
        with solver.slot:
            return solver.solve()
    finally:
        # Without a slot: a disk is waited for, and others can work meanwhile.
        for folder in solver.folders:
            remove_tree(folder)


def solve(
    instance: Instance,
    services: Services,
    access: JobAccess,
    recordings: ReplayedModels | None = None,
) -> Finished[Work]:
    """Work on ``instance`` and return how it ended.

    Raises:
        UserError: the run cannot go on.
    """
    started = time.monotonic()
    if recordings is not None:
        services = replace(services, models=recordings)
    solver = Solver(instance, services, access, Slot(services.worker.slots))

    def ended(status: InstanceStatus, reason: str, solved: Solved | None = None) -> Finished[Work]:
        work = Work(tuple(solver.records), solved)
        seconds = time.monotonic() - started
        return Finished(instance.instance_id, status, reason, work, seconds)

    try:
        solved = _solved(solver)
    except UserError:
        raise
    except StoppedError as error:
        return ended(InstanceStatus.INTERRUPTED, f"interrupted: {error}")
    except (InfrastructureError, LeakError, OSError) as error:
        access.log.error("%s", traceback.format_exc())
        return ended(InstanceStatus.INFRA_ERROR, f"infrastructure failed: {error}")
    except Exception as error:  # a fault of the harness must not end the others
        access.log.error("%s", traceback.format_exc())
        return ended(InstanceStatus.ERROR, f"the harness failed: {error!r}")
    access.log.info("%s", solved.choice.reason)
    if solved.choice.status is InstanceStatus.BUDGET and not any(r.calls for r in solved.attempts):
        return ended(InstanceStatus.BUDGET, f"not started: {solved.attempts[-1].error}")
    return ended(solved.choice.status, solved.choice.reason, solved)
