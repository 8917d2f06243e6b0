"""No environment: no command runs, and every test outcome is unknown."""

from __future__ import annotations

from dataclasses import dataclass, field

from bench.checkout import Checkout
from bench.environments.base import Session, UnavailableError
from bench.instances import Instance


@dataclass(frozen=True)
class NoEnvironment:
    """Refuses every session."""

    name: str = field(default="none", init=False)

    def start(self, instance: Instance, base: Checkout) -> Session:
        """Raise UnavailableError: this is what was asked for."""
        raise UnavailableError("tests are not run (--environment none)")

    def identity(self, instance: Instance) -> str:
        """Return the same for every instance."""
        return "none"
