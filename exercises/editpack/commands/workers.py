"""Work on parts of rows in several processes, with results in the order of the parts."""

from __future__ import annotations

import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager
from multiprocessing import get_context
from typing import Any, TypeVar

from core.errors import InfrastructureError

P = TypeVar("P")
R = TypeVar("R")

# Parts that wait for each worker.
_AHEAD = 3


def in_processes(
    work: Callable[[P], R],
    parts: Iterable[P],
    workers: int,
    start: Callable[..., None] | None = None,
    *arguments: Any,  # noqa: ANN401
) -> Iterator[tuple[P, R]]:
    """Yield each part with ``work(part)``, in the order of the parts, which are read few ahead.

    Args:
        work: a function of a module; one worker is this process.
        parts: pickled for other processes.
        workers: how many.
        start: called once in each process, with ``arguments``.
    """
    if workers == 1:
        if start:
            start(*arguments)
        for part in parts:
            yield part, work(part)
        return
    waiting = deque[tuple[P, Future[R]]]()
    with ExitStack() as stack:
        pool = stack.enter_context(
            ProcessPoolExecutor(workers, get_context("spawn"), start, arguments)
        )
        # Parts that wait are not worked on where the rows turn out to be wrong.
        stack.callback(pool.shutdown, wait=False, cancel_futures=True)
        try:
            for part in parts:
                with _interrupts_blocked():
                    waiting.append((part, pool.submit(work, part)))
                if len(waiting) > _AHEAD * workers:
                    yield _first(waiting)
            while waiting:
                yield _first(waiting)
        except BrokenProcessPool as error:
            raise InfrastructureError(
                "a worker was killed, perhaps for want of memory; give fewer --workers"
            ) from error


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Block SIGINT for a thread, and for the processes that it starts meanwhile, which keep it so.

    Ctrl-C is for the command alone: a process that is starting would print a traceback.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _first(waiting: deque[tuple[P, Future[R]]]) -> tuple[P, R]:
    part, future = waiting.popleft()
    return part, future.result()
