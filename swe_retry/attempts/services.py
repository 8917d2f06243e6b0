"""What a process has once for all its instances."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from swe_retry.agent.builtin import BuiltinAgent
from swe_retry.agent.protocol import Agent
from swe_retry.agent.repomap.scanning.store import TagStore
from swe_retry.attempts.config import RunConfig
from swe_retry.attempts.recorded import RecordedCandidates
from swe_retry.environments.base import Environment
from swe_retry.environments.docker.imagestore import ImageStore
from swe_retry.instances.instance import Instance
from swe_retry.llm.tracing import Tracing
from swe_retry.repositories.mirrors import Mirrors
from swe_retry.runner.modelsource import ModelSource


@dataclass(frozen=True)
class Services:
    """The run's configuration, and what this process has once for all its instances.

    Attributes:
        agent_versions: of coding agents, by name.
        candidates: the candidates that were made elsewhere; None where attempts make them.
    """

    config: RunConfig
    mirrors: Mirrors
    snapshots: Path
    tags: TagStore
    environment: Environment
    models: ModelSource
    agent: Agent = field(default_factory=BuiltinAgent)
    images: ImageStore | None = None
    tracing: Tracing | None = None
    candidates: RecordedCandidates | None = None
    agent_versions: Mapping[str, str] = field(default_factory=dict)

    def pin_image(self, instance: Instance) -> AbstractContextManager[object]:
        """Keep the image of ``instance`` meanwhile; raises as ``ImageStore.pinned``."""
        if self.images is None or instance.test_setup is None:
            return nullcontext()
        return self.images.pin(instance.image)
