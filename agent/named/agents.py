"""The coding agents of others: ``agents.yaml`` has a ``NamedAgent`` for each."""

from __future__ import annotations

from pathlib import Path

import yaml
from pydantic import TypeAdapter

from agent.named.base import NamedAgent

_FILE = Path(__file__).with_name("agents.yaml")
AGENTS = TypeAdapter(tuple[NamedAgent, ...]).validate_python(
    yaml.safe_load(_FILE.read_text("utf-8"))
)
