"""The engine of threads: one for each job in work, because nearly all jobs only wait."""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from swe_retry.runner.engine import Driver
from swe_retry.runner.jobs import Finished, Job, JobContext, WorkerAccess, work_on
from swe_retry.runner.slots import Slots

_Ended = queue.SimpleQueue[Finished[Any] | BaseException | None]
"""The jobs that ended, and of each thread None or the exception that ended it."""


@dataclass(frozen=True)
class ThreadEngine:
    """Threads of this process.

    An exception of a job ends the run; the run stops at once, so that the other jobs can end.
    """

    driver: Driver
    worker: WorkerAccess
    services: Any

    @classmethod
    def of(cls, driver: Driver) -> ThreadEngine:
        benchmark = driver.benchmark
        processors = benchmark.config.settings.scale.processors
        worker = WorkerAccess(
            cache=benchmark.config.cache,
            key=driver.run_key,
            slots=Slots(processors, driver.stop),
            stop=driver.stop,
            warn_once=driver.warn_once,
        )
        return cls(driver, worker, benchmark.services()(worker))

    def run(
        self, jobs: Sequence[Job], may_start: Callable[[], bool]
    ) -> Iterator[Finished[Any]]:
        waiting = deque(jobs)
        ended: _Ended = queue.SimpleQueue()
        count = min(self.driver.benchmark.config.workers, len(jobs))
        for number in range(count):
            threading.Thread(
                target=self._work,
                args=(waiting, may_start, ended),
                name=f"worker-{number}",
                daemon=True,
            ).start()
        error: BaseException | None = None
        while count:
            result = ended.get()
            if result is None or isinstance(result, BaseException):
                count -= 1
                error = error or result
            else:
                yield result
        if error is not None:
            raise error

    def _work(
        self, waiting: deque[Job], may_start: Callable[[], bool], ended: _Ended
    ) -> None:
        driver = self.driver
        error: BaseException | None = None
        try:
            while may_start():
                try:
                    job = waiting.popleft()
                except IndexError:
                    break
                try:
                    with driver.start_job(job.key) as log:
                        context = JobContext(
                            job.key,
                            self.worker,
                            driver.coordinator,
                            driver.progress,
                            log,
                        )
                        finished = work_on(job, self.services, context)
                except OSError as failure:
                    finished = Finished.without_log(job.key, failure)
                ended.put(finished)
        except BaseException as failure:
            error = failure
            driver.stop.request(str(failure))
        finally:
            ended.put(error)
