"""The one actor of a Ray run: passes what workers ask on to the driver, and the answers back.

The driver holds the run's lock, journals and ledger, and nothing else may write them: an actor that
held them could outlive a killed driver, and write beside the process that continues the run. The
driver fetches requests, so that workers need not be able to connect to it. The methods are
coroutines of one event loop: workers that wait take no thread. Requests and answers stay pickled
here, because they would be read and written again for nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

# Seconds in which requests gather, because each exchange with the driver costs milliseconds.
_GATHER = 0.005
KEEP_SECONDS = 600.0
"""How long answers are kept for one who asks again, because Ray lost the answer on its way."""


@dataclass(frozen=True)
class JobStart:
    """One start of a job.

    Attributes:
        number: from 1. A job whose worker is lost is started again; what the lost worker still
            sends has the old number and is refused.
    """

    key: str
    number: int


@dataclass(frozen=True)
class WorkerRequest:
    """A call of a method of ``RunServer`` by a worker, which may wait for the answer."""

    method: str
    arguments: tuple[Any, ...]
    answered: bool = True


@dataclass(frozen=True)
class DriverAnswer:
    """The driver's answer to a request: a value, or an exception to raise at the worker."""

    value: Any = None
    error: Exception | None = None


class RunActor:
    """Passes requests on; see ``runs.engines.ray.server.RunServer`` for what each does."""

    def __init__(self) -> None:
        self._requests: asyncio.Queue[tuple[str, bytes]] = asyncio.Queue()
        self._answers: dict[str, asyncio.Future[bytes]] = {}
        self._stopping = asyncio.Event()
        self._reason = ""

    async def handle(self, name: str, requests: bytes) -> bytes:
        """Have requests of a worker handled; the pickled answers have the order of the requests.

        Under one ``name`` they are handled once, however often they come.
        """
        if name not in self._answers:
            self._answers[name] = asyncio.get_running_loop().create_future()
            self._requests.put_nowait((name, requests))
        answers: bytes = await asyncio.shield(self._answers[name])
        return answers

    async def stopping(self) -> str:
        """Wait until the run stops, and return why."""
        await self._stopping.wait()
        return self._reason

    async def exchange(
        self, answers: Sequence[tuple[str, bytes]]
    ) -> list[tuple[str, bytes]]:
        """Take the driver's answers by the names of requests, and give it the next requests."""
        loop = asyncio.get_running_loop()
        for name, answer in answers:
            self._answers[name].set_result(answer)
            loop.call_later(KEEP_SECONDS, self._answers.pop, name)
        requests = [await self._requests.get()]
        await asyncio.sleep(_GATHER)
        while not self._requests.empty():
            requests.append(self._requests.get_nowait())
        return requests

    async def stop(self, reason: str) -> None:
        """Take the driver's report that the run stops."""
        self._reason = reason
        self._stopping.set()
