"""The map of a repository that a conversation opens with."""

from agent.repomap.build import RepoMap, TagStore

__all__ = ["RepoMap", "TagStore"]
