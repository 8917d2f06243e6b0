"""The map of a repository at the start of a conversation."""

from __future__ import annotations

from swe_retry.agent.repomap.rendered import RenderedMaps
from swe_retry.agent.repomap.scanning.store import TagStore

__all__ = ["RenderedMaps", "TagStore"]
