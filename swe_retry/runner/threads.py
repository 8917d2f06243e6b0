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


@dataclass(frozen=True)
class ThreadEngine:
    """Threads of this process.

    An exception of ``work`` ends the run; ``on_error`` is called with it at once, so that the other
    jobs can end.
    """

    workers: int
    work: Callable[[Job], Finished[Any]]
    on_error: Callable[[BaseException], None]

    @classmethod
    def of(cls, driver: Driver) -> ThreadEngine:
        options = driver.benchmark.options
        stop = driver.stop
        scale = options.settings.scale
        worker = WorkerAccess(
            cache=options.cache,
            key=driver.run_key,
            slots=Slots(scale.processors, stop),
            stop=stop,
            warn_once=driver.warn_once,
        )
        services = driver.benchmark.services()(worker)

        def work(job: Job) -> Finished[Any]:
            try:
                with driver.start_job(job.key) as log:
                    context = JobContext(
                        job.key,
                        worker,
                        driver.coordinator,
                        driver.progress,
                        log,
                    )
                    return work_on(job, services, context)
            except OSError as error:
                return Finished.without_log(job.key, error)

        return cls(options.workers, work, lambda error: stop.request(str(error)))

    def run(
        self,
        jobs: Sequence[Job],
        may_start: Callable[[], bool],
    ) -> Iterator[Finished[Any]]:
        waiting = deque(jobs)
        ended = queue.SimpleQueue[Finished[Any] | BaseException | None]()
        count = min(self.workers, len(jobs))
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
        self,
        waiting: deque[Job],
        may_start: Callable[[], bool],
        ended: queue.SimpleQueue[Finished[Any] | BaseException | None],
    ) -> None:
        error: BaseException | None = None
        try:
            while may_start():
                try:
                    job = waiting.popleft()
                except IndexError:
                    break
                ended.put(self.work(job))
        except BaseException as failure:
            error = failure
            self.on_error(failure)
        finally:
            ended.put(error)
