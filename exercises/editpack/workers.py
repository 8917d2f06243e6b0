"""Work on parts of rows in several processes, with results in the order of the parts."""

from __future__ import annotations

import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from itertools import islice
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
        start: called once in each process, with ``arguments``.
    """
    if workers == 1:
        if start:
            start(*arguments)
        for part in parts:
            yield part, work(part)
        return
    with ExitStack() as stack:
        pool = stack.enter_context(
            ProcessPoolExecutor(workers, get_context("spawn"), start, arguments)
        )
        # Parts that wait are not worked on where the rows turn out to be wrong.
        stack.callback(pool.shutdown, wait=False, cancel_futures=True)

        def submit(part: P) -> Future[R]:
            # Processes that start here keep SIGINT blocked: Ctrl-C is for the command alone, and a
            # process that is starting would print a traceback.
            before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
            try:
                return pool.submit(work, part)
            except (
                OSError
            ) as error:  # the pipe of a pool that is just breaking is closed
                raise BrokenProcessPool from error
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)

        try:
            yield from in_order(submit, parts, _AHEAD * workers)
        except BrokenProcessPool as error:
            raise InfrastructureError(
                "a worker was killed, perhaps for want of memory; give fewer --workers"
            ) from error


def in_order(
    submit: Callable[[P], Future[R]], parts: Iterable[P], ahead: int
) -> Iterator[tuple[P, R]]:
    """Yield each part with its result, in the order of the parts; read ``ahead`` of them before."""
    waiting: deque[tuple[P, Future[R]]] = deque()
    for part in parts:
        waiting.append((part, submit(part)))
        if len(waiting) > ahead:
            first, future = waiting.popleft()
            yield first, future.result()
    for first, future in waiting:
        yield first, future.result()


def parts_of(items: Iterable[P], size: int) -> Iterator[list[P]]:
    """Yield the items in lists of ``size``; the last may be shorter."""
    rest = iter(items)
    while part := list(islice(rest, size)):
        yield part
