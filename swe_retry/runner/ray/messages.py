"""What workers of a Ray run and the driver send each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


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
    answered: bool
