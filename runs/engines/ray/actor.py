"""The one actor of a Ray run: its methods are what workers may ask of the run.

Each call is passed on to the driver's process, and the answer back. The driver holds the run's
lock, journals and ledger, and nothing else may write them: an actor that held them could outlive a
killed driver, and write beside the process that continues the run. The driver fetches requests, so
that workers need not be able to connect to it. The methods are coroutines of one event loop:
workers that wait take no thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from llm.gate import Ask, Outcome
from runs.calls.coordinator import Ticket, Wait
from runs.calls.journal import InstanceEntry

# Seconds in which requests gather, because each exchange with the driver costs milliseconds.
_GATHER = 0.01


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
class Request:
    """A call of a worker, for the driver.

    Attributes:
        number: by which the driver answers; None when no answer is awaited.
        method: of ``RunServer``.
    """

    number: int | None
    method: str
    arguments: tuple[Any, ...]


@dataclass(frozen=True)
class DriverAnswer:
    """The driver's answer to a request: a value, or an exception to raise at the worker."""

    number: int
    value: Any = None
    error: Exception | None = None


class RunActor:
    """Passes calls on; see ``runs.engines.ray.server.RunServer`` for what each does."""

    def __init__(self) -> None:
        self._requests: asyncio.Queue[Request] = asyncio.Queue()
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._asked = 0
        self._stopping = asyncio.Event()
        self._reason = ""

    async def open(self, start: JobStart) -> bool:
        """Ask whether the job may start."""
        return bool(await self._answer("open", start))

    async def close(self, start: JobStart) -> None:
        """Report the end of the work on a job."""
        await self._answer("close", start)

    async def entries(self, start: JobStart) -> Sequence[InstanceEntry]:
        """Ask for the job's journal."""
        entries: Sequence[InstanceEntry] = await self._answer("entries", start)
        return entries

    async def begin(self, start: JobStart, attempt: int, ask: Ask) -> Ticket | Wait:
        """Ask for permission to call a model."""
        answer: Ticket | Wait = await self._answer("begin", start, attempt, ask)
        return answer

    async def end(self, start: JobStart, call: str, outcome: Outcome) -> bool:
        """Report how a call ended."""
        return bool(await self._answer("end", start, call, outcome))

    async def pass_on(self, requests: Sequence[Request]) -> None:
        """Pass on progress, lines of logs and warnings, which need no answer."""
        for request in requests:
            self._requests.put_nowait(request)

    async def stopping(self) -> str:
        """Wait until the run stops, and return why."""
        await self._stopping.wait()
        return self._reason

    async def requests(self) -> list[Request]:
        """Wait for requests and give them to the driver, in the order in which they came."""
        found = [await self._requests.get()]
        await asyncio.sleep(_GATHER)
        while not self._requests.empty():
            found.append(self._requests.get_nowait())
        return found

    async def answer(self, answers: Sequence[DriverAnswer]) -> None:
        """Take the driver's answers."""
        for answer in answers:
            future = self._answers.pop(answer.number)
            if answer.error is None:
                future.set_result(answer.value)
            else:
                future.set_exception(answer.error)

    async def stop(self, reason: str) -> None:
        """Take the driver's report that the run stops."""
        self._reason = reason
        self._stopping.set()

    async def _answer(self, method: str, *arguments: Any) -> Any:  # noqa: ANN401
        self._asked += 1
        future = self._answers[self._asked] = asyncio.get_running_loop().create_future()
        self._requests.put_nowait(Request(self._asked, method, arguments))
        return await future
