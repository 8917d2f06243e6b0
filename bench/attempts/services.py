"""What attempts need, built once in each process and shared by all its instances."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

from agent.builtin import BuiltinAgent
from agent.protocol import Agent
from agent.repomap import TagStore
from bench.config import RunConfig
from bench.instances.instance import Instance
from bench.repos.checkout import Snapshots
from bench.repos.mirrors import Mirrors
from environments import Environment
from environments.docker.imagestore.store import ImageStore
from runs.jobs import WorkerAccess
from runs.modelsource import ModelSource


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
    images: ImageStore | None = None

    def pinned(self, instance: Instance) -> AbstractContextManager[None]:
        """Keep the image of ``instance`` meanwhile; raises as ``ImageStore.pinned``."""
        if self.images is None or instance.test_setup is None:
            return nullcontext()
        return self.images.pinned(instance.image)
