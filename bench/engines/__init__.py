"""Where instances are worked on: this machine, or a Ray cluster."""

from bench.engines.base import Engine

__all__ = ["Engine"]
