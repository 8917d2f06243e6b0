"""Threads that work on jobs: one for each job in work, because nearly all jobs only wait."""

from __future__ import annotations

import queue
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from swe_retry.core.errors import InfrastructureError, StoppedError, UserError
from swe_retry.record.result import InstanceStatus
from swe_retry.runner.engine import Driver
from swe_retry.runner.jobs import End, Finished, Job, JobContext, WorkerAccess
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


def work_on(job: Job, services: Any, context: JobContext) -> Finished[Any]:  # noqa: ANN401
    """Work on a job; only what the user has to fix leaves it as an exception."""
    started = time.monotonic()
    work = job.start(services, context)
    try:
        end = work.run()
    except UserError:
        raise
    except StoppedError as error:
        end = End(InstanceStatus.INTERRUPTED, str(error))
    except (InfrastructureError, OSError) as error:
        context.log.error("%s", traceback.format_exc())
        end = End(InstanceStatus.INFRA_ERROR, f"infrastructure failed: {error}")
    except Exception as error:  # a fault of the harness must not end the others
        context.log.error("%s", traceback.format_exc())
        end = End(InstanceStatus.ERROR, f"the harness failed: {error!r}")
    context.log.info("%s: %s", end.status, end.reason)
    attempts = tuple(work.attempts(end))
    seconds = time.monotonic() - started
    return Finished(job.key, end, attempts, seconds)
