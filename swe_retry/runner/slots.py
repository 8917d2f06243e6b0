"""Limit the work of this machine at one time, however many jobs wait for their models."""

from __future__ import annotations

import resource
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from swe_retry.core.errors import StoppedError
from swe_retry.core.shutdown import Shutdown
from swe_retry.runner.progress.state import WorkStep

_PATIENCE = 0.5
"""Seconds between two looks at whether the run is stopping."""
_OPEN_FILES = 16384
_SWITCH_SECONDS = 0.0005


def prepare_process() -> None:
    """Prepare this process for hundreds of threads that mostly wait."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = _OPEN_FILES
    if hard != resource.RLIM_INFINITY:
        limit = min(_OPEN_FILES, hard)
    # Each job in work needs a connection, a log and pipes.
    if soft != resource.RLIM_INFINITY and soft < limit:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    # A thread that comes back from a system call waits this long for one that computes.
    sys.setswitchinterval(_SWITCH_SECONDS)


@dataclass
class Slots:
    """A number of slots; the worker that waits longest is next, new or back from a model.

    So all workers start early, and most wait for models at the same time. If workers that come back
    went first, the last ones would start when others end, and finish alone. A free slot is given to
    the next worker directly, because waking hundreds for each slot would take more time than the
    work.
    """

    count: int
    stop: Shutdown = field(default_factory=Shutdown)
    _taken: int = 0
    _waiting: deque[threading.Event] = field(default_factory=deque)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, *, heeding: bool = True) -> None:
        """Wait for a slot; while ``heeding``, raise ``StoppedError`` when the run stops."""
        self._wait(heeding)
        if heeding and self.stop.reason:
            self.give_back()
            raise StoppedError(self.stop.reason)

    def _wait(self, heeding: bool) -> None:
        turn = threading.Event()
        with self._lock:
            if self._taken < self.count:
                self._taken += 1
                return
            self._waiting.append(turn)
        while not turn.wait(_PATIENCE):
            if heeding and self.stop.reason:
                with self._lock:
                    if turn.is_set():  # the slot was given already
                        return
                    self._waiting.remove(turn)
                raise StoppedError(self.stop.reason)

    @contextmanager
    def spare(self, count: int) -> Iterator[int]:
        """Take up to ``count`` slots that no worker waits for, and yield how many there are."""
        with self._lock:
            free = 0
            if not self._waiting:
                free = self.count - self._taken
            reserved = max(0, min(count, free))
            self._taken += reserved
        try:
            yield reserved
        finally:
            for _ in range(reserved):
                self.give_back()

    def give_back(self) -> None:
        """Give the slot to the next worker."""
        with self._lock:
            if self._waiting:
                self._waiting.popleft().set()
            else:
                self._taken -= 1


@dataclass
class Slot:
    """One worker's slot; a context manager that holds it."""

    slots: Slots
    _held: bool = False

    def __enter__(self) -> Slot:
        self._take()
        return self

    def __exit__(self, *_: object) -> None:
        if self._held:
            self._give_back()

    @contextmanager
    def given_back(self) -> Iterator[None]:
        """Let others work meanwhile; a StoppedError if the run is stopping."""
        self._give_back()
        try:
            yield
        except BaseException:
            # What is still to be saved does not depend on the stop.
            self._take(heeding=False)
            raise
        self._take()

    def _take(self, *, heeding: bool = True) -> None:
        self.slots.take(heeding=heeding)
        self._held = True

    def _give_back(self) -> None:
        self._held = False
        self.slots.give_back()


@contextmanager
def waiting_for_model(
    slot: Slot,
    show: Callable[[WorkStep], None],
    settle: Callable[[], None] = lambda: None,
) -> Iterator[None]:
    """Give the slot back while a model is waited for, and show that.

    ``settle`` waits for what must have happened before a reply is used.
    """
    show(WorkStep.ASKING)
    with slot.given_back():
        settle()
        yield
    show(WorkStep.EDITING)
