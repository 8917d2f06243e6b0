"""The nodes of a cluster: how many workers each takes, and which are left out."""

from __future__ import annotations

import math
import re
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from swe_retry.runner.settings import ScaleSettings

NODE_VARIABLE = "SWE_RETRY_HARNESS_NODE"
"""Names a node in its environment, where its address does not: several nodes on one machine."""
# Deaths of starting workers in a row after which a node counts as unusable.
MAX_DEATHS = 4
# Seconds until a worker starts again on a node, times such deaths.
_REST = 5.0
_MAX_REST = 60.0
# Bytes of a worker process, and of each of its jobs (docs/scale.md).
_PROCESS_MEMORY = 450_000_000
_JOB_MEMORY = 10_000_000


def node_name(environ: Mapping[str, str], address: str) -> str:
    """Return the name of a node: the same after a restart, and a valid name of a folder."""
    name = environ.get(NODE_VARIABLE) or address
    name = re.sub(r"[^\w.+-]", "-", name)
    return name.lstrip(".")


@dataclass(frozen=True)
class Room:
    """What a worker takes: jobs at once, pieces of local work at once, processors and bytes."""

    jobs: int
    slots: int
    cpus: float
    memory: int = 0

    @classmethod
    def of(cls, scale: ScaleSettings, jobs: int, processes: int) -> Room:
        """Return what each of so many processes takes that work on ``jobs`` at once."""
        processes = max(1, processes)
        own_jobs = math.ceil(jobs / processes)
        if scale.cluster:
            # Where a node is lost, the workers of the others take its jobs.
            own_jobs = min(2 * own_jobs, jobs)
            memory = _PROCESS_MEMORY + own_jobs * _JOB_MEMORY
            return cls(own_jobs, 1, scale.cpus_per_instance, memory)
        slots = max(1, scale.processors // processes)
        return cls(own_jobs, slots, 1.0)


@dataclass(eq=False)
class Node:
    """A node as one run uses it.

    Attributes:
        starting: workers that are not ready yet.
        limit: of its workers; fewer once they needed more memory than there was.
        deaths: of starting workers in a row.
        problem: why it is left out; empty while it is not.
    """

    id: str
    address: str
    cpus: float
    memory: float
    workers: int = 0
    starting: int = 0
    limit: int = sys.maxsize
    deaths: int = 0
    problem: str = ""
    _rests_until: float = 0.0

    @classmethod
    def of(cls, entry: Mapping[str, Any]) -> Node:
        """Return the node of an entry of ``ray.nodes``."""
        resources = entry["Resources"]
        return cls(
            id=entry["NodeID"],
            address=entry["NodeManagerAddress"],
            cpus=resources.get("CPU", 0),
            memory=resources.get("memory", 0),
        )

    def capacity(self, room: Room) -> int:
        """Return how many workers of this size the node takes."""
        if self.problem:
            return 0
        count = self.cpus / room.cpus
        if room.memory:
            count = min(count, self.memory / room.memory)
        return min(int(count), self.limit)

    def may_start(self, room: Room) -> bool:
        """Tell whether one more worker may start: starting takes seconds of a processor."""
        if time.monotonic() < self._rests_until:
            return False
        if self.starting >= max(1, self.cpus // 2):
            return False
        return self.workers < self.capacity(room)

    def note_death(self) -> None:
        """Note that a worker died before it was ready."""
        self.deaths += 1
        rest = min(_REST * self.deaths, _MAX_REST)
        self._rests_until = time.monotonic() + rest

    def note_memory(self) -> None:
        """Note that a worker was killed because memory was short."""
        self.limit = max(1, self.workers)


class Nodes:
    """The nodes that are alive."""

    def __init__(self) -> None:
        self.alive: dict[str, Node] = {}

    def update(self, entries: Sequence[Mapping[str, Any]]) -> None:
        """Take what ``ray.nodes`` says; a node that comes back has another id."""
        alive = {}
        for entry in entries:
            if entry["Alive"]:
                name = entry["NodeID"]
                alive[name] = self.alive.get(name) or Node.of(entry)
        self.alive = alive

    def capacity(self, room: Room) -> int:
        return sum(node.capacity(room) for node in self.alive.values())

    def next_for(self, room: Room) -> Node | None:
        """Return the node where a worker starts next: the one with the fewest."""
        ready = [node for node in self.alive.values() if node.may_start(room)]
        return min(ready, key=lambda node: node.workers, default=None)

    def has_other(self, room: Room, tried: Collection[str]) -> bool:
        """Tell whether a job can be tried on a node that is not one of ``tried``."""
        others = [node for node in self.alive.values() if node.id not in tried]
        return any(node.capacity(room) for node in others)

    def problems(self, room: Room) -> list[str]:
        """Return why no node can be used; empty while one can."""
        if self.has_other(room, ()):
            return []
        return [node.problem for node in self.alive.values() if node.problem]
