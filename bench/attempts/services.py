"""What attempts need, built once in each process and shared by all its instances."""

from __future__ import annotations

from dataclasses import dataclass, field

from agent.builtin import BuiltinAgent
from agent.protocol import Agent
from agent.repomap import TagStore
from bench.cli.config import RunConfig
from bench.repos.checkout import Snapshots
from bench.repos.mirrors import Mirrors
from environments import Environment
from runs.calls.modelsource import ModelSource
from runs.jobs import WorkerAccess


@dataclass(frozen=True)
class Services:
    """The run's configuration, and what this process has once."""

    config: RunConfig
    worker: WorkerAccess
    mirrors: Mirrors
    snapshots: Snapshots
    tags: TagStore
    environment: Environment
    models: ModelSource
    agent: Agent = field(default_factory=BuiltinAgent)
