"""What attempts need from outside, shared by all instances of a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from agent.builtin import BuiltinAgent
from agent.protocol import Agent
from agent.repomap import TagStore
from bench.cli.config import RunConfig
from bench.repos.checkout import Snapshots
from bench.repos.mirrors import Mirrors
from core.stop import Stop
from environments import Environment
from runs.calls.hub import CallHub
from runs.calls.modelsource import ModelSource
from runs.progress.board import Steps
from runs.slots import Slots


@dataclass(frozen=True)
class Services:
    """The run's configuration, and whatever is to be had only once."""

    config: RunConfig
    mirrors: Mirrors
    snapshots: Snapshots
    tags: TagStore
    environment: Environment
    models: ModelSource
    work: Path
    baselines: Path
    warn_once: Callable[[str], None]
    hub: CallHub
    slots: Slots
    stop: Stop
    board: Steps
    agent: Agent = field(default_factory=BuiltinAgent)
