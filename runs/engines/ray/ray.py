"""The Ray engine: instances as tasks of a running cluster, begun anew when a worker dies."""

from __future__ import annotations

import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import ray
from ray.exceptions import RayError, RayTaskError, TaskCancelledError

from bench.assembly import make_models
from bench.attempts.solving import Finished
from bench.cli.config import RunConfig, TestChoice
from bench.instances.instances import Instance
from core.errors import UserError
from environments.base import EnvironmentKind
from llm.replay import RecordedAttempt
from runs.calls.modelsource import ModelSource, ReplayedModels
from runs.engines.desk import Desk
from runs.engines.driver import Driver
from runs.engines.losses import Losses
from runs.engines.ray.raycluster import connected, make_mailbox, served
from runs.engines.ray.rayworker import Plan, Task, work
from runs.engines.remote import Returned

# Seconds between two looks at whether the run is stopping.
_LOOK = 0.5
# Seconds until a lost instance is begun anew, times its losses: for a while the cluster does not
# know that a node is dead, and would send it there again.
_REST = 5.0


def cpus_of(config: RunConfig) -> float:
    """Return the processors of an instance: a whole one where tests run, else mostly waiting."""
    untested = config.environment is EnvironmentKind.NONE or config.tests is TestChoice.NONE
    return 0.25 if untested else 1.0


@dataclass(frozen=True)
class RayEngine:
    """Tasks of a Ray cluster; see ``Engine``."""

    driver: Driver

    def run(
        self, instances: Sequence[Instance], may_start: Callable[[], bool]
    ) -> Iterator[Finished]:
        """See ``Engine``."""
        driver, scale = self.driver, self.driver.options.scale
        models = make_models(driver.config, driver.options, driver.warn_once)
        cpus = scale.cpus_per_instance or cpus_of(driver.config)
        with connected(scale.ray_address, cpus):
            mailbox = make_mailbox(scale.workers)
            desk = Desk(driver, may_start)
            plan = Plan(uuid.uuid4().hex, driver.config, driver.options, driver.run_key, mailbox)
            task = ray.remote(work).options(
                num_cpus=cpus, max_retries=0, scheduling_strategy="SPREAD"
            )
            with served(mailbox, desk, driver.stop):
                losses = Losses(driver, desk, may_start)
                flights = _Flights(
                    driver, desk, may_start, losses, mailbox, task, ray.put(plan), models
                )
                yield from flights.run(instances)


@dataclass
class _Flights:
    """The tasks of one run.

    Attributes:
        mailbox: the handle of the run's actor.
        task: the remote function.
        plan: the reference of the workers' ``Plan``.
        models: where a replay's recordings are read.
    """

    driver: Driver
    desk: Desk
    may_start: Callable[[], bool]
    losses: Losses
    mailbox: Any
    task: Any
    plan: Any
    models: ModelSource
    _waiting: deque[Instance] = field(default_factory=deque)
    _under_way: dict[Any, Instance] = field(default_factory=dict)
    _resting: list[tuple[float, Instance]] = field(default_factory=list)
    _mend: str = ""
    _told: bool = False

    def run(self, instances: Sequence[Instance]) -> Iterator[Finished]:
        """Yield each instance as it ends.

        Raises:
            UserError: a node lacks something.
        """
        self._waiting.extend(instances)
        while True:
            if self.may_start():
                self._submit()
            elif not self._told:
                self._call_off()
            if not self._under_way and not self._resting:
                break
            for reference in self._ready():
                yield from self._ended(reference, self._under_way.pop(reference))
        if self._mend:
            raise UserError(self._mend)

    def _ready(self) -> Sequence[Any]:
        """Return the tasks that have ended, after some time at most."""
        if not self._under_way:
            time.sleep(_LOOK)
            return ()
        ready, _ = ray.wait(list(self._under_way), timeout=_LOOK)
        return tuple(ready)

    def _submit(self) -> None:
        now = time.monotonic()
        self._waiting.extendleft(instance for until, instance in self._resting if until <= now)
        self._resting = [(until, instance) for until, instance in self._resting if until > now]
        while self._waiting and len(self._under_way) < self.driver.options.scale.workers:
            instance = self._waiting.popleft()
            start = self.desk.start(instance.instance_id)
            task = Task(instance, start, self._recorded(instance.instance_id))
            self._under_way[self.task.remote(self.plan, task)] = instance

    def _recorded(self, name: str) -> Mapping[int, RecordedAttempt]:
        return self.models.attempts(name) if isinstance(self.models, ReplayedModels) else {}

    def _call_off(self) -> None:
        """Tell the workers that the run stops, and begin nothing that waits for a processor."""
        self._resting.clear()
        if reason := self.driver.hub.stopping():
            self.mailbox.stop.remote(reason)
            self._told = True
        for reference, instance in self._under_way.items():
            if self.desk.waits(instance.instance_id):
                ray.cancel(reference)

    def _ended(self, reference: Any, instance: Instance) -> Iterator[Finished]:  # noqa: ANN401
        try:
            returned: Returned = ray.get(reference)
        except TaskCancelledError:
            return
        except RayTaskError as error:
            why = f"{type(error.cause).__name__}: {error.cause}".partition("\n")[0]
            returned = Returned(
                mend=f"a node cannot run the harness ({why}): install requirements-ray.txt there"
            )
        except RayError as error:
            yield from self._lost(instance, type(error).__name__)
            return
        if returned.mend:
            self._mend = self._mend or returned.mend
            self.driver.stop.request(returned.mend)
        if returned.finished is not None:
            yield returned.finished

    def _lost(self, instance: Instance, why: str) -> Iterator[Finished]:
        """Have an instance begun anew whose worker or node died."""
        count = self.losses.add(instance.instance_id, why)
        if finished := self.losses.end(instance.instance_id, why):
            yield finished
        else:
            self._resting.append((time.monotonic() + _REST * count, instance))
